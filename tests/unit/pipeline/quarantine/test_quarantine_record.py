"""The two records of the quarantine: what is written is what is read, whatever the message was."""

from __future__ import annotations

import attrs
import pytest

from timermq.pipeline.quarantine.quarantine_record import (
    TEXT_SIZE_MAX,
    UNIQUE_KEY_SIZE_MAX,
    Entry,
    State,
    entry_message,
    mark_message,
    read_entry,
    read_mark,
    renewed,
)
from timermq.pipeline.records.deduplication import origin_in
from timermq.pipeline.records.timer_record import TIMER_TOPIC, timer_tail
from timermq.pipeline.records.undeliverable import UNSOUND, Reason, Undeliverable
from timermq.timerstore.message import Message
from timermq.timerstore.properties import UNIQ_KEY_NAME, find
from timermq.timerstore.record import decode_record, encode_record

OUT_MS = 1_700_000_010_000
NOW_MS = OUT_MS + 60_000
PLACE = 4_096


def stored(message: Message) -> bytes:
    """The record of a message."""
    return encode_record(
        message, queue_offset=0, phy_offset=9_000, store_ms=NOW_MS + 1, store_host=bytes(8)
    )


def timer(properties: bytes) -> bytes:
    """A record of the timer topic for queue 3 of a topic."""
    tail = timer_tail(deliver_ms=OUT_MS + 7, out_ms=OUT_MS, topic="T", queue_id=3)
    return stored(Message(TIMER_TOPIC, 0, b"b", properties + tail))


FAULT = Undeliverable(
    offset_py=PLACE,
    size_py=500,
    record=timer(b"UNIQ_KEY\x01k\x02KEYS\x01order\x02TAGS\x01red\x02"),
    reason=Reason.REFUSED,
    text="expected this, found that",
)


def entry_of(fault: Undeliverable) -> Entry:
    """The entry as the next run reads it."""
    entry = read_entry(stored(entry_message(fault, NOW_MS)))
    assert entry is not None
    return entry


def test_an_entry_tells_all_of_its_message() -> None:
    """Why and when it was quarantined, and what its record says."""
    assert entry_of(FAULT) == Entry(
        origin_py=PLACE,
        reason="refused",
        text="expected this, found that",
        set_aside_ms=NOW_MS,
        size=500,
        record=FAULT.record,
        topic="T",
        queue_id=3,
        deliver_ms=OUT_MS + 7,
        unique_id="k",
        keys="order",
        tags="red",
    )


def test_an_entry_of_a_record_that_is_gone() -> None:
    """The unit alone tells of it: its place, its size and its moment."""
    entry = entry_of(attrs.evolve(FAULT, record=b"", reason=Reason.GONE, deliver_ms=OUT_MS + 9))

    assert (entry.origin_py, entry.size, entry.record) == (PLACE, 500, b"")
    assert (entry.topic, entry.queue_id, entry.unique_id) == (None, None, "")
    assert entry.deliver_ms == OUT_MS + 9


def test_the_moment_of_the_unit_counts_before_that_of_the_record() -> None:
    """The record may be damaged where it states its moment."""
    assert entry_of(attrs.evolve(FAULT, deliver_ms=OUT_MS + 9)).deliver_ms == OUT_MS + 9


@pytest.mark.parametrize("reason", Reason)
def test_a_record_is_sound_unless_its_bytes_are_wrong(reason: Reason) -> None:
    """Then the fault lies elsewhere, and its key can be believed."""
    assert entry_of(attrs.evolve(FAULT, reason=reason)).is_sound is (reason not in UNSOUND)


@pytest.mark.parametrize("size", [UNIQUE_KEY_SIZE_MAX, UNIQUE_KEY_SIZE_MAX + 1])
def test_a_very_long_unique_key_is_not_repeated(size: int) -> None:
    """It stays in the record in the body, where nothing looks for it by the index."""
    key = b"k" * size
    fault = attrs.evolve(FAULT, record=timer(b"UNIQ_KEY\x01%b\x02" % key))
    found = find(entry_message(fault, NOW_MS).properties, UNIQ_KEY_NAME)

    assert found == (key if size <= UNIQUE_KEY_SIZE_MAX else None)
    assert entry_of(fault).unique_id == key.decode()


@pytest.mark.parametrize(
    ("text", "kept"),
    [
        ("a\x01b\x02c", "a?b?c"),
        ("x" * (TEXT_SIZE_MAX + 1), "x" * TEXT_SIZE_MAX),
        ("x" * (TEXT_SIZE_MAX - 1) + "é", "x" * (TEXT_SIZE_MAX - 1)),
        ("", "-"),
    ],
    ids=["separators", "too long", "cut within a character", "empty"],
)
def test_a_text_is_made_to_fit_a_property(text: str, kept: str) -> None:
    """It may hold bytes of a damaged record, which must not end the property."""
    assert entry_of(attrs.evolve(FAULT, text=text)).text == kept


def test_a_renewed_entry_is_the_same_entry() -> None:
    """Its time in quarantine goes on from the first time that it was written."""
    first = stored(entry_message(FAULT, NOW_MS))

    assert read_entry(stored(renewed(decode_record(first)))) == read_entry(first)


@pytest.mark.parametrize("state", [one for one in State if one is not State.ACTIVE])
def test_a_mark_tells_what_became_of_an_entry(state: State) -> None:
    """It names the entry in a property: with an origin it would be an entry itself."""
    mark = stored(mark_message(entry_of(FAULT), state, "operator"))
    found = read_mark(mark)

    assert found is not None
    assert (found.origin_py, found.state, found.by) == (PLACE, state, "operator")
    assert origin_in(mark) is None
    assert read_entry(mark) is None
    assert find(decode_record(mark).properties, UNIQ_KEY_NAME) == b"k"


@pytest.mark.parametrize(
    "properties", [b"", b"TAGS\x01dropped\x02", b"QUARANTINE_OF\x017\x02TAGS\x01active\x02"]
)
def test_what_ends_nothing_is_no_mark(properties: bytes) -> None:
    """It names no entry, or no end; an entry is none either."""
    assert read_mark(stored(Message("Q", 0, b"", properties))) is None
    assert read_mark(stored(entry_message(FAULT, NOW_MS))) is None
