"""Tests of a message by its position: only what a queue shows is one."""

from __future__ import annotations

import pytest
import trio
from hypothesis import given
from hypothesis import strategies as st

from small_store import ROOT, open_store
from timermq.simulator.disks.memory_disk import MemoryDisk
from timermq.timerstore.message import Message, pack_host
from timermq.timerstore.message_lookup import look_message_by_offset
from timermq.timerstore.message_store import MessageStore
from timermq.timerstore.queue_unit import UNIT
from timermq.timerstore.record import decode_record, encode_record
from timermq.timerstore.record_layout import HEAD

HOST = pack_host("127.0.0.1", 1)


def forged(phy_offset: int, queue_offset: int, body: bytes = b"") -> bytes:
    """Bytes of a record of T that stands at a position."""
    return encode_record(
        Message("T", 0, body, b""),
        queue_offset=queue_offset,
        phy_offset=phy_offset,
        store_ms=1,
        store_host=HOST,
    )


def put(store: MessageStore, body: bytes, topic: str = "T", born: bytes = HOST) -> int:
    """Store a message; its position."""
    (result,) = store.put([Message(topic, 0, body, b"KEYS\x01k\x02", born_host=born)])
    return result.end - result.size


@pytest.mark.parametrize("born", [HOST, pack_host("::1", 1)], ids=["IPv4", "IPv6"])
def test_a_message_is_found_where_it_begins(born: bytes) -> None:
    """Whole; also the last of a segment and the first of the next."""
    store = open_store(MemoryDisk())
    places = [put(store, b"%d" % number * 200, born=born) for number in range(60)]
    found = [look_message_by_offset(store, at) for at in places]

    assert len(store.commit_log.segments) > 1
    assert [b"%d" % number * 200 for number in range(60)] == [
        decode_record(data).body for data in found if data is not None
    ]


@pytest.mark.parametrize("queue_offset", [0, 1, 2, -1, 1 << 62])
def test_a_record_inside_a_body_is_none(queue_offset: int) -> None:
    """Though it states its position, which its sender can tell before."""
    store = open_store(MemoryDisk())
    put(store, b"first")
    at = store.commit_log.max_offset + HEAD.size
    put(store, forged(at, queue_offset))

    assert look_message_by_offset(store, at) is None


def test_a_head_that_spans_others_is_none() -> None:
    """Nor is what stands between the forged head and its forged end read."""
    store = open_store(MemoryDisk())
    at = store.commit_log.max_offset + HEAD.size
    whole = forged(at, 0, bytes(2_000))
    put(store, whole[: HEAD.size])
    put(store, b"of another topic", "V")
    here = store.commit_log.max_offset + HEAD.size
    put(store, bytes(at + HEAD.size + 2_000 - here) + whole[HEAD.size + 2_000 :])

    assert look_message_by_offset(store, at) is None


def test_a_unit_of_another_size_is_none() -> None:
    """A record that begins where a unit leads, but is said to be longer, is not that one."""
    disk = MemoryDisk()
    store = open_store(disk)
    at = put(store, b"sound")
    put(store, b"behind")
    disk.rot(f"{ROOT}/commitlog/{0:020d}", at + 3, b"\xff")

    assert look_message_by_offset(store, at) is None


def test_of_a_deleted_topic_is_none() -> None:
    """Its records stay in the log until they are cleaned."""
    store = open_store(MemoryDisk())
    at, other = put(store, b"gone"), put(store, b"kept", "V")
    trio.run(store.delete_topic, "T")

    assert look_message_by_offset(store, at) is None
    assert look_message_by_offset(store, other) is not None


def test_a_unit_that_has_rotted_is_put_right() -> None:
    """The record is there, and its neighbours show where."""
    disk = MemoryDisk()
    store = open_store(disk)
    places = [put(store, b"%d" % number) for number in range(3)]
    disk.rot(f"{ROOT}/consumequeue/T/0/{0:020d}", UNIT.size, bytes(UNIT.size))

    assert look_message_by_offset(store, places[1]) is not None


@given(
    bodies=st.lists(st.tuples(st.integers(0, 3), st.binary(max_size=40)), min_size=1, max_size=8),
    ahead=st.integers(-120, 120),
)
def test_only_positions_of_units_are_messages(bodies: list[tuple[int, bytes]], ahead: int) -> None:
    """Whatever the bodies are, records among them: every position of the log is asked."""
    store = open_store(MemoryDisk())
    places: set[int] = set()
    for kind, body in bodies:
        at = store.commit_log.max_offset
        inside = forged(at + HEAD.size, kind, body)
        shaped = (body, inside, inside[: HEAD.size], forged(at + HEAD.size + ahead, kind, body))
        places.add(put(store, shaped[kind]))
    end = store.commit_log.max_offset

    assert places == {at for at in range(-2, end + 2) if look_message_by_offset(store, at)}
