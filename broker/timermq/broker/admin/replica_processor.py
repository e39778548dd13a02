"""Replicas, as operators ask about them.

Source: Java ``AdminBrokerProcessor.getBrokerHaStatus``, ``resetMasterFlushOffset``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import attrs
import trio

from timermq.remoting.codes import RequestCode, ResponseCode
from timermq.remoting.command import Command
from timermq.remoting.queue_json import encode_json
from timermq.timerstore.message_store import MessageStore

from ..dispatcher import Handler
from ..replication.follow_state import FollowState
from ..replication.followers import Followers
from ..replication.role import Role
from ..session import Session


@attrs.frozen(eq=False, kw_only=True)
class ReplicaProcessor:
    """Answers for a master and its followers, and for a follower and its master."""

    store: MessageStore
    followers: Followers
    role: Role
    follow_state: FollowState
    now_ms: Callable[[], int]

    def handlers(self) -> Mapping[int, Handler]:
        """Request code to the method that answers it."""
        return {
            RequestCode.GET_BROKER_HA_STATUS: self.status,
            RequestCode.RESET_MASTER_FLUSH_OFFSET: self.reset_master_flush_offset,
        }

    def status(self, _session: Session, command: Command) -> Command:
        """How far the log is, each follower that is linked, and how a follower stands (907)."""
        rows = self.followers.rows()
        body: dict[str, object] = {
            "haClientRuntimeInfo": self._client(),
            "haConnectionInfo": [
                {
                    "addr": one.address,
                    "diff": one.behind,
                    "inSync": one.is_in_sync,
                    "silentMs": one.silent_ms,
                    "slaveAckOffset": one.acknowledged,
                    "transferFromWhere": one.sent,
                    "transferredByteInSecond": one.sent_per_second,
                }
                for one in rows
            ],
            "inSyncSlaveNums": sum(one.is_in_sync for one in rows),
            "master": self.role.is_master,
            "masterCommitLogMaxOffset": self.store.commit_log.max_offset,
        }
        return command.answer(ResponseCode.SUCCESS, body=encode_json(body))

    def _client(self) -> dict[str, object]:
        """Java ``HAClientRuntimeInfo``, with what RocketMQ's slave does not say."""
        state, now = self.follow_state, trio.current_time()
        is_master = self.role.is_master

        def moment(seconds: float) -> int:
            return round(self.now_ms() - (now - seconds) * 1000) if seconds else 0

        body: dict[str, object] = {
            "activated": not is_master and state.is_linked,
            "lastReadTimestamp": 0 if is_master else moment(state.read_at),
            "lastWriteTimestamp": 0 if is_master else moment(state.written_at),
            "masterFlushOffset": 0 if is_master else state.master_end,
            "maxOffset": 0 if is_master else self.store.commit_log.max_offset,
            "transferredByteInSecond": 0 if is_master else state.per_second(now),
        }
        if not is_master:
            row = state.row(now)
            body |= {
                "behind": row.behind,
                "behindMs": row.behind_ms,
                "error": row.error,
                "masterAddr": state.ha_address or "",
            }
        return dict(sorted(body.items()))

    def reset_master_flush_offset(self, _session: Session, command: Command) -> Command:
        """Nothing, as in RocketMQ: a master has no offset of its master (908)."""
        return command.answer(ResponseCode.SUCCESS)
