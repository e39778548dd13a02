"""Damage in the files of a consume queue, and then a kill and a start."""

from __future__ import annotations

import attrs
import trio
import trio.testing
from hypothesis import given
from hypothesis import strategies as st

from fakes import ManualClock
from small_store import ROOT, message, open_store
from timermq.simulator.disks.disk_damage import read_image, write_image
from timermq.simulator.disks.memory_disk import MemoryDisk
from timermq.timerstore.errors import StoreFormatError
from timermq.timerstore.message_store import MessageStore
from timermq.timerstore.queue_unit import UNIT
from timermq.timerstore.record import decode_record
from timermq.timerstore.store_options import StoreOptions

UNITS_A_FILE = 4
OPTIONS = StoreOptions(
    mapped_file_size_commit_log=4096,
    mapped_file_size_consume_queue=UNITS_A_FILE * UNIT.size,
    max_hash_slot_num=10,
    max_index_num=100,
)
TOPICS = ("T", "U")
LOCK = f"{ROOT}/lock"


@attrs.frozen
class Damage:
    """What happens to the file that holds some unit of T."""

    kind: str
    at: int
    """Which unit, modulo their number."""
    other: int
    """Another unit, a bit or a length, modulo what there is."""
    noise: bytes

    def apply(self, files: dict[str, bytes], count: int) -> None:
        """Damage the files of a queue of ``count`` units, in place."""
        unit = self.at % count
        path, at = place(unit)
        data = bytearray(files[path])
        if self.kind == "flip":
            bit = self.other % (UNIT.size * 8)
            data[at + bit // 8] ^= 1 << bit % 8
        elif self.kind == "zero":
            data[at : at + UNIT.size] = bytes(UNIT.size)
        elif self.kind == "noise":
            data[at : at + UNIT.size] = self.noise
        elif self.kind == "truncate":
            del data[self.other % len(data) :]
        elif self.kind == "remove":
            del files[path]
            return
        else:
            other_path, other_at = place(self.other % count)
            other = files[other_path][other_at : other_at + UNIT.size]
            mine = bytes(data[at : at + UNIT.size])
            data[at : at + UNIT.size] = other
            if self.kind == "swap":
                files[path] = bytes(data)
                data, path, at = bytearray(files[other_path]), other_path, other_at
                data[at : at + UNIT.size] = mine
        files[path] = bytes(data)


DAMAGES = st.builds(
    Damage,
    st.sampled_from(["flip", "zero", "noise", "copy", "swap", "truncate", "remove"]),
    st.integers(0, 99),
    st.integers(0, 999),
    st.binary(min_size=UNIT.size, max_size=UNIT.size),
)


def place(unit: int) -> tuple[str, int]:
    """File of a unit of T, and where it stands in it."""
    size = UNITS_A_FILE * UNIT.size
    start = unit * UNIT.size // size * size
    return f"{ROOT}/consumequeue/T/0/{start:020d}", unit * UNIT.size - start


def shown(store: MessageStore) -> dict[tuple[str, int], tuple[bytes, int]]:
    """What consumers see: body and tags code by topic and queue offset."""
    found: dict[tuple[str, int], tuple[bytes, int]] = {}
    for topic in TOPICS:
        queue = store.queue(topic, 0)
        assert queue is not None
        for offset in range(queue.min_offset, queue.max_offset):
            phy_offset, size, tags_code = queue.units(offset, 1)[0].tolist()
            data = store.commit_log.record_at(phy_offset, size)
            found[topic, offset] = (b"" if data is None else decode_record(data).body, tags_code)
    return found


def opened(disk: MemoryDisk, clock: ManualClock) -> MessageStore:
    """The store on this disk, opened anew."""
    return open_store(disk, clock, OPTIONS)


async def served(store: MessageStore) -> None:
    """Serve a store until its checkpoint says that everything is durable."""
    async with trio.open_nursery() as nursery:
        await nursery.start(store.run)
        await trio.sleep(10)
        nursery.cancel_scope.cancel()


def built(
    clock: ManualClock, topics: list[int], stop_at: int
) -> tuple[MemoryDisk, dict[tuple[str, int], tuple[bytes, int]]]:
    """A store that was killed with everything durable, and what its queues showed."""
    disk = MemoryDisk(now_ms=clock.now_ms)
    store = opened(disk, clock)
    for number, topic in enumerate([0, 1, *topics]):
        store.put([message(f"body {number}", TOPICS[topic])])
        clock.time_ms += 1000
        if number == stop_at:
            trio.run(store.aclose)
            store = opened(disk, clock)
    trio.run(served, store, clock=trio.testing.MockClock(autojump_threshold=0))
    before = shown(store)
    disk.process_kill()
    return disk, before


@given(st.lists(st.integers(0, 1), max_size=16), st.integers(0, 30), DAMAGES)
def test_every_queue_offset_shows_what_it_showed(
    topics: list[int], stop_at: int, damage: Damage
) -> None:
    """Or the start says which file, and changes nothing. What is sent then is the next."""
    clock = ManualClock()
    disk, before = built(clock, topics, stop_at)
    files = read_image(disk, ROOT)
    damage.apply(files, sum(topic == "T" for topic, _ in before))
    damaged = MemoryDisk(now_ms=clock.now_ms)
    damaged.make_dirs(ROOT)
    write_image(damaged, files)
    store, reason = None, ""
    try:
        store = opened(damaged, clock)
    except StoreFormatError as error:
        reason = str(error)
    if store is None:
        after = read_image(damaged, ROOT)

        assert "consumequeue/T/0" in reason
        assert files | {LOCK: b""} == after | {LOCK: b""}
        return

    assert before == shown(store)
    assert sum(topic == "T" for topic, _ in before) == store.put([message()])[0].queue_offset
    damaged.process_kill()
    assert before == {
        place: one for place, one in shown(opened(damaged, clock)).items() if place in before
    }
