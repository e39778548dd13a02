"""How far a follower's wheel may pass its slots: what the master has delivered, and what is copied.

A follower links what it copies, and delivers nothing, so by itself it would never pass a slot, and
a promotion would have to read all of the log since the last one. The master tells how far it is
(60): slots before R are delivered, entries of the timer topic before Q are linked. Then it tells
where its log ends and what its clock shows (28), E and P: the deliveries stand before E, and what
stands there was stored at P at the latest.

R of one answer is not enough. A message that came late is linked where the master reads, behind its
own slot, and may wait there while R has passed the slot that it asked for. So an earlier answer has
to say that it was linked: all entries before its Q were linked in slots up to its P. When R has
passed that, all of them that asked for slots before P are delivered, and the log up to the later E
shows it::

    answer j    R1 Q1 E1 P1
    answer k    R2 Q2 E2 P2    R2 > P1: entries before Q1 in slots before P1 are delivered, by
                               records before E2

RocketMQ's slaves take R at once, while the log may lag behind: deliveries that are not copied are
lost (``TimerMessageStore.syncLastReadTimeMs``).
"""

from __future__ import annotations

from collections import deque

import attrs

SAMPLES_MAX = 512
"""Answers that are remembered."""

MARGIN_MS = 3_000
"""Slots so close before a P are not passed yet: entries behind its Q may ask for them, which would
have to be linked once more. Also more than a clock's seconds are rounded by."""


@attrs.frozen(kw_only=True)
class Sample:
    """What a master told of its timers, and behind that of its log."""

    read_ms: int
    """R: slots before it are delivered."""
    queue_offset: int
    """Q: entries of the timer topic before it are linked."""
    end: int
    """E: where its log ended after that."""
    now_ms: int
    """P: what its clock showed then, at most."""


@attrs.frozen(kw_only=True)
class SlotPass:
    """The slots that may be passed."""

    read_ms: int
    """Slots before it are delivered …"""
    queue_offset: int
    """… as far as they hold entries of the timer topic before this one."""
    scan_py: int
    """Deliveries of later slots stand at or behind it."""


class SlotProgress:
    """The answers of one master."""

    def __init__(self) -> None:
        self._samples: deque[Sample] = deque(maxlen=SAMPLES_MAX)

    def forget(self) -> None:
        """Forget all answers: the next one is of another link, or master."""
        self._samples.clear()

    def add(self, sample: Sample) -> SlotPass | None:
        """Take an answer whose log is copied up to its end; what may be passed now, if anything."""
        samples = self._samples
        if samples and sample.now_ms <= samples[-1].now_ms:
            # Its clock was set back: what it read before may be ahead of it.
            samples.clear()
        linked = next((one for one in reversed(samples) if one.now_ms < sample.read_ms), None)
        samples.append(sample)
        if linked is None:
            return None
        read_ms = linked.now_ms - MARGIN_MS
        stored = next((one for one in reversed(samples) if one.now_ms < read_ms), None)
        if stored is None:
            return None
        while samples[0] is not stored:
            samples.popleft()
        return SlotPass(read_ms=read_ms, queue_offset=linked.queue_offset, scan_py=stored.end)
