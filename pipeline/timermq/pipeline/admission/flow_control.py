"""Flow control of one slot: a limit on the messages that ask for the same moment.

Above ``timerCongestNumEachSlot`` (L) messages in a slot, a further one is refused with a
probability that rises from 0 at L to 1 at 2 L. (RocketMQ's falls from 1 to 0 over that range, issue
#7573.) Admissions that stage 2 has not linked yet are counted here, so a burst is seen while it
arrives.

Source: Java ``TimerMessageStore.isReject``.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Iterable

from ..state.timer_options import CONGEST_OFF, TimerOptions

PENDING_SLOTS_MAX = 100_000
"""Slots with admissions not yet linked; beyond it the oldest counts are forgotten."""


class FlowControl:
    """Decides on one more message in a slot.

    Args:
        options: With the messages that a slot takes freely, looked at each time; ``CONGEST_OFF``
            switches the control off.
        linked: Number of messages linked in a slot time.
        draw: Where the random numbers in [0, 1) come from.
    """

    def __init__(
        self,
        options: TimerOptions,
        linked: Callable[[int], int],
        draw: random.Random | None = None,
    ) -> None:
        self._options = options
        self._linked = linked
        self._draw = draw or random.Random()  # noqa: S311 - fairness, not secrecy
        self._admitted: dict[int, int] = {}

    def refuses(self, slot_ms: int) -> bool:
        """Whether one more message for ``slot_ms`` is to be refused now; counts it otherwise."""
        limit = self._options.timer_congest_num_each_slot
        if limit == CONGEST_OFF:
            return False
        count = self._linked(slot_ms) + self._admitted.get(slot_ms, 0)
        if count > limit and self._draw.random() < (count - limit) / limit:
            return True
        if len(self._admitted) >= PENDING_SLOTS_MAX:
            self._admitted.pop(next(iter(self._admitted)))
        self._admitted[slot_ms] = self._admitted.get(slot_ms, 0) + 1
        return False

    def takes_all(self, slots_ms: Iterable[int]) -> bool:
        """Whether nothing would be refused of messages for these slots; counts them then."""
        limit = self._options.timer_congest_num_each_slot
        if limit == CONGEST_OFF:
            return True
        counts = Counter(slots_ms)
        for slot_ms, count in counts.items():
            before = self._linked(slot_ms) + self._admitted.get(slot_ms, 0)
            if before + count - 1 > limit:
                return False
        if len(self._admitted) + len(counts) > PENDING_SLOTS_MAX:
            return False
        for slot_ms, count in counts.items():
            self._admitted[slot_ms] = self._admitted.get(slot_ms, 0) + count
        return True

    def settled(self) -> None:
        """Note that all admitted messages are linked: the slots' own numbers tell again."""
        self._admitted.clear()
