"""Whom deletes cover, and what was handled, as columns: what one by one gives too."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from timermq.pipeline.records.deduplication import AlreadyDone
from timermq.pipeline.records.foreign_key import foreign_key_in, pending_key
from timermq.pipeline.records.timer_record import KEY_MARK, order_name, timer_tail
from timermq.pipeline.spark.pending_facts import Bounds, Deletes, Handled, fires
from timermq.pipeline.spark.timer_arrays import read_timers
from timermq.timerstore.message import Message
from timermq.timerstore.record import encode_record
from unit.pipeline.spark.drawn_records import SLOT_MS, V4
from unit.pipeline.spark.test_timer_arrays import chunk_of, of_timers

_SLOTS = st.sampled_from((SLOT_MS, SLOT_MS + 1000))
_NAMES = st.one_of(
    st.integers(0, 5).map(order_name),
    st.sampled_from((b"\x01007", b"\x01" + b"9" * 20, b"\x01", b"x", b"u", b"T+u")),
    st.tuples(
        st.sampled_from((b"T", b"V")), st.sampled_from((b"u", b"T+u", b"T+", b"V+u", b"x"))
    ).map(KEY_MARK.join),
)


@given(
    deletes=st.lists(st.tuples(_SLOTS, _NAMES), max_size=8),
    timers=st.lists(
        st.tuples(_SLOTS, st.integers(0, 5), st.sampled_from(("", "u", "v"))), min_size=1
    ),
)
def test_cover(deletes: list[tuple[int, bytes]], timers: list[tuple[int, int, str]]) -> None:
    """A delete takes out, in its slot, the order that it names, or a key of its topic."""
    found = Deletes.of(np.array([one[0] for one in deletes], np.int64), [one[1] for one in deletes])
    records = of_timers(
        *(
            f"UNIQ_KEY\x01{key}\x02".encode()
            + timer_tail(
                deliver_ms=slot_ms + 1,
                out_ms=slot_ms,
                topic="T",
                queue_id=0,
                rolls=1,
                order_py=order,
            )
            for slot_ms, order, key in timers
        )
    )
    chunk = chunk_of(records)
    named = set(deletes)

    assert [
        not {
            (slot_ms, order_name(order)),
            (slot_ms, b"T\x03" + key.encode()),
            (slot_ms, b"T\x03T+" + key.encode()),
        }
        & named
        for slot_ms, order, key in timers
    ] == fires(chunk, read_timers(chunk, 1000), Handled(), found).tolist()


@given(
    places=st.lists(st.integers(0, 20), max_size=8),
    bounds=st.tuples(st.integers(0, 20), st.integers(0, 20)),
)
def test_what_concerns_a_task(places: list[int], bounds: tuple[int, int]) -> None:
    """Within the bounds of its records a task knows all that was handled."""
    first_py, last_py = bounds
    handled = Handled(origins=np.unique(np.array(places, np.int64)))
    found = handled.within(Bounds(first_py, last_py)).origins

    assert {one for one in places if first_py <= one <= last_py} == set(found.tolist())


@pytest.mark.parametrize("rolls", [0, 2])
def test_what_rocketmq_handled(rolls: int) -> None:
    """It names no origin: the key of its record is that of the one which waited."""
    tail = timer_tail(
        deliver_ms=SLOT_MS + 1, out_ms=SLOT_MS, topic="T", queue_id=0, rolls=rolls, order_py=1
    )
    other = timer_tail(deliver_ms=SLOT_MS + 1, out_ms=SLOT_MS, topic="U", queue_id=0)
    records = of_timers(b"UNIQ_KEY\x01u\x02" + tail, b"UNIQ_KEY\x01u\x02" + other)
    delivered = encode_record(
        Message("T", 0, b"", b"UNIQ_KEY\x01u\x02TIMER_DEQUEUE_MS\x015\x02" + tail),
        queue_offset=0,
        phy_offset=0,
        store_ms=0,
        store_host=V4,
    )
    key = foreign_key_in(delivered)
    assert key is not None
    assert key == pending_key(records[0])
    handled = Handled.of(AlreadyDone(foreign={key: [7], (b"U", b"u", b"x", b"0"): []}))
    chunk = chunk_of(records)

    assert [False, True] == fires(chunk, read_timers(chunk, 1000), handled, Deletes()).tolist()
    assert [SLOT_MS] == handled.foreign_slots.tolist()
