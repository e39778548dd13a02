"""Topics that are made on the way of sends and heartbeats: for one client no more than are left.

As in a ``Pool``, but nothing is given back: a topic stays, and who made it is known until the next
start.
"""

from __future__ import annotations

from collections import Counter

from timermq.remoting.codes import ResponseCode

from .pool import may_take
from .refusal import RefusedError


class TopicShares:
    """Topics and queues made since the start, by the client they were made for."""

    def __init__(self) -> None:
        self._topics: Counter[str] = Counter()
        self._queues: Counter[str] = Counter()

    def take(
        self, owner: str, topic: str, queues: int, *, topics_left: int, queues_left: int
    ) -> None:
        """Note a topic that is about to be made.

        Args:
            owner: Account or address; nothing for the broker itself, which has no share.
            topic: Its name.
            queues: Number of its queues.
            topics_left: Topics that the table has room for.
            queues_left: Queues that it has room for.

        Raises:
            RefusedError: The owner has as many as are left already (1).
        """
        has_topics, has_queues = self._topics[owner], self._queues[owner]
        may = may_take(has_topics, topics_left) and may_take(has_queues, queues_left)
        if owner and not may:
            raise RefusedError(
                ResponseCode.SYSTEM_ERROR,
                "TOPICS_SHARE",
                f"no room for {topic}: {has_topics} topics with {has_queues} queues were made for "
                f"this client since the start, and {topics_left} topics with {queues_left} queues "
                "are left; an operator can make it (updateTopic)",
            )
        self._topics[owner] += 1
        self._queues[owner] += queues
