"""The end of the timer log after a crash.

Segments have their full length from the beginning and units carry no checksum, so the end is where
something stands that is not a unit: zeros, as a rule.

Source: Java ``TimerMessageStore.recoverAndRevise``.
"""

from __future__ import annotations

from timermq.timerstore.mapped_file_queue import MappedFileQueue

from .segment import chunks, is_closed
from .unit import UNIT, are_units

CLEAR_SIZE = 1 << 20
"""Bytes looked at in one piece when the rest of a segment is cleared."""

_ZEROS = bytes(CLEAR_SIZE)


def find_end(queue: MappedFileQueue, start: int) -> int:
    """Position behind the last good unit, or behind the blank that closed its segment.

    Args:
        queue: The segments, ``wrote`` at the end of the last.
        start: The start of the reading: that of a segment.
    """
    end = start
    for first, units in chunks(queue, start):
        if first > end and not is_closed(queue, end):
            return end
        valid = are_units(units)
        if not valid.all():
            return first + int(valid.argmin()) * UNIT.size
        end = first + len(units) * UNIT.size
    closed = is_closed(queue, end)
    return end - end % queue.segment_size + queue.segment_size if closed else end


def hollow_segments(queue: MappedFileQueue) -> list[int]:
    """The starts of segments that hold nothing, before the last: they were lost.

    Seals tell of it too, where there are any.
    """
    heads = ((one.start, one.file.read(0, UNIT.size)) for one in queue.segments[:-1])
    return [start for start, head in heads if not any(head)]


def clear_behind(queue: MappedFileQueue, end: int) -> None:
    """Overwrite with zeros what stands behind ``end`` in its segment.

    After a power cut good units can stand behind a torn one. They are not part of the log any more;
    left alone, they would come back as soon as newer units have filled the gap and the process
    dies.
    """
    segment = queue.segment_at(end)
    if segment is None:
        return
    for at in range(end - segment.start, segment.size, CLEAR_SIZE):
        data = segment.file.read(at, min(CLEAR_SIZE, segment.size - at))
        if data != _ZEROS[: len(data)]:
            segment.file.write(at, bytes(len(data)))
