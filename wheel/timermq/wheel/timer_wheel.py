"""The wheel: a ring of slots over the future, one for each precision interval.

**File.** ``timerwheel``: ``2 * slots_total`` slots of 32 bytes, 38,707,200 bytes in RocketMQ's
size. It is put in place whole, never grows, has no checksum, and can be rebuilt from the timer log.
The ring in memory is exactly the file's bytes; ``snapshot_dirty`` copies the slots that have
changed, and ``write_dirty`` writes them once what they point at is durable.

**Idea.** Time ``t`` lives at index ``t // precision mod ring``. A slot names the newest unit of a
chain in the timer log; linking a timer is one look at its slot and one write to it, whatever number
of timers waits (a heap would need log n steps and an object a timer). Nothing moves when time
passes: reading slot after slot is the order of time.

With a ring of 6 slots and a precision of 1000 ms, the read time being 100 s::

    index     0     1     2     3     4     5
    time     102   103   104   105   100   101      seconds
    last     -     468   -     -     520   -

The units at 520 are due first, then those at 468; ``next_live`` finds them without looking at the
empty slots between. A timer for 106 s would take index 4, which still belongs to 100: it is
``occupied``, and its caller waits until ``pass_by`` has moved the read time on. So a slot never
holds two times, and index order from the read time on is the order of time.

**Live.** A slot is live when its time lies in the ring's reach from the read time on, that is when
it still has to be read. The file does not say it: a slot that was read keeps its bytes, as in
RocketMQ.

**Threads.** None: all methods are called from one task or with no checkpoint between.

Source: Java ``TimerWheel``, ``TimerMessageStore.doEnqueue``.
"""

from __future__ import annotations

import attrs
import numpy as np
from numpy.typing import NDArray

from timermq.timerstore.array_types import Int64s
from timermq.timerstore.disk import Disk, File

from .link_plan import LinkPlan, plan_links
from .live_slots import LiveSlots
from .slot import SLOT, SLOT_DTYPE, Slot, Slots
from .wheel_file import DirtySlots, WheelFile, copy_runs

SLOTS_TOTAL = 7 * 86_400
"""Half the ring, whatever the precision: a week of seconds."""

_LIVE = np.dtype(
    [("time_ms", np.int64), ("first_pos", np.int64), ("last_pos", np.int64), ("num", np.int32)]
)

_WHOLE = np.dtype((np.void, SLOT.size))
"""A slot as bytes: copied as a whole, where numpy would copy each of its fields by itself."""


@attrs.frozen(kw_only=True)
class WheelStatistics:
    """A moment's picture of the wheel."""

    ring_count: int
    """Slots of the ring."""
    precision_ms: int
    live_count: int
    """Slots that wait to be read."""
    dirty_count: int
    """Slots that the file does not show yet."""
    passed_ms: int
    """Slots before this time have been read."""


LOAD_COUNT = 32_768
"""Slots looked at together when a ring is loaded."""


class TimerWheel:
    """The ring in memory, with its file. ``open`` makes one."""

    def __init__(self, file: WheelFile, precision_ms: int) -> None:
        self.precision_ms = precision_ms
        self.was_lost = file.is_empty
        """There is no whole file of this ring: it began as a ring of zeros, and was not written."""
        self._file = file
        self._slots = file.read()
        self._whole_slots = self._slots.view(_WHOLE)
        self._count = len(self._slots)
        self._live = LiveSlots(self._count)
        self._dirty = np.zeros(self._count, np.bool_)
        self._snapshot = DirtySlots(runs=(), is_whole=False)
        # Slots of the newest snapshot, as long as it is not written.
        self._unwritten = np.zeros(self._count, np.bool_)
        # The file is none of this ring's: it is replaced as a whole rather than repaired.
        self._is_anew = file.is_empty
        # First slot of the reach, as time // precision. Never 0: that is the time of unused slots.
        self._base = 1

    @classmethod
    def open(
        cls,
        disk: Disk,
        path: str,
        *,
        slots_total: int = SLOTS_TOTAL,
        precision_ms: int = 1000,
        read_only: bool = False,
    ) -> TimerWheel:
        """Read the wheel at ``path``; a missing or short file is a ring of zeros.

        ``load_live`` or ``reset`` must follow: until then no slot is live and the ring begins at
        time 0. A missing file is made by the first ``write_dirty``.

        Args:
            disk: The disk of the file.
            path: Of the file; its directory exists.
            slots_total: Half the ring, at least 1.
            precision_ms: Width of a slot. The file does not record it.
            read_only: For wheels that are never written.

        Raises:
            StoreFormatError: The file is longer.
            OSError: No room for the file.
        """
        size = 2 * slots_total * SLOT.size
        file = WheelFile(disk, path, size, read_only=read_only)
        try:
            return cls(file, precision_ms)
        except OSError:
            file.close()
            raise

    def close(self) -> None:
        """Close the file; nothing is written."""
        self._file.close()

    @property
    def ring_count(self) -> int:
        """Number of slots in the ring and in its file."""
        return self._count

    @property
    def file(self) -> File:
        """The open file, for the disk's sync; there is one after the first ``write_dirty``."""
        return self._file.file

    def load_live(self, from_ms: int) -> None:
        """Learn which slots wait to be read, and begin the ring at ``from_ms``.

        Live are the slots that hold a time from ``from_ms`` to one turn of the ring later, at the
        index of that time. This is for after ``open``; ``pass_by`` and ``apply`` keep the
        knowledge.
        """
        self._base = max(1, self._tick_from(from_ms))
        self._live.clear()
        # In parts: whole columns would be several times the memory of a nearly empty ring.
        for start in range(0, self._count, LOAD_COUNT):
            ticks = self._slots["time"][start : start + LOAD_COUNT].astype(np.int64)
            found = np.flatnonzero((ticks >= self._base) & (ticks < self._base + self._count))
            self._live.add(start + found[ticks[found] % self._count == start + found])

    def reset(self, from_ms: int) -> None:
        """Forget all slots and begin the ring at ``from_ms``, to rebuild it with ``relink``.

        The file keeps its doubtful bytes until the next ``write_dirty`` puts a new one in its
        place.
        """
        self._slots[self._used()] = np.zeros((), SLOT_DTYPE)
        self._live.clear()
        self._is_anew = True
        self._base = max(1, self._tick_from(from_ms))

    def remove_file(self) -> None:
        """Remove the file after ``reset``, durably (blocking); read only nothing is removed.

        For a timer log that is cut and written again: units of other slots come to stand where the
        file points, and a later start might find that it fits by chance.
        """
        assert self._is_anew
        self._file.remove()

    def slot(self, time_ms: int) -> Slot | None:
        """The slot of ``time_ms``, live or read already; None when its index holds another time."""
        tick = time_ms // self.precision_ms
        time, first_pos, last_pos, num, magic = self._slots[tick % self._count].item()
        if time != tick or not tick:
            return None
        return Slot(
            time_ms=tick * self.precision_ms,
            first_pos=first_pos,
            last_pos=last_pos,
            num=num,
            magic=magic,
        )

    def occupied(self, times: NDArray[np.int64], needed_from_ms: int) -> NDArray[np.bool_]:
        """Which slot times lie more than a turn of the ring ahead, so that linking them must wait.

        Their index belongs to a time that is still needed, used or not.

        Args:
            times: Slot times.
            needed_from_ms: Slots from here on must be found after a crash: read or not, not all of
                their messages are delivered. At most the read time.
        """
        return times >= self.end_ms(needed_from_ms)

    def end_ms(self, needed_from_ms: int) -> int:
        """The first slot time that is ``occupied``."""
        needed_from = min(self._tick_from(needed_from_ms), self._base)
        return (needed_from + self._count) * self.precision_ms

    def plan(self, times: Int64s, positions: Int64s, nums: NDArray[np.int32]) -> LinkPlan:
        """Work out how a batch of units would be linked; nothing changes yet.

        Args:
            times: Slot times, at least one, none passed and none ``occupied``.
            positions: Positions of the coming units in the timer log, ascending.
            nums: What each adds to its slot's number: 1, or -1 for a delete.

        Raises:
            ValueError: A slot has been read already or lies beyond the ring: a unit linked there
                would be lost.
        """
        ticks = times // self.precision_ms
        earliest, latest, end = int(ticks.min()), int(ticks.max()), self._base + self._count
        if earliest < self._base or latest >= end:
            raise ValueError(
                f"slots of {self.precision_ms} ms: expected {self._base} to {end - 1}, "
                f"found {earliest} to {latest}"
            )
        return plan_links(self._slots, ticks, positions, nums)

    def apply(self, plan: LinkPlan) -> None:
        """Carry out the newest ``plan``, now that the timer log has the units."""
        self._whole_slots[plan.indexes] = plan.slots.view(_WHOLE)
        self._dirty[plan.indexes] = True
        self._live.add(plan.indexes)

    def relink(
        self, times: Int64s, positions: Int64s, nums: NDArray[np.int32]
    ) -> NDArray[np.bool_]:
        """Link units that stand in the timer log already; repeating it changes nothing.

        A slot that shows a unit shows all that were linked before it, so only units newer than a
        slot's last one are linked and counted. The same call serves to replay the tail of the log
        over a wheel that lags behind, and to rebuild a wheel after ``reset``.

        Args:
            times: Slot times of the units, in log order.
            positions: Positions of the units, ascending.
            nums: 1, or -1 for a delete.

        Returns:
            Which units the wheel shows now. Not shown: those of slots that are read already, and
            those that lie beyond the ring.

        Source: Java ``TimerWheel.reviseSlot``, which leaves ``num`` as it was.
        """
        ticks = times // self.precision_ms
        reached = (ticks >= self._base) & (ticks < self._base + self._count)
        indexes = ticks % self._count
        missing = self._slots["time"][indexes] != ticks
        missing |= self._slots["last_pos"][indexes] < positions
        missing &= reached
        if missing.any():
            self.apply(self.plan(times[missing], positions[missing], nums[missing]))
        # Read from the file or not: if a sync failed, the page cache shows what the disk lacks.
        self._dirty[indexes[reached]] = True
        return reached

    def clear(self, time_ms: int) -> None:
        """Forget the slot of ``time_ms``; nothing happens when its index holds another time."""
        if self.slot(time_ms) is not None:
            index = time_ms // self.precision_ms % self._count
            self._slots[index] = np.zeros((), SLOT_DTYPE)
            self._dirty[index] = True
            self._live.discard(index)

    def next_live(self, from_ms: int) -> int | None:
        """The time of the first live slot at or after ``from_ms``; None when there is none."""
        base_index = self._base % self._count
        steps = self._tick_from(from_ms) - self._base
        if steps >= self._count:
            return None
        index = (base_index + max(steps, 0)) % self._count
        found = self._live.next_from(index)
        if found is None and 0 < base_index <= index:
            index, found = 0, self._live.next_from(0)
        # Behind index 0 the ring goes on up to where it begins; from there on are earlier times.
        if found is None or index < base_index <= found:
            return None
        return (self._base + (found - base_index) % self._count) * self.precision_ms

    def pass_by(self, before_ms: int) -> None:
        """Take the slots before ``before_ms`` as read; never moves back. The file is unchanged."""
        before = self._tick_from(before_ms)
        if before >= self._base + self._count:
            self._live.clear()
        while (live_ms := self.next_live(0)) is not None and live_ms < before_ms:
            self._live.discard(live_ms // self.precision_ms % self._count)
        self._base = max(self._base, before)

    def live(self, from_ms: int) -> Slots:
        """The live slots from ``from_ms`` on, ascending: time_ms, first_pos, last_pos, num."""
        found = self._live.indexes()
        # From the ring's beginning on, index order is the order of time.
        beginning = np.searchsorted(found, self._base % self._count)
        indexes = np.concatenate((found[beginning:], found[:beginning]))
        ticks = self._slots["time"][indexes].astype(np.int64)
        first = np.searchsorted(ticks, self._tick_from(from_ms))
        live = np.empty(len(indexes) - first, _LIVE)
        live["time_ms"] = ticks[first:] * self.precision_ms
        for column in ("first_pos", "last_pos", "num"):
            live[column] = self._slots[column][indexes[first:]]
        return live

    def oldest_pos(self, needed_from_ms: int) -> int | None:
        """Position of the oldest unit of the slots from ``needed_from_ms`` on, read or not.

        Args:
            needed_from_ms: As for ``occupied``: their bytes are still in the ring.

        Returns:
            None when there is no such slot.
        """
        needed_from = max(1, self._tick_from(needed_from_ms), self._base - self._count)
        ticks = np.arange(needed_from, self._base)
        passed = self._slots[ticks % self._count]
        firsts = passed["first_pos"][passed["time"] == ticks]
        firsts = np.append(firsts, self._slots["first_pos"][self._live.indexes()])
        return int(firsts.min()) if len(firsts) else None

    def snapshot_dirty(self) -> DirtySlots:
        """Copy the slots that the file does not show.

        After ``reset``, or without a file, these are all slots in use. A snapshot that is not
        written, because its writer was cancelled, is contained in the next.
        """
        self._unwritten |= self._dirty
        self._dirty[:] = False
        indexes = self._used() if self._is_anew else np.flatnonzero(self._unwritten)
        runs = copy_runs(self._slots, indexes)
        self._snapshot = DirtySlots(runs=runs, is_whole=self._is_anew)
        return self._snapshot

    def write_dirty(self, dirty: DirtySlots) -> None:
        """Write the newest snapshot to the file; the caller syncs it.

        The first one after ``reset``, or without a file, replaces the file in one step, synced.

        Raises:
            OSError: The disk refused; the next snapshot holds these slots too.
        """
        assert dirty is self._snapshot, "only the newest snapshot holds all that the file lacks"
        self._file.write(dirty)
        self._unwritten[:] = False
        self._is_anew = self.was_lost = False

    def statistics(self) -> WheelStatistics:
        """A moment's picture; reads memory only."""
        return WheelStatistics(
            ring_count=self._count,
            precision_ms=self.precision_ms,
            live_count=len(self._live),
            dirty_count=int(np.count_nonzero(self._dirty | self._unwritten)),
            passed_ms=self._base * self.precision_ms,
        )

    def _tick_from(self, time_ms: int) -> int:
        """The first slot, in units of the precision, whose time is at least ``time_ms``."""
        return -(-time_ms // self.precision_ms)

    def _used(self) -> Int64s:
        """Ring indexes of the slots that are not all zero."""
        words = self._slots.view(np.int64).reshape(-1, SLOT.size // 8)
        return np.flatnonzero(words.any(axis=1))
