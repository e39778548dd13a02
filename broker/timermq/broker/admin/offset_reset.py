"""Offsets that an operator has reset and that the group's consumers still have to learn.

A consumer keeps its position itself and commits it again and again, so it is not enough to change
the table of offsets. The target is remembered until the group next pulls the queue; that pull is
answered with PULL_OFFSET_MOVED (21) and the target, on which every client goes on from there.
Until then commits of the old position are taken and not kept.

A restart forgets the targets; by then the table of offsets has them.

Source: Java ``ConsumerOffsetManager.assignResetOffset``, ``queryThenEraseResetOffset``.
"""

from __future__ import annotations


class OffsetResets:
    """Targets by group, topic and queue."""

    def __init__(self) -> None:
        self._targets: dict[tuple[str, str, int], int] = {}

    def __len__(self) -> int:
        return len(self._targets)

    def assign(self, *, group: str, topic: str, queue_id: int, offset: int) -> None:
        """Have the group's next pull of a queue sent to an offset."""
        self._targets[group, topic, queue_id] = offset

    def is_pending(self, *, group: str, topic: str, queue_id: int) -> bool:
        """Whether a commit of the queue speaks of a position that was reset."""
        return bool(self._targets) and (group, topic, queue_id) in self._targets

    def take(self, *, group: str, topic: str, queue_id: int) -> int | None:
        """The target of a queue, once; None when there is none."""
        if not self._targets:
            return None
        return self._targets.pop((group, topic, queue_id), None)

    def forget_group(self, group: str) -> None:
        """Drop the targets of a group that is deleted."""
        for key in [key for key in self._targets if key[0] == group]:
            del self._targets[key]

    def forget_topic(self, topic: str) -> None:
        """Drop the targets on a topic that is deleted."""
        for key in [key for key in self._targets if key[1] == topic]:
            del self._targets[key]
