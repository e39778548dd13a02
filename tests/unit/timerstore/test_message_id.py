"""Tests of offset message ids and unique keys."""

from __future__ import annotations

import datetime

import pytest

from fakes import START_MS, ManualClock
from timermq.timerstore.message import pack_host
from timermq.timerstore.message_id import (
    COUNTER_MAX,
    UniqueIdGenerator,
    offset_message_id,
    parse_offset_message_id,
)

HOST = pack_host("127.0.0.1", 10911)
HOST_V6 = pack_host("::1", 20911)


@pytest.mark.parametrize(
    ("host", "phy_offset", "text"),
    [
        (HOST, 100, "7F00000100002A9F0000000000000064"),
        (HOST_V6, 0x572D, "00000000000000000000000000000001000051AF000000000000572D"),
    ],
)
def test_offset_message_id(host: bytes, phy_offset: int, text: str) -> None:
    """The id is host and position in upper-case digits, and is read back in either case."""
    assert text == offset_message_id(host, phy_offset)
    assert (host, phy_offset) == parse_offset_message_id(text)
    assert (host, phy_offset) == parse_offset_message_id(text.lower())


@pytest.mark.parametrize("text", ["", "7F", "G" * 32, "7F 0" * 8, "é" * 32, "0" * 40])
def test_what_is_no_offset_message_id(text: str) -> None:
    """Anything but 32 or 56 hexadecimal digits is refused."""
    with pytest.raises(ValueError, match=r"hexadecimal"):
        parse_offset_message_id(text)


def generator(clock: ManualClock, host: bytes = HOST) -> UniqueIdGenerator:
    """A generator of process 0x12345, instance 0xCAFE."""
    return UniqueIdGenerator(host, 0x12345, clock.now_ms, instance=0xCAFE)


def test_unique_key_layout() -> None:
    """A key is address, process, instance, milliseconds of the month, counter."""
    clock = ManualClock()
    made = generator(clock).next()
    first = datetime.datetime.fromtimestamp(START_MS / 1000).replace(
        day=1, hour=0, minute=0, second=0, microsecond=0
    )
    since_ms = START_MS - int(first.timestamp() * 1000)

    assert f"7F00000123450000CAFE{since_ms:08X}0000" == made


def test_ipv6_keys_are_longer() -> None:
    """With an IPv6 address a key has 56 digits."""
    assert len(generator(ManualClock(), HOST_V6).next()) == 56


def test_keys_ascend_within_a_millisecond() -> None:
    """The counter tells keys of one millisecond apart, and starts again with the next."""
    clock = ManualClock()
    unique_ids = generator(clock)
    tails = [unique_ids.next()[-4:] for _ in range(3)]
    clock.time_ms += 1

    assert tails == ["0000", "0001", "0002"]
    assert unique_ids.next().endswith("0000")


def test_a_step_back_repeats_nothing() -> None:
    """While the clock is behind, keys go on from the last moment."""
    clock = ManualClock()
    unique_ids = generator(clock)
    before = unique_ids.next()
    clock.time_ms -= 5000
    after = unique_ids.next()

    assert before[:-4] == after[:-4]
    assert before < after


def test_a_used_up_counter_borrows_a_millisecond() -> None:
    """A clock that stands still does not run out of keys."""
    unique_ids = generator(ManualClock())
    keys = [unique_ids.next() for _ in range(COUNTER_MAX + 2)]

    assert sorted(set(keys)) == keys


def test_the_month_begins_anew() -> None:
    """In the next month milliseconds are counted from its own beginning."""
    clock = ManualClock()
    unique_ids = generator(clock)
    unique_ids.next()
    moment = datetime.datetime.fromtimestamp(START_MS / 1000)
    clock.time_ms = int(datetime.datetime(moment.year + 1, 1, 1, 0, 0, 1).timestamp() * 1000)

    assert f"{1000:08X}0000" == unique_ids.next()[-12:]
