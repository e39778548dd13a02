"""Topics that an operator deletes, one or several.

The queues of a topic, its configuration and the offsets that groups committed are removed in one
step. A topic with pending messages is not deleted, because they would have no topic to go to. A
message that becomes pending during the deletion brings the topic back when it is due
(``TopicConfigTable.restore``), so it is not lost.

Source: Java ``AdminBrokerProcessor.deleteTopic``, ``deleteTopicList``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial

import attrs
import structlog
import trio

from timermq.pipeline.records.system_topics import OWN_TOPICS
from timermq.pipeline.timer_message_store import TimerMessageStore
from timermq.remoting.admin_body import decode_names
from timermq.remoting.codes import RequestCode, ResponseCode
from timermq.remoting.command import Command
from timermq.remoting.topic_header import TopicHeader

from ..consumer_offset import ConsumerOffsetTable
from ..consuming.long_polling import LongPolling
from ..deferred_answers import answer_later
from ..dispatcher import Handler
from ..refusal import RefusedError
from ..session import Session
from ..subscription_group import SubscriptionGroupTable
from ..topic_config import TopicConfigTable
from ..topic_validator import is_system_topic, topic_fault
from .broker_stats import BrokerStats
from .offset_reset import OffsetResets
from .topic_processor import Saved

LOOK_COUNT = 256
"""Pending messages that are read without a pause for other tasks."""

log = structlog.get_logger("timermq.broker.admin.topic_deletion_processor")


@attrs.frozen(eq=False, kw_only=True)
class TopicDeletionProcessor:
    """Deletes topics, and queues that have no topic."""

    timer_store: TimerMessageStore
    topics: TopicConfigTable
    groups: SubscriptionGroupTable
    offsets: ConsumerOffsetTable
    resets: OffsetResets
    long_polling: LongPolling
    stats: BrokerStats
    saved: Saved

    def handlers(self) -> Mapping[int, Handler]:
        """Request code to the method that answers it."""
        return {
            RequestCode.DELETE_TOPIC_IN_BROKER: self.delete,
            RequestCode.DELETE_TOPIC_IN_BROKER_LIST: self.delete_list,
            RequestCode.CLEAN_UNUSED_TOPIC: self.clean_unused,
        }

    def delete(self, session: Session, command: Command) -> None:
        """Delete a topic with its messages and what groups committed of it (215)."""
        self._delete_later(session, command, [TopicHeader.of(command).topic])

    def delete_list(self, session: Session, command: Command) -> None:
        """Delete several topics: all of them, or none when one is refused (5002)."""
        self._delete_later(session, command, decode_names(command.body, "topicList"))

    def clean_unused(self, session: Session, command: Command) -> None:
        """Remove the queues of topics that are not in the table (316)."""

        async def clean() -> Command:
            store = self.timer_store.store
            for topic in dict.fromkeys(queue.topic for queue in store.queues()):
                if self._is_unused(topic):
                    # Asked once more: a message may make the topic again before its turn.
                    await store.delete_topic(topic, is_wanted=partial(self._is_unused, topic))
            return command.answer(ResponseCode.SUCCESS)

        answer_later(session, command, clean)

    def _is_unused(self, topic: str) -> bool:
        return self.topics.get(topic) is None and topic not in OWN_TOPICS

    def _delete_later(self, session: Session, command: Command, topics: Sequence[str]) -> None:
        names = list(dict.fromkeys(topics))
        for topic in names:
            self._check_deletable(topic)

        async def delete() -> Command:
            await self._check_nothing_pending(frozenset(names))
            store = self.timer_store.store
            for topic in names:
                await store.delete_topic(topic, at=partial(self._forget, topic))
                log.info("topic deleted", topic=topic, remote=session.remote_address)
            await self.saved()
            return command.answer(ResponseCode.SUCCESS)

        answer_later(session, command, delete)

    def _check_deletable(self, topic: str) -> None:
        fault = topic_fault(topic)
        if fault is not None:
            raise RefusedError(ResponseCode.INVALID_PARAMETER, "TOPIC_NAME", fault)
        if is_system_topic(topic) or self.topics.is_system(topic):
            raise RefusedError(
                ResponseCode.INVALID_PARAMETER,
                "TOPIC_SYSTEM",
                f"{topic} is a topic of the broker itself and stays",
            )

    async def _check_nothing_pending(self, topics: frozenset[str]) -> None:
        """Refuse topics with pending messages, all of which are read: counts may be wrong."""
        pending = self.timer_store.pending()
        deletes = pending.deletes()
        for _ in pending.learn(deletes):
            await trio.lowlevel.checkpoint()
        for looked, (row, _) in enumerate(pending.walk(pending.start, deletes), start=1):
            if row is not None and row.topic in topics:
                raise RefusedError(
                    ResponseCode.SYSTEM_ERROR,
                    "TOPIC_HAS_TIMERS",
                    f"a message of {row.topic} is pending until {row.deliver_ms} "
                    f"({row.unique_id}): cancel its pending messages or let them arrive, then "
                    "delete the topic",
                )
            if looked % LOOK_COUNT == 0:
                await trio.lowlevel.checkpoint()

    def _forget(self, topic: str) -> None:
        """Remove a topic from the tables, in the step in which the store removes its queues."""
        self.topics.delete(topic)
        self.groups.forget_topic(topic)
        self.offsets.delete_topic(topic)
        self.resets.forget_topic(topic)
        # Pulls held any longer would skip the first messages of a topic that is made again.
        self.long_polling.wake_topic(topic)
        self.stats.forget_topic(topic)
