"""Orderly consumers lock the queues that they consume (41) and give them back (42).

Source: Java ``AdminBrokerProcessor.lockBatchMQ``, ``unlockBatchMQ``.
"""

from __future__ import annotations

import attrs

from timermq.remoting.codes import ResponseCode
from timermq.remoting.command import Command
from timermq.remoting.lock_body import LockBatch, MessageQueue, lock_answer

from ..client_ids import ClientIds
from ..session import Session
from ..subscription_group import SubscriptionGroupTable
from ..topic_config import TopicConfigTable
from .queue_lock import QueueLockTable


@attrs.frozen(eq=False, kw_only=True)
class LockProcessor:
    """Locks and unlocks queues for orderly consumers."""

    broker_name: str
    topics: TopicConfigTable
    groups: SubscriptionGroupTable
    locks: QueueLockTable
    ids: ClientIds

    def lock(self, session: Session, command: Command) -> Command:
        """Lock queues for a client; the answer lists those that it holds.

        Queues of other brokers cannot be locked here. Java locks any name,
        and lets one queue be locked twice under two names.
        """
        batch = LockBatch.decode(command.body)
        self.ids.check(batch.client_id, session.speaker)
        group = self.groups.find(batch.consumer_group)
        wanted = [queue for queue in dict.fromkeys(batch.mq_set) if self._is_ours(queue)]
        held = self.locks.lock(group.group_name, wanted, batch.client_id)
        return command.answer(ResponseCode.SUCCESS, body=lock_answer(held))

    def unlock(self, session: Session, command: Command) -> Command:
        """Give back those of the queues that the client holds."""
        batch = LockBatch.decode(command.body)
        self.ids.check(batch.client_id, session.speaker)
        self.locks.unlock(batch.consumer_group, batch.mq_set, batch.client_id)
        return command.answer(ResponseCode.SUCCESS)

    def _is_ours(self, queue: MessageQueue) -> bool:
        config = self.topics.get(queue.topic)
        return (
            config is not None
            and queue.queue_id < config.queue_nums
            and queue.broker_name == self.broker_name
        )
