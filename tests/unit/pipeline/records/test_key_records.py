"""How far back the records with a key count, and how many of them one request looks at."""

from __future__ import annotations

import pytest

from fakes import ManualClock
from simulation.staged_service import timed
from timermq.pipeline.records import key_records
from timermq.pipeline.records.cancel_verdict import CancelError
from timermq.pipeline.records.deduplication import origin_of
from timermq.pipeline.records.key_records import KeyRecords, SoleMoves
from timermq.pipeline.records.timer_properties import DELETE, DELETE_FOR, DELETE_SOLE
from timermq.pipeline.records.timer_record import TIMER_TOPIC, decode_timer, timer_tail
from timermq.timerstore.message import Message
from timermq.timerstore.message_store import MessageStore
from timermq.timerstore.record import encode_record
from unit.pipeline.stages_by_hand import SLOT_MS, StagesByHand

OUT_MS = 1_700_000_010_000
TARGET_PY, PLACE = 100, 4_096


def looked_at(records: KeyRecords) -> int:
    """How many records a look-up shows."""
    return sum(1 for _ in records.newest_first(TIMER_TOPIC, "k", is_unique_key=True))


def store_with(count: int) -> MessageStore:
    """A store with so many messages of one unique key."""
    rig = StagesByHand(ManualClock())
    rig.send(*[timed("k", SLOT_MS + 1) for _ in range(count)])
    return rig.store


def test_a_request_looks_at_so_many_records(monkeypatch: pytest.MonkeyPatch) -> None:
    """All its look-ups count together."""
    monkeypatch.setattr(key_records, "RECORDS_MAX", 3)
    assert looked_at(KeyRecords(store_with(3))) == 3
    records = KeyRecords(store_with(2))
    looked_at(records)
    with pytest.raises(CancelError, match="more than 3 records") as caught:
        looked_at(records)
    assert caught.value.rule == "CANCEL_KEY_TOO_COMMON"


def test_a_request_looks_at_so_many_bytes(monkeypatch: pytest.MonkeyPatch) -> None:
    """The largest messages are few."""
    store = store_with(3)
    size_max = store.commit_log.max_offset
    monkeypatch.setattr(key_records, "SIZE_MAX", size_max)
    assert looked_at(KeyRecords(store)) == 3
    monkeypatch.setattr(key_records, "SIZE_MAX", size_max - 1)
    with pytest.raises(CancelError, match=f"more than {size_max - 1} bytes"):
        looked_at(KeyRecords(store))


def timer(
    properties: bytes = b"", *, topic: str = "T", origin_py: int | None = None, rolls: int = 0
) -> bytes:
    """A record of the timer topic."""
    tail = timer_tail(deliver_ms=OUT_MS + 1, out_ms=OUT_MS, topic=topic, queue_id=0, rolls=rolls)
    origin = 0 if origin_py is None else origin_of(origin_py)
    message = Message(TIMER_TOPIC, 0, b"b", properties + tail, prepared_offset=origin)
    return encode_record(message, queue_offset=0, phy_offset=PLACE, store_ms=5, store_host=bytes(8))


def ends(moves: SoleMoves, *records: bytes) -> list[bool]:
    """Whether the looking ends, record by record."""
    return [moves.end_at(one, decode_timer(one, PLACE, 1_000)) for one in records]


def move(properties: bytes = b"", *, topic: str = "T", rolls: int = 0) -> bytes:
    """The delete of a move from the target."""
    text = b"%bT+k\x02%b%d\x02" % (DELETE, DELETE_FOR, TARGET_PY)
    return timer(text + properties, topic=topic, rolls=rolls)


SOLE = DELETE_SOLE + b"1\x02"
MOVED = timer(origin_py=TARGET_PY)
"""The message behind the delete of the move."""


def test_the_looking_ends_at_the_delete_of_a_sole_move() -> None:
    """The message that was moved stands behind it, so it is met first."""
    moves = SoleMoves("T")

    assert ends(moves, MOVED, move(SOLE)) == [False, True]
    assert moves.moved_from == {TARGET_PY}


@pytest.mark.parametrize(
    ("message", "delete"),
    [
        (MOVED, move()),
        (timer(), move(SOLE)),
        (timer(origin_py=TARGET_PY + 1), move(SOLE)),
        (MOVED, move(SOLE, rolls=1)),
        (timer(origin_py=TARGET_PY, rolls=1), move(SOLE)),
        (MOVED, move(SOLE, topic="U")),
        (timer(origin_py=TARGET_PY, topic="U"), move(SOLE)),
    ],
    ids=[
        "no note",
        "torn by a power cut",
        "another target",
        "a delete that rolled",
        "a roll alone",
        "a delete of another topic",
        "a message of another topic",
    ],
)
def test_the_looking_goes_on(message: bytes, delete: bytes) -> None:
    """Records before such a delete may still tell of a message that waits."""
    assert ends(SoleMoves("T"), message, delete) == [False, False]


@pytest.mark.parametrize(("key", "is_over"), [(None, True), ("order", True), ("ord", False)])
def test_the_note_is_for_the_key_that_was_asked_for(key: str | None, *, is_over: bool) -> None:
    """A move by the unique key says nothing of other messages with one of the user's keys."""
    delete = move(SOLE + b"KEYS\x01red order\x02")

    assert ends(SoleMoves("T", key), MOVED, delete) == [False, is_over]
