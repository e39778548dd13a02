"""Replies of request-reply (324, 325): handed to the client that asked, over its connection.

A request is a message like any other, whose properties say who waits for the reply. The consumer
sends it to the reply topic of the cluster; it is not stored, but pushed to the client (326), which
confirms it; then the consumer gets its answer. RocketMQ also keeps a copy in the reply topic, which
has no reader.

With access control a reply reaches a client of the same account, and with the right to send to the
reply topic every client. Who lacks it does not learn which clients are there.

Source: Java ``ReplyMessageProcessor``.
"""

from __future__ import annotations

import socket
import struct
from collections.abc import Callable

import attrs
import structlog
import trio

from timermq.remoting.codes import RequestCode, ResponseCode
from timermq.remoting.command import Command
from timermq.remoting.send_header import SendHeader
from timermq.timerstore.properties import PROPERTIES_SIZE_MAX, REPLY_TO_CLIENT_NAME, find

from ..admin.client_calls import ClientCalls
from ..client_ids import ClientIds
from ..options import BrokerOptions
from ..pool import Pool
from ..refusal import RefusedError, missing_right, refusal_answer
from ..session import Session
from ..speaker import Speaker
from ..topic_validator import REPLY_TOPIC_SUFFIX

REPLIES_MAX = 8_192
"""Replies that wait for their clients at a time."""
log = structlog.get_logger("timermq.broker.sending.reply_processor")


@attrs.define(eq=False, kw_only=True)
class ReplyProcessor:
    """The processor, and the task that its replies belong to."""

    options: BrokerOptions
    ids: ClientIds
    calls: ClientCalls
    address: str
    message_size_max: int
    now_ms: Callable[[], int]
    _tasks: trio.Nursery | None = attrs.field(default=None, init=False)
    _pool: Pool = attrs.field(factory=lambda: Pool(lambda: REPLIES_MAX), init=False)

    async def run(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Carry replies over until cancelled; those under way are dropped then."""
        async with trio.open_nursery() as nursery:
            self._tasks = nursery
            task_status.started()
            await trio.sleep_forever()

    def reply(self, session: Session, command: Command) -> None:
        """Hand a reply to the client that waits for it; the answer follows.

        Raises:
            RefusedError: It is no reply, no client waits for it (1), it may not be sent to the
                client (16), or too many are under way (2).
        """
        if command.code == RequestCode.SEND_REPLY_MESSAGE:
            header = SendHeader.from_v1(command)
        else:
            header = SendHeader.from_v2(command)
        self._check(header, command.body)
        requester = self._requester(session.speaker, header)
        owner = session.owner
        if self._tasks is None or not requester.has_room() or not self._pool.take(owner):
            raise RefusedError(
                ResponseCode.SYSTEM_BUSY,
                "REPLIES_MAX",
                f"[OVERLOAD] {self._pool.used} replies wait for their clients, "
                f"{self._pool.of(owner)} of them of {owner}, or this one does not read",
            )
        self._tasks.start_soon(self._push, session, owner, command, header, requester)

    def _requester(self, speaker: Speaker, header: SendHeader) -> Session:
        """The connection of the client that a reply is for."""
        client_id = (find(header.properties, REPLY_TO_CLIENT_NAME) or b"").decode()
        session, owner = self.ids.producer(client_id) or (None, None)
        is_own = owner is not None and owner.account == speaker.account
        if not is_own and not speaker.may_send(header.topic):
            raise missing_right()
        if session is None:
            raise RefusedError(
                ResponseCode.SYSTEM_ERROR,
                "REPLY_TO_CLIENT",
                f"no client {ascii(client_id)[:130]} is connected that could wait for a reply",
            )
        return session

    async def _push(
        self,
        session: Session,
        owner: str,
        command: Command,
        header: SendHeader,
        requester: Session,
    ) -> None:
        try:
            answer = await self._answer(session, command, header, requester)
        except RefusedError as error:
            answer = refusal_answer(command, error)
        finally:
            self._pool.give_back(owner)
        if not command.is_oneway:
            session.send(answer)

    async def _answer(
        self, session: Session, command: Command, header: SendHeader, requester: Session
    ) -> Command:
        ext = {
            "bornHost": _host_text(session.born_host),
            "bornTimestamp": str(header.born_ms),
            "defaultTopic": header.default_topic,
            "defaultTopicQueueNums": str(header.default_topic_queue_nums),
            "flag": str(header.flag),
            "producerGroup": header.producer_group,
            "properties": header.properties.decode(),
            "queueId": str(max(header.queue_id, 0)),
            "reconsumeTimes": str(header.reconsume_times),
            "storeHost": self.address,
            "storeTimestamp": str(self.now_ms()),
            "sysFlag": str(header.sys_flag),
            "topic": header.topic,
            "unitMode": "false",
        }
        pushed = await self.calls.call(
            requester, RequestCode.PUSH_REPLY_MESSAGE_TO_CLIENT, ext, command.body
        )
        if pushed.code != ResponseCode.SUCCESS:
            raise RefusedError(
                ResponseCode.SYSTEM_ERROR,
                "REPLY_REFUSED",
                f"the client answered {pushed.code}: {ascii(pushed.remark)[:260]}",
            )
        return command.answer(
            ResponseCode.SUCCESS,
            ext={
                "MSG_REGION": self.options.region_id,
                "TRACE_ON": "true" if self.options.trace_on else "false",
                "msgId": "",
                "queueId": "0",
                "queueOffset": "0",
            },
        )

    def _check(self, header: SendHeader, body: bytes) -> None:
        expected = self.options.broker_cluster_name + REPLY_TOPIC_SUFFIX
        if header.topic != expected:
            raise RefusedError(
                ResponseCode.TOPIC_NOT_EXIST,
                "REPLY_TOPIC",
                f"replies go to {expected}, found {ascii(header.topic)[:260]}",
            )
        if len(body) > self.message_size_max or len(header.properties) > PROPERTIES_SIZE_MAX:
            raise RefusedError(
                ResponseCode.MESSAGE_ILLEGAL,
                "BODY_SIZE",
                f"expected at most {self.message_size_max} bytes of body and "
                f"{PROPERTIES_SIZE_MAX} of properties, found {len(body)} and "
                f"{len(header.properties)}",
            )


def _host_text(packed: bytes) -> str:
    """``ip:port`` of an address as records have it."""
    return f"{socket.inet_ntoa(packed[:4])}:{struct.unpack('>i', packed[4:8])[0]}"
