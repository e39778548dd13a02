"""What the judge makes of single records."""

from __future__ import annotations

from .reader import HOLES, TIMERS, Log, LogRecord
from .rules import facts_of

TOPIC = "T0"
ASKED_MS, MOVED_MS = 1_000, 2_000
SIZE = 100


def record(
    at: int, topic: str, properties: dict[str, str], *, origin: int | None = None
) -> LogRecord:
    """A record of a hundred bytes."""
    return LogRecord(
        position=at * SIZE,
        size=SIZE,
        topic=topic,
        queue_offset=at,
        store_ms=0,
        origin=origin,
        body=b"",
        properties=properties,
        digest=0,
    )


def moments(topic: str, before: dict[str, str]) -> list[int | None]:
    """For what a moved message has waited; ``before`` its new record is one of this topic."""
    asked, moved = (
        {"LETTER": "m", "UNIQ_KEY": "m", "TIMER_DELIVER_MS": str(one)}
        for one in (ASKED_MS, MOVED_MS)
    )
    records = [
        record(0, TIMERS, asked),
        record(1, topic, before),
        record(2, TIMERS, moved, origin=0),
    ]
    facts = facts_of(Log(records, 0, 3 * SIZE), (TOPIC,)).by_name["m"]
    return [one.number("TIMER_DELIVER_MS") for one in facts.versions]


def test_a_move_is_a_delete_and_a_message() -> None:
    """Only together: a message alone that names what it ends has not been moved."""
    delete = {"TIMER_DEL_UNIQKEY": "T0+m", "TIMER_DEL_ORDER": "0"}

    assert moments(TIMERS, {**delete, "TIMER_DEL_FOR": "0"}) == [ASKED_MS, MOVED_MS]
    assert moments(TIMERS, {**delete, "TIMER_DEL_FOR": "50"}) == [ASKED_MS]
    assert moments(TOPIC, {}) == [ASKED_MS]


def test_a_move_whose_delete_a_power_cut_has_taken() -> None:
    """A repair has filled its place, and kept the message behind it."""
    lost = {"TIMERMQ_LOST": "1", "TIMER_DEL_UNIQKEY": "?"}

    assert moments(HOLES, {}) == [ASKED_MS, MOVED_MS]
    assert moments(HOLES[:9], {}) == [ASKED_MS, MOVED_MS]
    assert moments(TIMERS, lost) == [ASKED_MS, MOVED_MS]
