"""What cleaning takes away is written down before it goes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection

from timermq.client.history import Deliver, Event, Publish
from timermq.simulator.disks.memory_disk import MemoryDisk
from timermq.simulator.removed_segments import RemovedSegments
from timermq.simulator.seen_messages import SeenMessages
from timermq.simulator.segment_records import segment_records
from timermq.timerstore.message import Message
from timermq.timerstore.message_store import MessageStore
from timermq.timerstore.store_options import StoreOptions

ROOT = "/store"
SEGMENT_SIZE = 4_096


def made_store(disk: MemoryDisk) -> list[str]:
    """Messages of a topic that clients read and of one that they do not; the paths of the log."""
    options = StoreOptions(mapped_file_size_commit_log=SEGMENT_SIZE, message_index_enable=False)
    store = MessageStore.open(disk, ROOT, options, now_ms=lambda: 1_000, store_host=bytes(8))
    for number in range(9):
        name = f"UNIQ_KEY\x01M{number:06}\x02".encode()
        store.put([Message("A" if number % 2 else "other", 1, b"x" * 900, name)])
    return [f"{ROOT}/commitlog/{name}" for name in disk.list_dir(f"{ROOT}/commitlog")]


def removed(
    disk: MemoryDisk, paths: list[str], seen: SeenMessages, damaged: Collection[int] = ()
) -> tuple[list[Event], int]:
    """What is told of removals, and how many segments count as cleaned."""
    told: list[Event] = []
    counts = Counter[str]()
    removed = RemovedSegments(
        root=ROOT,
        now_ms=lambda: 2_000,
        tell=told.append,
        seen=seen,
        counts=counts,
        damaged=damaged,
    )
    for path in paths:
        removed.before_removal(disk, path)
    return told, counts.total()


def test_messages_of_a_cleaned_segment_are_told() -> None:
    """Those of the clients' topics, with their places; look-ups need not find them any more."""
    disk = MemoryDisk()
    paths = made_store(disk)
    seen = SeenMessages(is_sync=True)
    place = Deliver(
        at_ms=1, who="c", message_id="M000001", topic="A", queue=1, offset=0, stored_ms=1,
        received_ms=1,
    )  # fmt: skip
    seen.add(place, 0)

    told, count = removed(disk, paths[:1], seen)

    arrived = [one for one in told if isinstance(one, Publish)]
    assert [("M000001", "A", 1, 0)] == [
        (one.message_id, one.topic, one.queue, one.offset) for one in arrived[:1]
    ]
    assert {"A"} == {one.topic for one in arrived}
    assert (1, set()) == (count, seen.places("A", "M000001"))


def test_a_damaged_record_was_told_before() -> None:
    """Its store time may be another by now: told again it would be a second message there."""
    disk = MemoryDisk()
    path, *_ = made_store(disk)
    told, _ = removed(disk, [path], SeenMessages(is_sync=True))
    positions = [
        one.phy_offset
        for one in segment_records(disk.open(path).read(0, SEGMENT_SIZE), 0)
        if one.topic == "A"
    ]
    again, _ = removed(disk, [path], SeenMessages(is_sync=True), positions[:1])

    assert len(positions) == len(told) > 1
    assert told[1:] == again


def test_what_a_repair_has_put_into_a_hole_is_no_message() -> None:
    """It was not sent; its place is remembered, for there a message was lost."""
    disk = MemoryDisk()
    options = StoreOptions(mapped_file_size_commit_log=SEGMENT_SIZE, message_index_enable=False)
    store = MessageStore.open(disk, ROOT, options, now_ms=lambda: 1_000, store_host=bytes(8))
    for properties in (b"TIMERMQ_LOST\x011\x02", b"", b""):
        store.put([Message("A", 1, b"x" * 1_900, properties)])
    seen = SeenMessages(is_sync=True)

    told, count = removed(disk, [f"{ROOT}/commitlog/{0:020}"], seen)

    assert [1] == [one.offset for one in told if isinstance(one, Publish)]
    assert (1, {"A/1@0"}) == (count, seen.fillers)


def test_what_recovery_cuts_off_is_not_cleaned() -> None:
    """The newest segment, one in the middle, and other files."""
    disk = MemoryDisk()
    paths = made_store(disk)
    assert len(paths) >= 3

    assert ([], 0) == removed(disk, [*paths[1:], f"{ROOT}/abort"], SeenMessages(is_sync=True))
