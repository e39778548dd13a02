"""Logs that are damaged anywhere, put back from copies of any kind: never worse than before.

Each byte of the log is, after a repair from a copy, as it was written or as the damage left it.
From a copy of the same log all damage is gone that it has, and nothing but that is written.
"""

from __future__ import annotations

import enum
import functools

import attrs
import trio
from hypothesis import given, settings
from hypothesis import strategies as st

from fakes import ManualClock
from small_store import ROOT, SEGMENT_SIZE, open_store, put_bodies, small_options
from timermq.pipeline.state.timer_options import TimerOptions
from timermq.repair.log_survey import Found, LogSurvey
from timermq.repair.segment_row import SegmentRow
from timermq.repair.source_repair import PutBack, SourceRepair
from timermq.repair.store_check import CheckedStore
from timermq.repair.store_repair import StoreRepair
from timermq.simulator.disks.disk_damage import Image, read_image, write_image
from timermq.simulator.disks.memory_disk import MemoryDisk

COUNT = 24
"""Messages of the log: some segments full."""


class Copy(enum.Enum):
    """The kinds of copies that are tried."""

    SAME = enum.auto()
    SHORTER = enum.auto()
    """It ends earlier."""
    CLEANED = enum.auto()
    """It begins later."""
    DAMAGED = enum.auto()
    """It has damage of its own."""
    DIVERGED = enum.auto()
    """From some record on it has others, of the same sizes at the same places."""


@attrs.define
class BytesSource:
    """A copy of a log in memory."""

    data: bytes
    start: int
    end: int
    part_size: int
    place: str = "copy"
    segment_size: int = SEGMENT_SIZE

    async def read(self, first: int, size: int) -> bytes:
        """Bytes from a position on, some at a time."""
        if not self.start <= first < self.end:
            return b""
        return self.data[first : min(first + min(size, self.part_size), self.end)]


@functools.cache
def image_of(parts_at: int | None) -> Image:
    """A stopped store; from a message on it is another one than without."""
    return trio.run(_image, parts_at)


async def _image(parts_at: int | None) -> Image:
    clock = ManualClock()
    disk = MemoryDisk(now_ms=clock.now_ms)
    store = open_store(disk, clock)
    for number in range(COUNT):
        if number == parts_at:
            clock.time_ms += 1
        put_bodies(store, f"{number:02d}{'x' * (37 * number % 150)}")
    await store.aclose()
    return read_image(disk, ROOT)


def log_of(image: Image) -> bytes:
    """The bytes of all segments."""
    return b"".join(image[path] for path in segments_of(image))


def records_of(image: Image) -> dict[int, bytes]:
    """Every good record by its position."""
    disk = MemoryDisk()
    write_image(disk, image)
    row = SegmentRow(disk, ROOT, "commitlog", SEGMENT_SIZE)
    found = {one.position: one.data for one in LogSurvey(row) if isinstance(one, Found)}
    row.close()
    return found


def segments_of(image: Image) -> list[str]:
    """The paths of all segments."""
    return sorted(path for path in image if path.startswith(f"{ROOT}/commitlog/"))


def damaged(data: bytes, places: list[tuple[int, int, int]]) -> bytes:
    """Bytes of which some runs are others."""
    changed = bytearray(data)
    for at, size, mask in places:
        at %= len(data)
        for index in range(at, min(at + size, len(data))):
            changed[index] ^= mask
    return bytes(changed)


def put_back(image: Image, source: BytesSource) -> tuple[Image, list[PutBack]]:
    """The store of an image after a repair from a copy, and what was put back."""
    clock = ManualClock()
    disk = MemoryDisk(now_ms=clock.now_ms)
    write_image(disk, image)
    found = trio.run(SourceRepair(source=source, store=checked(disk, clock)).run)
    return read_image(disk, ROOT), found


def checked(disk: MemoryDisk, clock: ManualClock) -> CheckedStore:
    """The store of a disk."""
    return CheckedStore(
        disk=disk,
        root=ROOT,
        store_options=small_options(),
        timer_options=TimerOptions(),
        now_ms=clock.now_ms(),
    )


def repaired(image: Image) -> Image:
    """The store of an image after a repair: single words are put right by their seals."""
    clock = ManualClock()
    disk = MemoryDisk(now_ms=clock.now_ms)
    write_image(disk, image)
    trio.run(StoreRepair(checked(disk, clock), clock.now_ms).run)
    return read_image(disk, ROOT)


PLACES = st.lists(
    st.tuples(st.integers(0, 8 * SEGMENT_SIZE), st.integers(1, 300), st.integers(1, 255)),
    min_size=1,
    max_size=4,
)


@settings(deadline=None, max_examples=60)
@given(
    places=PLACES,
    others=PLACES,
    kind=st.sampled_from(Copy),
    cut=st.integers(1, COUNT - 1),
    part_size=st.sampled_from([1 << 20, 100, 7]),
    has_seals=st.booleans(),
)
def test_never_worse(
    places: list[tuple[int, int, int]],
    others: list[tuple[int, int, int]],
    kind: Copy,
    cut: int,
    part_size: int,
    has_seals: bool,
) -> None:
    """Whatever is damaged, and whatever the copy is."""
    image = dict(image_of(None))
    whole = log_of(image)
    used = len(whole.rstrip(b"\0"))
    source = BytesSource(whole, 0, used, part_size)
    match kind:
        case Copy.SAME:
            pass
        case Copy.SHORTER:
            source.end = used * cut // COUNT
        case Copy.CLEANED:
            source.start = used * cut // COUNT
        case Copy.DAMAGED:
            source.data = damaged(whole, others)
        case Copy.DIVERGED:
            source.data = log_of(image_of(cut))
    broken = damaged(whole[:used], places) + whole[used:]
    for number, path in enumerate(segments_of(image)):
        image[path] = broken[number * SEGMENT_SIZE : (number + 1) * SEGMENT_SIZE]
    if not has_seals:
        image = {path: data for path, data in image.items() if "timermq-seals" not in path}
    after, found = put_back(image, source)
    log = log_of(after)
    strange = [at for at in range(len(whole)) if log[at] not in (whole[at], broken[at])]
    worse = [at for at in range(len(whole)) if broken[at] == whole[at] != log[at]]

    assert [] == strange, (found, "bytes that never stood there")
    assert [] == worse
    if kind is Copy.SAME and has_seals:
        # Behind the head of a blank stands nothing that anything reads.
        assert records_of(image_of(None)) == records_of(repaired(after))
