"""What will fire is listed, on the wheel and before it, in pieces or at one go."""

from __future__ import annotations

import attrs
import pytest
from trio.testing import MockClock

from fakes import START_MS
from simulation.staged_service import delete_of, stored_delete, timed
from timermq.pipeline.admission.admission import Admitted, TimerAdmission
from timermq.pipeline.cancel.pending_listing import PendingTimer, PendingTimers
from timermq.pipeline.records.timer_record import TIMER_TOPIC
from timermq.pipeline.state.timer_options import TimerOptions
from timermq.timerstore.message import Message
from unit.pipeline.recovery.crashed_store import (
    CANCELLED,
    Reopened,
    crashed,
    make_checkpoint_javas,
    reopen,
)


def pending_of(store: Reopened, queue_offset: int | None = None) -> PendingTimers:
    """The pending timers, entries from an offset on being not enqueued."""
    found = store.recovered
    return PendingTimers(
        store=store.store,
        files=store.files,
        options=store.options,
        read_ms=found.read_ms,
        queue_offset=found.queue_offset if queue_offset is None else queue_offset,
        already_done=found.already_done,
    )


def in_pieces(pending: PendingTimers, count: int) -> list[PendingTimer]:
    """All rows, with a new walk after so many places."""
    deletes = pending.deletes()
    for _ in pending.learn(deletes):
        pass
    rows: list[PendingTimer] = []
    place, is_over = pending.start, False
    while not is_over:
        is_over = True
        for number, (row, behind) in enumerate(pending.walk(place, deletes)):
            if number == count:
                is_over = False
                break
            place = behind
            if row is not None:
                rows.append(row)
    return rows


def put(store: Reopened, *messages: Message) -> None:
    """Store messages as the service's door does."""
    admission = TimerAdmission(TimerOptions(), lambda _: False)
    decisions = [admission.admit(message, store.now_ms) for message in messages]
    store.store.put([one.message for one in decisions if isinstance(one, Admitted)])


def names(rows: list[PendingTimer]) -> list[str]:
    """Unique keys of the rows, sorted."""
    return sorted(row.unique_id for row in rows)


@pytest.mark.parametrize("is_enqueued", [True, False])
async def test_after_a_crash(autojump_clock: MockClock, is_enqueued: bool) -> None:
    """What waits is what has not arrived, whether it has a unit or not; rolls count as well."""
    crash = await crashed()
    store = reopen(crash)
    end = store.enqueue() if is_enqueued else None
    rows = list(pending_of(store, end).rows())
    moments = {row.unique_id: row.deliver_ms for row in rows}

    assert sorted(crash.waiting) == names(rows)
    assert START_MS + 300 + 370 * 20 == moments["m20"]
    assert START_MS + 60_000 == moments["far1"]


async def test_what_java_delivered_is_left_out(autojump_clock: MockClock) -> None:
    """With Java's checkpoint too what arrived after it is known."""
    crash = await crashed()
    make_checkpoint_javas(crash.disk)

    assert sorted(crash.waiting) == names(list(pending_of(reopen(crash)).rows()))


async def test_fields(autojump_clock: MockClock) -> None:
    """A row tells what an operator looks for."""
    crash = await crashed()
    store = reopen(crash)
    end = store.enqueue()
    own = "KEYS\x01k1 k2\x02UNIQ_KEY\x01new\x02TAGS\x01a\x02"
    text = f"{own}TIMER_DELIVER_MS\x01{START_MS + 8_123}\x02"
    phy_offset = store.store.commit_log.max_offset
    put(store, Message("Orders", 3, b"x", text.encode()))
    rows = {row.unique_id: row for row in pending_of(store, end).rows()}

    assert {
        "unique_id": "new",
        "topic": "Orders",
        "queue_id": 3,
        "deliver_ms": START_MS + 8_123,
        "keys": "k1 k2",
        "tags": "a",
        "phy_offset": phy_offset,
        "rolls": 0,
    } == attrs.asdict(rows["new"])


async def test_what_gets_its_unit_while_deletes_are_read(autojump_clock: MockClock) -> None:
    """It waited as an entry when the listing began, and is not listed as both."""
    crash = await crashed()
    store = reopen(crash)
    end = store.enqueue()
    put(store, timed("new", START_MS + 9_000))
    pending = pending_of(store, end)
    deletes = pending.deletes()
    for _ in pending.learn(deletes):
        pass
    store.enqueue(from_offset=end)
    rows = [row for row, _ in pending.walk(pending.start, deletes) if row is not None]

    assert sorted([*crash.waiting, "new"]) == names(rows)


@pytest.mark.parametrize("count", [1, 2, 3, 7])
@pytest.mark.parametrize("is_enqueued", [True, False])
async def test_pieces(autojump_clock: MockClock, count: int, is_enqueued: bool) -> None:
    """However often a listing is taken up again, it is the same one."""
    store = reopen(await crashed())
    end = store.enqueue() if is_enqueued else None
    pending = pending_of(store, end)

    assert list(pending.rows()) == in_pieces(pending, count)


async def test_slots_come_in_order(autojump_clock: MockClock) -> None:
    """On the wheel earlier slots come first."""
    store = reopen(await crashed())
    end = store.enqueue()
    slots = [
        (row.deliver_ms - 1) // 1000
        for row in pending_of(store, end).rows()
        if not row.unique_id.startswith("far")
    ]

    assert sorted(slots) == slots


async def test_a_span(autojump_clock: MockClock) -> None:
    """Asked for a span, at least everything of it comes, and nothing of much later slots."""
    store = reopen(await crashed())
    pending = pending_of(store, store.enqueue())
    deletes = pending.deletes()
    for _ in pending.learn(deletes):
        pass
    first_ms, last_ms = START_MS + 7_000, START_MS + 9_500
    walked = pending.walk(pending.start, deletes, (first_ms, last_ms))
    rows = [row for row, _ in walked if row is not None]
    wanted = [row for row in pending.rows() if first_ms <= row.deliver_ms < last_ms]

    assert {row.unique_id for row in wanted} <= {row.unique_id for row in rows}
    assert max(row.deliver_ms for row in rows if row.unique_id[:3] != "far") <= last_ms + 1000


async def test_what_comes_later_is_left_out(autojump_clock: MockClock) -> None:
    """A listing shows what waited when it began, also when its pieces are far apart."""
    crash = await crashed()
    store = reopen(crash)
    end = store.enqueue()
    pending = pending_of(store, end)
    deletes = pending.deletes()
    place = pending.start
    put(store, timed("new", START_MS + 9_000))
    store.enqueue(from_offset=end)
    later = pending_of(store)
    for _ in later.learn(deletes):
        pass
    rows = [row for row, _ in later.walk(place, deletes) if row is not None]

    assert sorted(crash.waiting) == names(rows)


@pytest.mark.parametrize("is_enqueued", [True, False])
async def test_a_new_delete(autojump_clock: MockClock, is_enqueued: bool) -> None:
    """What is learnt later takes its target out; another message of the slot stays."""
    crash = await crashed()
    store = reopen(crash)
    end = store.enqueue()
    deletes = pending_of(store, end).deletes()
    for _ in pending_of(store, end).learn(deletes):
        pass
    put(store, delete_of("m20", START_MS + 300 + 370 * 20))
    pending = pending_of(store, store.enqueue(from_offset=end) if is_enqueued else end)
    for _ in pending.learn(deletes):
        pass
    rows = [row for row, _ in pending.walk(pending.start, deletes) if row is not None]

    assert sorted(set(crash.waiting) - {"m20"}) == names(rows)


@pytest.mark.parametrize("is_enqueued", [True, False])
async def test_a_stored_delete_of_another_topic(
    autojump_clock: MockClock, is_enqueued: bool
) -> None:
    """It takes nothing back, by the key alone or behind the topic; one of the topic does."""
    crash = await crashed()
    store = reopen(crash)
    end = store.enqueue()
    due_ms = START_MS + 9_000
    put(store, *(timed(name, due_ms) for name in ("a", "b", "c")))
    names_of_deletes = (("V", "T+a", "a"), ("V", "b", "b"), ("T", "c", "c"))
    store.store.put([stored_delete(*one[:2], due_ms, one[2]) for one in names_of_deletes])
    pending = pending_of(store, store.enqueue(from_offset=end) if is_enqueued else end)
    rows = list(pending.rows())

    assert sorted([*crash.waiting, "a", "b"]) == names(rows)


async def test_what_is_no_timer(autojump_clock: MockClock) -> None:
    """A record of the timer topic that will be quarantined is not listed."""
    crash = await crashed()
    store = reopen(crash)
    end = store.enqueue()
    store.store.put([Message(TIMER_TOPIC, 0, b"x", b"UNIQ_KEY\x01odd\x02")])
    found = names(list(pending_of(store, end).rows()))

    assert sorted(crash.waiting) == found
    assert not set(CANCELLED) & set(found)
