"""A run that is admitted and stored as columns is what its messages become one by one."""

from __future__ import annotations

from typing import Any

import attrs
import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from fakes import START_MS, ManualClock
from simulation.staged_service import HOST, ROOT
from timermq.pipeline.admission.admission import TimerPutColumns
from timermq.pipeline.run_admission import RunAdmission
from timermq.pipeline.state.timer_options import CONGEST_OFF, TimerOptions
from timermq.pipeline.timer_message_store import TimerMessageStore
from timermq.simulator.disks.memory_disk import MemoryDisk
from timermq.timerstore.byte_columns import Pieces
from timermq.timerstore.message import Message, SysFlag, pack_host
from timermq.timerstore.message_columns import MessageColumns
from timermq.timerstore.message_store import MessageStore
from timermq.timerstore.put_status import PutStatus
from timermq.timerstore.store_options import StoreOptions

STORE = StoreOptions(
    mapped_file_size_commit_log=16_384,
    mapped_file_size_consume_queue=200,
    max_message_size=1_024,
    max_hash_slot_num=16,
    max_index_num=64,
)
TIMER = TimerOptions(
    slots_total=7_200, timer_max_delay_sec=86_400, mapped_file_size_timer_log=5_200
)

fitting_texts = st.sampled_from(
    [
        "TIMER_DELAY_MS\x01{delay}\x02UNIQ_KEY\x01{key}\x02TAGS\x01t\x02",
        "UNIQ_KEY\x01{key}\x02TIMER_DELAY_SEC\x01{delay}\x02",
        "é\x01ü\x02TIMER_DELIVER_MS\x01{moment}\x02UNIQ_KEY\x01{key}\x02WAIT\x01true\x02",
        "UNIQ_KEY\x01{key}\x02KEYS\x01a b\x02",
    ]
)
odd_texts = st.sampled_from(
    [
        "DELAY\x013\x02UNIQ_KEY\x01{key}\x02",
        "TIMER_DELAY_MS\x01{delay}\x02TIMER_DELIVER_MS\x01{moment}\x02",
        "TIMER_DELAY_MS\x01{delay}\x02REAL_TOPIC\x01a\x02UNIQ_KEY\x01{key}\x02",
        "XTIMER_DELAY_MS\x01{delay}\x02UNIQ_KEY\x01{key}\x02",
        "UNIQ_KEY\x01{key}\x02INNER_NUM\x01{delay}\x02",
        "TIMER_DELAY_MS\x01{delay}",
        "UNIQ_KEY\x01{key}\x01x\x02",
        "\x02UNIQ_KEY\x01{key}\x02",
        "",
    ]
)
fitting_rows = st.fixed_dictionaries(
    {
        "delay": st.sampled_from(["1000", "7000", "0001"]),
        "moment": st.sampled_from([str(START_MS + 5), str(START_MS + 70_000)]),
        "key": st.sampled_from(["AB12", "cd34"]),
        "queue": st.sampled_from([0, 1, 9]),
        "born": st.sampled_from([START_MS, START_MS - 9]),
        "body": st.sampled_from([b"x", b"y", b"body"]),
    }
)
odd_rows = st.fixed_dictionaries(
    {
        "delay": st.sampled_from(["0000", "9999"]),
        "moment": st.sampled_from([str(START_MS), "9" * 13]),
        "key": st.sampled_from(["xy12", "CD34"]),
        "queue": st.sampled_from([0, 10]),
        "born": st.just(0),
        "body": st.sampled_from([b"", bytes(900), bytes(2_000)]),
    }
)
"""Rows for which not all of a run is let in, or fits one shape, segment or record."""
commons = st.fixed_dictionaries(
    {
        "topic": st.sampled_from(["T"] * 6 + ["rmq_sys_wheel_timer", "%RETRY%G", "a/b", "t" * 127]),
        "flag": st.sampled_from([0, 9]),
        "sys_flag": st.sampled_from([0, 0, 1, int(SysFlag.TRANSACTION_PREPARED)]),
        "born_host": st.sampled_from([HOST, HOST, pack_host("2001:db8::1", 4711)]),
        "reconsume_times": st.sampled_from([0, 2]),
    }
)
runs = st.tuples(
    fitting_texts | odd_texts,
    st.lists(fitting_rows, min_size=1, max_size=30)
    | st.lists(fitting_rows | odd_rows, min_size=1, max_size=6),
    commons,
)
Run = tuple[str, list[dict[str, Any]], dict[str, Any]]


def columns_of(run: Run) -> MessageColumns:
    """The messages of a run as columns."""
    text, rows, common = run
    properties = [text.format_map(row).encode() for row in rows]
    bodies = [row["body"] for row in rows]
    sizes = np.array([len(body) for body in bodies], np.int64)
    ends = np.cumsum(sizes)
    return MessageColumns(
        first=Message(
            common["topic"],
            rows[0]["queue"],
            bodies[0],
            properties[0],
            common["flag"],
            common["sys_flag"],
            rows[0]["born"],
            common["born_host"],
            common["reconsume_times"],
        ),
        queue_ids=np.array([row["queue"] for row in rows], np.int64),
        bodies=Pieces(b"".join(bodies), ends - sizes, ends),
        properties=np.frombuffer(b"".join(properties), np.uint8).reshape(len(rows), -1),
        born_ms=np.array([row["born"] for row in rows], np.int64),
    )


def opened(timer_options: TimerOptions) -> TimerMessageStore:
    """A service over an empty store, at a time that stays."""
    clock = ManualClock()
    store = MessageStore.open(MemoryDisk(), ROOT, STORE, now_ms=clock.now_ms, store_host=HOST)
    return TimerMessageStore(store, timer_options, clock)


def content(service: TimerMessageStore) -> tuple[bytes, dict[tuple[str, int], list[object]]]:
    """Everything in the log, and all units of all queues."""
    store = service.store
    log = store.commit_log
    queues: dict[tuple[str, int], list[object]] = {}
    for queue in store.queues():
        units = queues[queue.topic, queue.queue_id] = []
        while len(part := queue.units(len(units), 100)):
            units += part.tolist()
    return log.read(0, log.max_offset), queues


@settings(max_examples=300)
@given(st.lists(runs, min_size=1, max_size=3), st.booleans())
def test_a_run_is_stored_as_its_messages_are(found: list[Run], limited: bool) -> None:
    """Results, log, queues and counts are the same, whether all of a run is let in or not."""
    options = attrs.evolve(TIMER, timer_congest_num_each_slot=2**20 if limited else CONGEST_OFF)
    by_columns, one_by_one = opened(options), opened(options)
    admission = RunAdmission(by_columns)
    for run in found:
        columns = columns_of(run)
        put, expected = admission.put(columns), one_by_one.put(columns.messages())
        if isinstance(put, TimerPutColumns):
            assert {one.result.status for one in expected} == {PutStatus.PUT_OK}
            assert put.stored.phy_offsets.tolist() == [one.result.phy_offset for one in expected]
            assert put.stored.queue_offsets.tolist() == [
                one.result.queue_offset for one in expected
            ]
            slots = [None] * len(expected) if put.out_ms is None else put.out_ms.tolist()
            assert slots == [one.out_ms for one in expected]
        else:
            assert put == expected

    assert content(by_columns) == content(one_by_one)
    assert by_columns.admission.counts == one_by_one.admission.counts
    assert by_columns.state.urgent_until_ms == one_by_one.state.urgent_until_ms
    assert by_columns.store.statistics() == one_by_one.store.statistics()


def test_a_run_of_a_busy_producer_is_stored_as_columns() -> None:
    """With a moment or without: the two ways that are compared above are two."""
    admission = RunAdmission(opened(TIMER))
    row = {"key": "AB12", "queue": 1, "born": START_MS, "body": b"x"}
    common = columns_of(("UNIQ_KEY\x01{key}\x02", [row] * 8, COMMON))
    timed = columns_of(("TIMER_DELAY_MS\x015000\x02UNIQ_KEY\x01{key}\x02", [row] * 8, COMMON))

    # The log begins with its first segment: a batch is written into one that is there.
    admission.put(common)
    assert isinstance(admission.put(common), TimerPutColumns)
    assert isinstance(admission.put(timed), TimerPutColumns)


COMMON = {"topic": "T", "flag": 0, "sys_flag": 0, "born_host": HOST, "reconsume_times": 0}
