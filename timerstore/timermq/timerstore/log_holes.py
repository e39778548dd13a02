"""Holes: bytes of the commit log between good records that are no record.

Behind a bad sector stand good records: each has its magic, states its position, has lengths that
add up, and a body with the right checksum. So a reader that must not end at damage goes on at the
next one. The body of a message may hold what looks like one, so more than these four tell which it
is (``record_places``). What lies between is a hole. (RocketMQ ends at the first thing that is no
record.)
"""

from __future__ import annotations

import mmap

import attrs

from .log_record import is_cut_short, is_torn
from .properties import PROPERTIES_SIZE_MAX
from .record_check import CheckKind, check_record
from .record_layout import (
    BLANK_SIZE,
    FIXED_SIZE_V1,
    HEAD,
    MAGIC_AT,
    MAGIC_V1,
    MAGIC_V2,
    TOPIC_SIZE_V2_MAX,
)
from .record_spans import RecordError, record_spans

_ZEROS = bytes(1 << 20)


@attrs.frozen
class Hole:
    """Bytes inside one segment between good records that are no record."""

    position: int
    end: int
    reason: str
    """The fault of the first of them."""
    reaches_segment_end: bool

    @property
    def size(self) -> int:
        """Length of the hole in bytes."""
        return self.end - self.position


def look_at(
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
    """The body's size by the head of an IPv4 record, within reason."""
    found = int.from_bytes(view[at + _BODY_SIZE_AT : at + _BODY_SIZE_AT + 4], signed=True)
    return max(found, 0)


def repaired_at(view: mmap.mmap | bytes, at: int, limit: int, start: int) -> bytes | None:
    """The record at ``at`` of a segment as it was, if only its size or its magic is damaged.

    One that was not written to its end has a sound head: nothing in it can be put right. Where size
    and lengths disagree, a length may be what is damaged, or was not written. The size is, if a
    good record stands behind the lengths, or nothing at all, and the text before it has an end.
    """
    size = _REST_SIZE_MAX + _body_size(view, at)
    repaired = repair_head(view[at : min(at + size, limit)], start + at)
    if repaired is None:
        return None
    end = at + len(repaired)
    behind = view[end : min(end + BLANK_SIZE, limit)]
    if is_cut_short(repaired, behind):
        return None
    if repaired[:MAGIC_AT] == view[at : at + MAGIC_AT] or _leads_on(view, end, limit, start):
        return repaired
    return None if any(behind) or not repaired[-1] else repaired


def repaired_before_good(view: mmap.mmap | bytes, at: int, limit: int, start: int) -> bytes | None:
    """The same, if behind it stands a good record, a blank or the end of the data.

    A record that was not written to its end may look like a shorter one.
    """
    repaired = repaired_at(view, at, limit, start)
    end = at + (0 if repaired is None else len(repaired))
    return repaired if _leads_on(view, end, limit, start) else None


def _leads_on(view: mmap.mmap | bytes, end: int, limit: int, start: int) -> bool:
    """Whether a good record, a blank or the end of the data stands at a record's end."""
    return end == limit or not look_at(view, end, limit, start, is_whole=True)[0]


def repair_head(data: bytes, position: int) -> bytes | None:
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


def is_zero(view: mmap.mmap | bytes, first: int, end: int) -> bool:
    """Whether there are nothing but zeros between two places."""
    for at in range(first, end, len(_ZEROS)):
        part = view[at : min(at + len(_ZEROS), end)]
        if part != _ZEROS[: len(part)]:
            return False
    return True
