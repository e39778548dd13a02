"""The requests that a follower does not serve, and what it answers in their place.

A follower shows what it has, and changes nothing: its log and its tables are copies. The table
says of each code that would write or deliver how RocketMQ's slave answers it; where that takes the
request, and loses what it did at the next copy, it is refused here.

Source: Java ``DefaultMessageStore.checkStoreStatus``, ``EndTransactionProcessor``,
``RecallMessageProcessor``, ``PullMessageProcessor``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import attrs

from timermq.remoting.codes import RequestCode, ResponseCode
from timermq.remoting.command import Command
from timermq.remoting.connection import Received, one_by_one
from timermq.remoting.pull_header import PullHeader
from timermq.remoting.send_run.send_v2 import SendV2

from ..refusal import RefusedError, refusal_answer
from ..session import Answer, Session
from ..steps import Steps
from .role import MASTER_ID, Role

RULE = "SLAVE"
"""Name of the rule by which requests are refused."""

_LATER = ResponseCode.SERVICE_NOT_AVAILABLE
"""Clients try another broker then."""
_SLAVE = ResponseCode.SLAVE_NOT_AVAILABLE

PARKED_CODES: Mapping[int, ResponseCode] = {
    RequestCode.CONSUMER_SEND_MSG_BACK: _LATER,
    RequestCode.END_TRANSACTION: _SLAVE,
    RequestCode.RESUME_CHECK_HALF_MESSAGE: _LATER,
    RequestCode.RECALL_MESSAGE: _SLAVE,
    RequestCode.CANCEL_MESSAGE: _LATER,
    RequestCode.RETRY_QUARANTINE: _LATER,
    RequestCode.DROP_QUARANTINE: _LATER,
    RequestCode.BULK_OPEN: _LATER,
    RequestCode.BULK_STAGE: _LATER,
    RequestCode.BULK_COMMIT: _LATER,
    RequestCode.BULK_DROP: _LATER,
    RequestCode.UPDATE_AND_CREATE_TOPIC: _LATER,
    RequestCode.UPDATE_AND_CREATE_TOPIC_LIST: _LATER,
    RequestCode.DELETE_TOPIC_IN_BROKER: _LATER,
    RequestCode.DELETE_TOPIC_IN_BROKER_LIST: _LATER,
    RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP: _LATER,
    RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP_LIST: _LATER,
    RequestCode.DELETE_SUBSCRIPTIONGROUP: _LATER,
    RequestCode.DELETE_SUBSCRIPTION_GROUP_LIST: _LATER,
    RequestCode.UPDATE_AND_GET_GROUP_FORBIDDEN: _LATER,
    RequestCode.INVOKE_BROKER_TO_RESET_OFFSET: _LATER,
    RequestCode.CLONE_GROUP_OFFSET: _LATER,
    RequestCode.CLEAN_UNUSED_TOPIC: _LATER,
    RequestCode.DELETE_EXPIRED_COMMITLOG: _LATER,
}
"""Code to the code of the refusal; sends, in whatever form, are refused as well."""

PULL_CODES = (RequestCode.PULL_MESSAGE, RequestCode.LITE_PULL_MESSAGE)


def parked(role: Role, code: ResponseCode = _LATER) -> RefusedError:
    """The refusal of a request by a follower."""
    master = role.master_address or "one that it does not know yet"
    return RefusedError(code, RULE, f"this broker follows a master, {master}: ask that one")


@attrs.frozen(eq=False)
class ParkedRequests:
    """Refuses; it stands in the place of processors as long as the broker follows.

    ``handle`` and ``steps`` are the entrances of ``SendProcessor``.
    """

    role: Role
    serves_pulls: bool
    """``slaveReadEnable``: consumers may read here."""

    def handle(self, sends: Sequence[tuple[Session, Received]]) -> list[tuple[Session, Answer]]:
        """Refuse sends; one-way ones have no answer."""
        refusal = parked(self.role)
        answers: list[tuple[Session, Answer]] = []
        for session, received in sends:
            for send in one_by_one([received]):
                command = send.to_command() if isinstance(send, SendV2) else send
                if not command.is_oneway:
                    answers.append((session, refusal_answer(command, refusal)))
        return answers

    def steps(self, session: Session, command: Command) -> Steps[list[tuple[Session, Answer]]]:
        """The same for one that would take long."""
        yield from ()
        return self.handle([(session, command)])

    def handlers(self) -> Mapping[int, Callable[[Session, Command], Command | None]]:
        """Request code to what answers it in place of its processor."""
        pulls = () if self.serves_pulls else PULL_CODES
        return dict.fromkeys(PARKED_CODES, self._refuse) | dict.fromkeys(pulls, self._send_on)

    def _refuse(self, _session: Session, command: Command) -> Command:
        return refusal_answer(command, parked(self.role, PARKED_CODES[command.code]))

    def _send_on(self, _session: Session, command: Command) -> Command:
        """Send a consumer to the master, to go on from where it is.

        RocketMQ reads first, and lets the consumer go on behind what it was not given.
        """
        header = PullHeader.of(command)
        return command.answer(
            ResponseCode.PULL_RETRY_IMMEDIATELY,
            remark=parked(self.role).remark,
            ext={
                "suggestWhichBrokerId": str(MASTER_ID),
                "nextBeginOffset": str(header.queue_offset),
                "minOffset": "0",
                "maxOffset": "0",
            },
        )
