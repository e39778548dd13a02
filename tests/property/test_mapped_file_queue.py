"""A log in segments beside a list of bytes."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from timermq.simulator.disks.memory_disk import MemoryDisk
from timermq.timerstore.mapped_file_queue import MappedFileQueue

SEGMENT = 4
STEPS = st.one_of(
    st.tuples(st.just("append"), st.binary(min_size=1, max_size=9)),
    st.tuples(st.just("cut"), st.integers(0, 12)),
    st.tuples(st.just("delete"), st.integers(0, 40)),
    st.tuples(st.just("reopen"), st.just(0)),
)


def append(log: MappedFileQueue, data: bytes) -> None:
    """Write behind the end, segment by segment."""
    while data:
        room = log.room() or SEGMENT
        log.write(log.wrote, data[:room])
        data = data[room:]


def new_log(disk: MemoryDisk) -> MappedFileQueue:
    """The log as it is opened."""
    log = MappedFileQueue(disk, "/log", SEGMENT, reserve=True)
    log.load()
    return log


@given(st.lists(STEPS, max_size=15))
def test_a_log_is_a_list_of_bytes(steps: list[tuple[str, bytes | int]]) -> None:
    """Appends, cuts, deletions and restarts leave the bytes that a list would hold."""
    disk = MemoryDisk()
    log = new_log(disk)
    model, first = bytearray(), 0
    for verb, value in steps:
        if isinstance(value, bytes):
            append(log, value)
            model += value
        elif verb == "cut":
            end = max(log.wrote - value, first)
            log.set_end(end)
            del model[end:]
        elif verb == "delete":
            deleted = log.delete_before(value)
            first += deleted * SEGMENT
            assert first <= max(value, first - deleted * SEGMENT)
        else:
            log.close()
            end = log.wrote
            log = new_log(disk)
            # What recovery would find out by reading.
            log.set_end(end)
        starts = [segment.start for segment in log.segments]
        read = b"".join(log.read(start, SEGMENT) for start in starts)

        assert starts == list(range(first, first + len(starts) * SEGMENT, SEGMENT))
        assert read == bytes(model[first:])
        assert log.wrote == len(model)
        assert log.flushed_where <= log.wrote
