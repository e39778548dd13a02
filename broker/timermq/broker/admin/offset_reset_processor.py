"""Offsets that an operator sets: by time or by number (222), and after another group (314).

Source: Java ``AdminBrokerProcessor.resetOffset``, ``resetOffsetInner``, ``Broker2Client``.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping

import attrs
import structlog

from timermq.remoting.codes import FLAG_ONEWAY, RequestCode, ResponseCode
from timermq.remoting.command import Command
from timermq.remoting.offset_header import CloneOffsetHeader, ResetOffsetHeader
from timermq.remoting.queue_json import MessageQueue, encode_json, queue_fields
from timermq.timerstore.message_store import MessageStore

from ..client_registry import ClientRegistry, ConsumerGroupInfo
from ..consumer_offset import ConsumerOffsetTable
from ..consuming.long_polling import LongPolling
from ..deferred_answers import answer_later
from ..dispatcher import Handler
from ..options import BrokerOptions
from ..refusal import RefusedError
from ..session import Session
from ..subscription_group import SubscriptionGroupTable
from ..topic_config import TopicConfig, TopicConfigTable
from .offset_reset import OffsetResets
from .topic_processor import Saved

ALL_QUEUES = -1
BY_TIME = -1

log = structlog.get_logger("timermq.broker.admin.offset_reset_processor")


@attrs.frozen(eq=False, kw_only=True)
class OffsetResetProcessor:
    """Sets and copies the offsets of groups for operators."""

    options: BrokerOptions
    store: MessageStore
    topics: TopicConfigTable
    groups: SubscriptionGroupTable
    offsets: ConsumerOffsetTable
    resets: OffsetResets
    clients: ClientRegistry
    long_polling: LongPolling
    saved: Saved
    _opaques: Iterator[int] = attrs.field(factory=lambda: itertools.count(1), init=False)

    def handlers(self) -> Mapping[int, Handler]:
        """Request code to the method that answers it."""
        return {
            RequestCode.INVOKE_BROKER_TO_RESET_OFFSET: self.reset,
            RequestCode.CLONE_GROUP_OFFSET: self.clone,
        }

    def reset(self, session: Session, command: Command) -> None:
        """Have a group go on from another place of a topic (222).

        Members that consume together learn it from their next pull, which may be held just now and
        is answered at once. Broadcasting ones keep their offsets themselves: each is told (220).
        """
        header = ResetOffsetHeader.of(command)
        group = self.groups.existing(header.group).group_name
        targets = self._targets(header, self.topics.existing(header.topic))
        topic = header.topic
        info = self.clients.consumer_group(group)
        if info is not None and info.message_model == "BROADCASTING":
            self._push(info, header, targets)
        else:
            for key, offset in targets.items():
                self._assign(group, key, offset)
        log.info("offsets reset", group=group, topic=topic, queues=len(targets))
        body = encode_json({"offsetTable": targets})

        async def wait_saved() -> Command:
            await self.saved()
            return command.answer(ResponseCode.SUCCESS, body=body)

        answer_later(session, command, wait_saved)

    def clone(self, session: Session, command: Command) -> None:
        """Let one group go on where another is, in one topic or in all of them (314).

        Not while the group has members: they would commit what they have.
        """
        header = CloneOffsetHeader.of(command)
        source, target, only = header.src_group, header.dest_group, header.topic
        if self.clients.consumer_group(target) is not None:
            raise RefusedError(
                ResponseCode.SYSTEM_ERROR,
                "GROUP_ONLINE",
                f"group {target} has members, which commit their own offsets: stop them first",
            )
        group = self.groups.find(target).group_name

        async def clone() -> Command:
            for topic in [only] if only else self.offsets.topics_of(source):
                for queue_id, offset in self.offsets.offsets(group=source, topic=topic).items():
                    self.offsets.commit(group=group, topic=topic, queue_id=queue_id, offset=offset)
            await self.saved()
            return command.answer(ResponseCode.SUCCESS)

        answer_later(session, command, clone)

    def _assign(self, group: str, key: MessageQueue, offset: int) -> None:
        topic, queue_id = key.topic, key.queue_id
        self.offsets.commit(group=group, topic=topic, queue_id=queue_id, offset=offset)
        self.resets.assign(group=group, topic=topic, queue_id=queue_id, offset=offset)
        self.long_polling.wake(topic, queue_id)

    def _push(
        self, info: ConsumerGroupInfo, header: ResetOffsetHeader, targets: dict[MessageQueue, int]
    ) -> None:
        """Tell every member; C++ reads a list where the others read a map."""
        listed = [{**queue_fields(key), "offset": offset} for key, offset in targets.items()]
        for session in list(info.members):
            session.send(
                Command(
                    RequestCode.RESET_CONSUMER_CLIENT_OFFSET,
                    opaque=next(self._opaques) & 0x7FFFFFFF,
                    flag=FLAG_ONEWAY,
                    ext={
                        "topic": header.topic,
                        "group": info.group,
                        "timestamp": str(header.timestamp_ms),
                        "isForce": "true" if header.is_force else "false",
                    },
                    body=encode_json({"offsetTable": listed if session.is_cpp else targets}),
                )
            )

    def _targets(self, header: ResetOffsetHeader, config: TopicConfig) -> dict[MessageQueue, int]:
        """The group's next offset in each queue."""
        queue_id, offset, time_ms = header.queue_id, header.offset, header.timestamp_ms
        if queue_id != ALL_QUEUES and not 0 <= queue_id < config.read_queue_nums:
            raise RefusedError(
                ResponseCode.INVALID_PARAMETER,
                "QUEUE_ID",
                f"topic {config.topic_name} has {config.read_queue_nums} queues to read, "
                f"found queue {queue_id}",
            )
        if offset != BY_TIME and queue_id == ALL_QUEUES:
            raise RefusedError(
                ResponseCode.INVALID_PARAMETER, "QUEUE_ID", "an offset belongs to one queue"
            )
        queue_ids = range(config.read_queue_nums) if queue_id == ALL_QUEUES else [queue_id]
        name = self.options.broker_name
        return {
            MessageQueue(topic=config.topic_name, broker_name=name, queue_id=one): self._target(
                config.topic_name, one, offset, time_ms
            )
            for one in queue_ids
        }

    def _target(self, topic: str, queue_id: int, offset: int, time_ms: int) -> int:
        queue = self.store.queue(topic, queue_id)
        least, most = (0, 0) if queue is None else (queue.min_offset, queue.max_offset)
        if offset != BY_TIME:
            if not least <= offset <= most:
                raise RefusedError(
                    ResponseCode.SYSTEM_ERROR,
                    "OFFSET_RANGE",
                    f"queue {queue_id} of {topic} has offsets {least} to {most}, found {offset}",
                )
            return offset
        return most if time_ms < 0 else self.store.offset_by_time(topic, queue_id, time_ms)
