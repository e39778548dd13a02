"""Replicas, as operators ask about them.

Source: Java ``AdminBrokerProcessor.getBrokerHaStatus``, ``resetMasterFlushOffset``.
"""

from __future__ import annotations

from collections.abc import Mapping

import attrs

from timermq.remoting.codes import RequestCode, ResponseCode
from timermq.remoting.command import Command
from timermq.remoting.queue_json import encode_json
from timermq.timerstore.message_store import MessageStore

from ..dispatcher import Handler
from ..replication.followers import Followers
from ..session import Session

_NO_CLIENT: Mapping[str, object] = {
    "activated": False,
    "lastReadTimestamp": 0,
    "lastWriteTimestamp": 0,
    "masterFlushOffset": 0,
    "maxOffset": 0,
    "transferredByteInSecond": 0,
}
"""Java ``HAClientRuntimeInfo`` of a master, which follows no other broker."""


@attrs.frozen(eq=False, kw_only=True)
class ReplicaProcessor:
    """Answers for a master and its followers."""

    store: MessageStore
    followers: Followers

    def handlers(self) -> Mapping[int, Handler]:
        """Request code to the method that answers it."""
        return {
            RequestCode.GET_BROKER_HA_STATUS: self.status,
            RequestCode.RESET_MASTER_FLUSH_OFFSET: self.reset_master_flush_offset,
        }

    def status(self, _session: Session, command: Command) -> Command:
        """A master, how far its log is, and each follower that is linked (907)."""
        rows = self.followers.rows()
        body: dict[str, object] = {
            "haClientRuntimeInfo": _NO_CLIENT,
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
            "master": True,
            "masterCommitLogMaxOffset": self.store.commit_log.max_offset,
        }
        return command.answer(ResponseCode.SUCCESS, body=encode_json(body))

    def reset_master_flush_offset(self, _session: Session, command: Command) -> Command:
        """Nothing, as in RocketMQ: a master has no offset of its master (908)."""
        return command.answer(ResponseCode.SUCCESS)
