"""Which queues of a topic a member of a group reads.

Every member sorts the same two lists and takes its share, so no server has to assign them.

Source: Java ``AllocateMessageQueueAveragely``.
"""

from __future__ import annotations

from collections.abc import Sequence

from .route import TopicQueue


def allocate(queues: Sequence[TopicQueue], members: Sequence[str], member: str) -> list[TopicQueue]:
    """The share of one member: neighbouring queues, the first members get one more.

    With 5 queues and 2 members the first one gets 0, 1, 2 and the second one 3, 4.

    Returns:
        Nothing for somebody who is no member.
    """
    ordered_members = sorted(set(members))
    if member not in ordered_members:
        return []
    ordered = sorted(queues, key=lambda one: (one.topic, one.broker_name, one.queue_id))
    index, count = ordered_members.index(member), len(ordered_members)
    size, extra = divmod(len(ordered), count)
    start = index * size + min(index, extra)
    return ordered[start : start + size + (1 if index < extra else 0)]
