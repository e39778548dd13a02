"""How far a follower's wheel may pass its slots: what the master has delivered, and what is copied.

A follower links what it copies, and delivers nothing, so by itself it would never pass a slot, and
a promotion would have to read all of the log since the last one. The master tells how far it is
(60): slots before R are delivered, entries of the timer topic before Q are linked. Then it tells
where its log ends (28), E: the deliveries stand before it.

R of one answer is not enough. A message that came late is linked where the master reads, behind its
own slot, and may wait there while R has passed the slot that it asked for. So an earlier answer has
to say that it was linked: all entries before its Q were linked in slots up to the time of that
answer, and that is before the record at its E was stored. When R has passed that time, all of them
that asked for slots before R are delivered, and the log up to the later E shows it::

    answer j    R1 Q1 E1 │ time at E1     (a record is stored there)
    answer k    R2 Q2 E2 │                R2 > time at E1: entries before Q1 in slots before both
                                          times are delivered, by records before E2

RocketMQ's slaves take R at once, while the log may lag behind: deliveries that are not copied are
lost (``TimerMessageStore.syncLastReadTimeMs``).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable

import attrs

SAMPLES_MAX = 512
"""Answers that are remembered; with nothing stored between two of them the older one is enough."""


@attrs.frozen(kw_only=True)
class Sample:
    """What a master told of its timers, and behind that of its log."""

    read_ms: int
    """R: slots before it are delivered."""
    queue_offset: int
    """Q: entries of the timer topic before it are linked."""
    end: int
    """E: where its log ended after that."""


@attrs.frozen(kw_only=True)
class SlotPass:
    """The slots that may be passed."""

    read_ms: int
    """Slots before it are delivered …"""
    queue_offset: int
    """… as far as they hold entries of the timer topic before this one."""
    scan_py: int
    """Deliveries of later slots stand at or behind it."""


StoreMsAt = Callable[[int], int | None]
"""Store time of the first record from a position on; None while there is none."""


class SlotProgress:
    """The answers of one master."""

    def __init__(self) -> None:
        self._samples: deque[Sample] = deque(maxlen=SAMPLES_MAX)

    def forget(self) -> None:
        """Begin with another master, or with this one anew."""
        self._samples.clear()

    def add(self, sample: Sample, store_ms_at: StoreMsAt) -> SlotPass | None:
        """Take an answer whose log is copied up to its end; what may be passed now, if anything."""
        samples = self._samples
        if samples and samples[-1].end == sample.end:
            # Nothing was stored since: the older answer is as good, and its time is known sooner.
            sample = attrs.evolve(sample, queue_offset=samples[-1].queue_offset)
        found: tuple[Sample, int] | None = None
        for index, earlier in enumerate(samples):
            store_ms = store_ms_at(earlier.end)
            if store_ms is None or store_ms >= sample.read_ms:
                break
            found = earlier, store_ms
            found_index = index
        if not samples or samples[-1].end < sample.end:
            samples.append(sample)
        if found is None:
            return None
        for _ in range(found_index):
            samples.popleft()
        earlier, store_ms = found
        return SlotPass(
            read_ms=min(sample.read_ms, store_ms),
            queue_offset=earlier.queue_offset,
            scan_py=earlier.end,
        )
