"""A walk over the whole commit log that does not stop at damage.

``CommitLog.scan`` ends at the first thing that is no record, and so does RocketMQ. Behind a bad
sector stand good records, and they can be told from anything else: by their magic, by the position
that they state, by lengths that add up, and by the checksum of their body. So from damage the
survey goes on at the next place where all four hold. What lies between is a *hole*.

The log's end is behind its last good record. What stands behind that is no hole but a *tail*: zeros
after a clean stop, a torn write after a power cut.
"""

from __future__ import annotations

import mmap
from collections.abc import Iterator

import attrs

from timermq.timerstore.log_record import is_cut_short, is_torn
from timermq.timerstore.properties import PROPERTIES_SIZE_MAX
from timermq.timerstore.record_check import CheckKind, check_record
from timermq.timerstore.record_layout import (
    BLANK_MAGIC,
    BLANK_SIZE,
    FIXED_SIZE_V1,
    HEAD,
    MAGIC_AT,
    MAGIC_V1,
    MAGIC_V2,
    TOPIC_SIZE_V2_MAX,
)
from timermq.timerstore.record_spans import RecordError, record_spans

from .segment_row import SegmentRow

_MAGIC_START = MAGIC_V1.to_bytes(4, signed=True)[:3]
"""What both versions of a record's magic begin with."""
_ZEROS = bytes(1 << 20)
_BLANK_MARK = BLANK_MAGIC.to_bytes(4, signed=True)


@attrs.frozen
class Found:
    """A good record."""

    position: int
    size: int
    data: bytes
    mended: str = ""
    """What its head says falsely, in place of what ``data`` has; empty when all is right."""


@attrs.frozen
class Hole:
    """Bytes inside one segment between good records that are no record."""

    position: int
    end: int
    reason: str
    """What is wrong with the first of them."""
    reaches_segment_end: bool

    @property
    def size(self) -> int:
        """Bytes."""
        return self.end - self.position


class LogSurvey:
    """One walk; iterating gives records and holes in the order of the log.

    Args:
        row: The segments.
    """

    def __init__(self, row: SegmentRow) -> None:
        self.end = row.start
        """Behind the last good record, or the blank behind it."""
        self.tail_reason = ""
        """What stands at the end instead of a record; empty when the segments end there."""
        self.tail_is_zero = True
        """Whether nothing was written behind the end."""
        self._row = row
        self._holes: list[Hole] = []
        """Holes since the last good record: a tail, unless another record follows."""

    def __iter__(self) -> Iterator[Found | Hole]:
        for start in self._row.starts():
            for one in self._segment(start):
                if isinstance(one, Hole):
                    self._holes.append(one)
                    continue
                yield from self._holes
                self._holes.clear()
                if isinstance(one, Found):
                    yield one
                    self.end = one.position + one.size
                else:
                    self.end = start + self._row.segment_size
        if self._holes:
            self.tail_reason = self._holes[0].reason
            self.tail_is_zero = all(self._is_zero(hole) for hole in self._holes)

    def _segment(self, start: int) -> Iterator[Found | Hole | None]:
        """Records and holes of one segment; None for the blank that ends it."""
        view, segment_size = self._row.view(start), self._row.segment_size
        limit = min(len(view), segment_size)
        is_whole = len(view) == segment_size
        at = 0
        while at < segment_size:
            reason, size = _look(view, at, limit, start, is_whole=is_whole)
            if not reason:
                if not size:
                    yield None
                    return
                yield Found(start + at, size, view[at : at + size])
                at += size
                continue
            mended = mend_head(
                view[at : min(at + _REST_SIZE_MAX + _body_size(view, at), limit)], start + at
            )
            if mended is not None:
                yield Found(start + at, len(mended), mended, reason)
                at += len(mended)
                continue
            resumed = _next_good(view, at + 1, limit, start, is_whole=is_whole)
            end = segment_size if resumed is None else resumed
            yield Hole(start + at, start + end, reason, resumed is None)
            at = end

    def _is_zero(self, hole: Hole) -> bool:
        start = hole.position - hole.position % self._row.segment_size
        view = self._row.view(start)
        at, end = hole.position - start, min(hole.end - start, len(view))
        return _is_zero(view, at, end)


def _look(
    view: mmap.mmap | bytes, at: int, limit: int, start: int, *, is_whole: bool
) -> tuple[str, int]:
    """Why no record stands at ``at`` (empty if one does), and its size; 0 of a blank."""
    if not limit:
        return "no file", 0
    result = check_record(view, at, limit, start + at, check_crc=True)
    if result.kind is CheckKind.BAD:
        return result.reason, 0
    if result.kind is CheckKind.BLANK:
        return ("", 0) if is_whole else ("a blank in a file of another length", 0)
    data = view[at : at + result.size]
    if is_torn(data, at):
        return "a record that lacks a sector", 0
    end = at + result.size
    if is_cut_short(data, view[end : min(end + BLANK_SIZE, limit)]):
        return "a record that was not written to its end", 0
    return "", result.size


_REST_SIZE_MAX = 256 + TOPIC_SIZE_V2_MAX + PROPERTIES_SIZE_MAX
"""Bytes that a record has at most beside its body."""
_SIZE_AT = HEAD.offset_of("total_size")
_BODY_SIZE_AT = HEAD.offset_of("body_length")


def _body_size(view: mmap.mmap | bytes, at: int) -> int:
    """What the head of an IPv4 record says about its body, within reason."""
    found = int.from_bytes(view[at + _BODY_SIZE_AT : at + _BODY_SIZE_AT + 4], signed=True)
    return max(found, 0)


def mend_head(data: bytes, position: int) -> bytes | None:
    """A record whose size or magic is damaged, as it was; None when more than one of them is.

    That it is the record of this place is certain: it states the position, its lengths lead from
    one part to the next, and the checksum is that of the body between them.
    """
    for magic in (MAGIC_V1, MAGIC_V2):
        trial = data[:MAGIC_AT] + magic.to_bytes(4, signed=True) + data[MAGIC_AT + 4 :]
        try:
            end = record_spans(trial)[3]
        except RecordError:
            continue
        is_same_magic = trial[MAGIC_AT : MAGIC_AT + 4] == data[MAGIC_AT : MAGIC_AT + 4]
        is_same_size = end == int.from_bytes(data[_SIZE_AT : _SIZE_AT + 4], signed=True)
        trial = end.to_bytes(4) + trial[4:end]
        if end < FIXED_SIZE_V1 or not (is_same_magic or is_same_size):
            continue
        result = check_record(trial, 0, end, position, check_crc=True)
        if result.kind is CheckKind.RECORD and not is_torn(trial, position):
            return trial
    return None


def _next_good(
    view: mmap.mmap | bytes, first: int, limit: int, start: int, *, is_whole: bool
) -> int | None:
    """Where the next good record of the segment, or its blank, stands."""
    if _is_zero(view, first, limit):
        return None
    at = first
    while (found := view.find(_MAGIC_START, at + MAGIC_AT)) >= 0:
        at = found - MAGIC_AT
        reason, _ = _look(view, at, limit, start, is_whole=is_whole)
        if not reason:
            return at
        at += 1
    at = first
    while is_whole and (found := view.find(_BLANK_MARK, at + MAGIC_AT)) >= 0:
        at = found - MAGIC_AT
        if int.from_bytes(view[at : at + MAGIC_AT]) == limit - at:
            return at
        at += 1
    return None


def _is_zero(view: mmap.mmap | bytes, first: int, end: int) -> bool:
    for at in range(first, end, len(_ZEROS)):
        part = view[at : min(at + len(_ZEROS), end)]
        if part != _ZEROS[: len(part)]:
            return False
    return True
