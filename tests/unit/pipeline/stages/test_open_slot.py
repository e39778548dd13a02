"""An open slot: order, joining, deletes, and slots larger than memory."""

from __future__ import annotations

from collections.abc import Iterator

import attrs
import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from timermq.pipeline.records.timer_record import TimerFacts
from timermq.pipeline.stages.open_slot import ASKED_COUNT, OpenSlot
from timermq.pipeline.stages.timer_request import Requests
from timermq.timerlog import MAGIC_DEFAULT, MAGIC_DELETE, MAGIC_ROLL, UnitChunk, pack_exact

SLOT_MS = 1_000_000
DELAY_MS = 5_000


@attrs.define
class Chain:
    """Units of one slot as a list: position = index, newest last."""

    units: list[tuple[int, int, int]] = attrs.Factory(list[tuple[int, int, int]])
    """(milliseconds behind the slot's first, order, magic)"""
    walks: int = 0
    chunk: int = 3

    def walk(self, last_pos: int, until_pos: int) -> Iterator[UnitChunk]:
        """Chunks of some, newest first."""
        self.walks += 1
        for high in range(last_pos, until_pos, -self.chunk):
            rows = [self.units[pos] for pos in range(high, max(high - self.chunk, until_pos), -1)]
            order = np.array([row[1] for row in rows], np.int64)
            behind = np.array([row[0] for row in rows], np.int64)
            yield UnitChunk(
                pos=np.arange(high, high - len(rows), -1, dtype=np.int64),
                offset_py=order,
                size_py=np.full(len(rows), 10, np.int32),
                topic_hash=np.zeros(len(rows), np.int32),
                magic=np.array([row[2] for row in rows], np.int32),
                delay_ms=np.full(len(rows), DELAY_MS, np.int32),
                reserved=pack_exact(order, behind),
            )


def opened(chain: Chain, units_max: int = 1000) -> OpenSlot:
    """A slot over a chain."""

    def nothing_done(requests: Requests) -> NDArray[np.bool_]:
        return np.zeros(len(requests), np.bool_)

    def no_facts(offset_py: int, size_py: int) -> TimerFacts | None:
        return None

    return OpenSlot(
        slot_ms=SLOT_MS,
        units_max=units_max,
        walk=chain.walk,
        facts_of=no_facts,
        delete_names_of=lambda offset_py, _: {b"key%d" % offset_py},
        check_unit=lambda _: None,
        will_need=lambda _: None,
        is_done=nothing_done,
    )


def join(slot: OpenSlot, chain: Chain) -> None:
    """Have the slot read all units that are new in the chain."""
    for _ in slot.join(len(chain.units) - 1):
        pass


def drain(slot: OpenSlot, now_ms: int, count_max: int = 4) -> list[tuple[int, int]]:
    """Everything that is due, in the order in which it comes."""
    rows: list[tuple[int, int]] = []
    while True:
        taken = slot.take_due(now_ms, count_max)
        if len(taken):
            assert len(taken) <= count_max
            rows += zip(taken["deliver_ms"].tolist(), taken["order_py"].tolist(), strict=True)
        elif slot.needs_refill():
            for _ in slot.refill():
                pass
        else:
            return rows


@given(
    batches=st.lists(st.lists(st.integers(0, 9), max_size=12), max_size=5),
    units_max=st.integers(1, 40),
    count_max=st.integers(1, 7),
)
def test_order(batches: list[list[int]], units_max: int, count_max: int) -> None:
    """Whatever joins when, however little fits in memory: by moment, then as sent."""
    chain = Chain()
    slot = opened(chain, units_max)
    for batch in batches:
        for behind in batch:
            chain.units.append((behind, len(chain.units), MAGIC_DEFAULT))
        join(slot, chain)
    expected = sorted((SLOT_MS + 1 + behind, order) for behind, order, _ in chain.units)

    assert expected == drain(slot, SLOT_MS + 1000, count_max)


@given(
    first=st.lists(st.integers(0, 9), min_size=1, max_size=12),
    late=st.lists(st.integers(0, 9), max_size=12),
    now=st.integers(0, 9),
    units_max=st.integers(1, 20),
)
def test_late_units(first: list[int], late: list[int], now: int, units_max: int) -> None:
    """Units that join after a part has left come in their order among the rest; none is lost."""
    chain = Chain([(behind, order, MAGIC_DEFAULT) for order, behind in enumerate(first)])
    slot = opened(chain, units_max)
    join(slot, chain)
    early = drain(slot, SLOT_MS + 1 + now)
    chain.units += [(behind, len(first) + n, MAGIC_DEFAULT) for n, behind in enumerate(late)]
    join(slot, chain)
    rest = drain(slot, SLOT_MS + 1000)

    assert early == sorted(early)
    assert rest == sorted(rest)
    assert all(deliver_ms <= SLOT_MS + 1 + now for deliver_ms, _ in early)
    assert sorted(early + rest) == sorted(
        (SLOT_MS + 1 + behind, order) for behind, order, _ in chain.units
    )


def test_how_far_ahead_its_rolls_were_put() -> None:
    """The least distance of those that roll, and of no others."""
    chain = Chain([(0, 0, MAGIC_DEFAULT)])
    slot = opened(chain)
    join(slot, chain)
    assert slot.roll_ahead_ms is None

    chain.units.append((0, 1, MAGIC_DEFAULT | MAGIC_ROLL))
    join(slot, chain)
    assert slot.roll_ahead_ms == DELAY_MS


def test_nothing_before_its_millisecond() -> None:
    """A unit is not due before its own millisecond."""
    chain = Chain([(5, 0, MAGIC_DEFAULT)])
    slot = opened(chain)
    join(slot, chain)

    assert len(slot.take_due(SLOT_MS + 5, 10)) == 0
    assert slot.next_due_ms() == SLOT_MS + 6
    assert len(slot.take_due(SLOT_MS + 6, 10)) == 1


def test_deletes_are_known_first() -> None:
    """Deletes are collected on the first walk, and do not appear themselves; rolled ones do."""
    chain = Chain(
        [
            (0, 0, MAGIC_DEFAULT),
            (3, 1, MAGIC_DEFAULT | MAGIC_DELETE),
            (0, 2, MAGIC_DEFAULT | MAGIC_DELETE | MAGIC_ROLL),
        ]
    )
    slot = opened(chain)
    join(slot, chain)

    assert frozenset({b"key1"}) == slot.deletes
    assert drain(slot, SLOT_MS + 1000) == [(SLOT_MS, 2), (SLOT_MS + 1, 0)]


def test_records_are_announced_and_read_in_slices() -> None:
    """Thousands of them, cold and one after the other, would hold all other timers up."""
    count = 2 * ASKED_COUNT + 9
    chain = Chain([(0, n, MAGIC_DEFAULT | MAGIC_DELETE) for n in range(count)], chunk=count)
    slot = opened(chain)
    announced: set[int] = set()
    read: list[int] = []

    def names_of(offset_py: int, _: int) -> set[bytes] | None:
        assert offset_py in announced
        read.append(offset_py)
        return None if offset_py == 7 else {b"key"}

    slot.will_need = lambda records: announced.update(offset_py for offset_py, _ in records)
    slot.delete_names_of = names_of
    counts: list[int] = []
    for _ in slot.join(count - 1):
        counts.append(len(read))
        assert len(announced) - len(read) <= ASKED_COUNT

    assert counts == [0, *[ASKED_COUNT] * 2, *[2 * ASKED_COUNT] * 2, count, count]
    assert drain(slot, SLOT_MS + 1000) == [(SLOT_MS + 1, 7)]


def test_large_slot_is_walked_in_passes() -> None:
    """A slot of 40 units with room for 5 is walked again and again, holding 10 at the most."""
    chain = Chain([((n * 7) % 10, n, MAGIC_DEFAULT) for n in range(40)])
    slot = opened(chain, units_max=5)
    join(slot, chain)

    assert 5 <= slot.held() <= 10
    assert len(drain(slot, SLOT_MS + 1000)) == 40
    assert 4 <= chain.walks <= 10
