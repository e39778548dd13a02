"""Where readings go on behind damage: at records, not at what a body holds that looks like one."""

from __future__ import annotations

import zlib
from collections.abc import Iterator

import pytest

from forged_stores import FORGERY_OPTIONS, Forgery, forged
from small_store import ROOT, message, open_store, put_bodies, read_bodies
from timermq.timerstore import redispatch
from timermq.timerstore.log_reading import LogReading
from timermq.timerstore.log_scrub import LogScrub
from timermq.timerstore.message_store import MessageStore
from timermq.timerstore.queue_unit import UNIT
from timermq.timerstore.record import decode_record
from timermq.timerstore.record_layout import BODY_AT, BODY_LENGTH_AT, FIXED_SIZE_V1
from timermq.timerstore.record_spans import record_spans
from timermq.timerstore.seal_reader import remove_seals


def bodies(store: MessageStore) -> Iterator[str]:
    """The bodies of all records that a reading finds."""
    log = store.commit_log
    for _, data in LogReading(log, log.min_offset, purpose="a test"):
        yield decode_record(data).body.decode()[:6]


ENDS = pytest.mark.parametrize(("is_killed", "is_sealed"), [(1, 1), (0, 1), (0, 0)])
BEHIND = ["c", "d", "q"]


def opened(case: Forgery, *, is_killed: bool, is_sealed: bool) -> MessageStore:
    """The store, ended, damaged and opened again."""
    case.kill() if is_killed else case.stop()
    case.damage()
    if not is_sealed:
        remove_seals(case.disk, f"{ROOT}/commitlog")
    return case.open()


def check_nothing_forged(store: MessageStore) -> None:
    """No reading meets it, no consumer; what is stored next has the next number."""
    assert "forged" not in [*bodies(store)]
    assert [*bodies(store)][-3:] == BEHIND
    assert read_bodies(store)[-2:] == ["c", "d"]
    assert store.put([message()])[0].queue_offset == 4


@ENDS
@pytest.mark.parametrize("holder_count", [1, 3])
def test_what_a_body_holds_is_no_message(
    holder_count: int, *, is_killed: bool, is_sealed: bool
) -> None:
    """The units of the damaged messages tell where they end."""
    case = Forgery(holder_count=holder_count)

    check_nothing_forged(opened(case, is_killed=is_killed, is_sealed=is_sealed))


@ENDS
def test_of_a_queue_that_is_not_there(*, is_killed: bool, is_sealed: bool) -> None:
    """The same, if nothing could be asked about the message that the body holds."""
    case = Forgery(topic="U", queue_id=7)
    store = opened(case, is_killed=is_killed, is_sealed=is_sealed)

    check_nothing_forged(store)
    assert store.queue("U", 7) is None


def test_behind_the_newest_record() -> None:
    """Nothing stands there; the log ends behind it."""
    case = Forgery(is_last=True)
    store = opened(case, is_killed=True, is_sealed=True)

    assert "forged" not in [*bodies(store)]
    assert store.put([message()])[0].queue_offset == 2


@pytest.mark.parametrize(("topic", "queue_id"), [("T", 0), ("U", 7)])
def test_without_the_unit_of_the_damaged_message(topic: str, queue_id: int) -> None:
    """The queue that the body names has another record in that place, or never was."""
    case = Forgery(topic=topic, queue_id=queue_id)
    case.stop()
    case.damage()
    case.remove("P")

    store = open_store(case.disk, case.clock, FORGERY_OPTIONS, read_only=True)
    assert "forged" not in [*bodies(store)]
    assert [*bodies(store)][-3:] == BEHIND


def test_a_wrong_unit_of_the_damaged_message() -> None:
    """It would lead over what stands behind; nothing bears it out."""
    case = Forgery()
    case.stop()
    case.damage()
    at = case.holders[0]
    case.write_unit("P", 0, UNIT.pack(at, 1_300, 0))

    store = case.open()
    assert "forged" not in [*bodies(store)]
    assert [*bodies(store)][-3:] == BEHIND


def test_records_of_lost_queues_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing shows where the damaged message ends, and the next unit is of a later record.

    Units that were made again before they are met are not all of their queue.
    """
    monkeypatch.setattr(redispatch, "GATHER_COUNT", 1)
    case = Forgery(holder_count=0, is_last=True)
    case.put(b"x" * 900)
    put_bodies(case.store, *"cd")
    put_bodies(case.store, "q", topic="Q")
    case.stop()
    case.damage()
    case.remove("P")
    case.remove("T")

    store = case.open()
    assert [*bodies(store)][-3:] == BEHIND
    assert read_bodies(store)[-2:] == ["c", "d"]


def test_a_sealed_head_tells_where_its_record_ends() -> None:
    """No unit shows the damaged message; the length of its topic is what is damaged."""
    case = Forgery()
    at = case.holders[0]
    _, topic_at, _, size = record_spans(case.store.commit_log.read(at, 2_000))
    case.stop()
    case.write(at + topic_at - 1, bytes(size - topic_at + 1))
    case.remove("P")
    case.remove("T")
    log = open_store(case.disk, case.clock, FORGERY_OPTIONS, read_only=True).commit_log
    reading = LogReading(log, log.min_offset, purpose="a test")

    assert "forged" not in [decode_record(data).body.decode() for _, data in reading]
    assert (reading.holes[0].position, reading.holes[0].end) == (at, at + size)


def test_the_end_of_a_queue_before_the_end_of_the_log() -> None:
    """Newer records are in their queues, so what the body holds would be too."""
    case = Forgery(is_last=True)
    filled = case.store.commit_log.segment_size - case.store.commit_log.max_offset
    put_bodies(case.store, "z" * filled, topic="Q")
    case.stop()
    case.damage()
    case.remove("P")
    store = open_store(case.disk, case.clock, FORGERY_OPTIONS, read_only=True)

    assert store.commit_log.min_offset < store.commit_log.max_offset // 2
    assert "forged" not in [*bodies(store)]


def test_the_scrub_puts_no_unit_right_by_what_a_body_holds() -> None:
    """The record that the body names has a damaged unit."""
    case = Forgery()
    case.stop()
    store = case.open()
    case.damage()
    case.write_unit("T", 2, UNIT.pack(1, 2, 3))
    scrub, at = LogScrub(store.files), 0
    scrub.begin()
    while at < store.commit_log.max_offset:
        at = scrub.step(at, store.commit_log.max_offset).at

    assert read_bodies(store) == ["c", "d"]


def test_a_body_with_one_checksum_for_two_lengths() -> None:
    """A flipped bit of the length would make the record another one, of another topic.

    Its size would then seem to be what is damaged, and behind it stands what the body holds.
    """
    case = Forgery(holder_count=0, is_last=True)
    at, short = case.store.commit_log.max_offset, b"s" * 64
    end = at + FIXED_SIZE_V1 + len(short) + 1
    body = short + b"\x01T\x00\x00" + forged(end, queue_offset=3)
    body = body.ljust(len(short) + 1024 - 4, b".")
    case.put(body + _ending(body, zlib.crc32(short)))
    put_bodies(case.store, *"cd")
    assert end - at - BODY_AT == len(short) + 4
    case.stop()
    case.write(at + BODY_LENGTH_AT, len(short).to_bytes(4))
    remove_seals(case.disk, f"{ROOT}/commitlog")

    assert [*bodies(case.open())] == ["a", "b", "c", "d"]


def _ending(data: bytes, checksum: int) -> bytes:
    """Four bytes behind which data has a CRC-32."""
    register = checksum ^ 0xFFFFFFFF
    for _ in range(4):
        number = next(one for one in range(256) if _TABLE[one] >> 24 == register >> 24)
        register = (register ^ _TABLE[number]) << 8 & 0xFFFFFFFF | number
    return (register ^ zlib.crc32(data) ^ 0xFFFFFFFF).to_bytes(4, "little")


_TABLE = [zlib.crc32(bytes([one])) ^ zlib.crc32(b"\0") for one in range(256)]
"""What each byte adds to a CRC-32: linear, so what it adds to that of a zero."""
