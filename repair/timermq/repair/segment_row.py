"""The files of a log as they are: any length, with gaps, and with what does not belong there.

``MappedFileQueue`` refuses such a row, as it must: a writer needs whole segments. A check that
looks for damage reads what is left of them. One segment is open at a time.
"""

from __future__ import annotations

import mmap
from collections.abc import Iterator

import attrs

from timermq.timerstore.disk import Disk, File
from timermq.timerstore.log_holes import look_at
from timermq.timerstore.mapped_file_queue import NAME_DIGITS

from .finding import Finding, Findings, Step
from .store_rule import Severity, StoreRule


@attrs.frozen
class RawSegment:
    """One file of the row."""

    start: int
    path: str
    size: int
    """Bytes that it has."""


class SegmentRow:
    """A row of segment files.

    Args:
        disk: Their disk.
        root: The store's directory.
        directory: Theirs, under the root.
        segment_size: Bytes that each of them must have.
    """

    def __init__(self, disk: Disk, root: str, directory: str, segment_size: int) -> None:
        self.segment_size = segment_size
        self.directory = directory
        self.segments: list[RawSegment] = []
        """Those with a name that a segment can have, ascending."""
        self.strangers: list[str] = []
        """Files with other names."""
        self._disk = disk
        self._root = root
        self._open: tuple[int, File, mmap.mmap | bytes] | None = None
        path = f"{root}/{directory}"
        for name in disk.list_dir(path):
            if disk.is_dir(f"{path}/{name}"):
                continue
            is_number = len(name) == NAME_DIGITS and name.isascii() and name.isdigit()
            if is_number and int(name) % segment_size == 0:
                size = size_of(disk, f"{path}/{name}")
                self.segments.append(RawSegment(int(name), f"{directory}/{name}", size))
            else:
                self.strangers.append(f"{directory}/{name}")

    @property
    def start(self) -> int:
        """Start of the oldest segment, 0 without any."""
        return self.segments[0].start if self.segments else 0

    @property
    def end(self) -> int:
        """Behind the newest segment, were it whole."""
        return self.segments[-1].start + self.segment_size if self.segments else 0

    def path_of(self, start: int) -> str:
        """Path under the root of the segment that begins at a position, there or not."""
        return f"{self.directory}/{start:0{NAME_DIGITS}d}"

    def place_of(self, position: int) -> tuple[str, int]:
        """Path under the root of the segment that holds a position, and its offset there."""
        offset = position % self.segment_size
        return self.path_of(position - offset), offset

    def starts(self) -> Iterator[int]:
        """The starts of segments, missing ones too, without gaps."""
        yield from range(self.start, self.end, self.segment_size)

    def view(self, start: int) -> mmap.mmap | bytes:
        """The bytes of the segment that begins at a position; none when it is missing or empty."""
        if self._open is not None and self._open[0] == start:
            return self._open[2]
        segment = next((one for one in self.segments if one.start == start), None)
        if segment is None or not segment.size:
            return b""
        self.close()
        file = self._disk.open(f"{self._root}/{segment.path}", read_only=True)
        try:
            view = file.map()
        except OSError:
            file.close()
            raise
        self._open = (start, file, view)
        return view

    def read(self, position: int, size: int) -> bytes:
        """Bytes inside one segment; fewer where the file ends."""
        start = position - position % self.segment_size
        return self.view(start)[position - start : position - start + size]

    def has_record_at(self, position: int) -> bool:
        """Whether a good record of the log stands at a position."""
        start = position - position % self.segment_size
        view = self.view(start)
        limit = min(len(view), self.segment_size)
        reason, size = look_at(view, position - start, limit, start, is_whole=True)
        return not reason and size > 0

    def close(self) -> None:
        """Give the open file back."""
        if self._open is not None:
            self._open[1].close()
            self._open = None

    def find_files(self, step: Step, subject: object, *, at_end: bool = True) -> Findings:
        """Files that are missing, or have another length or name than a segment.

        Args:
            step: What repairs a file that is missing or short.
            subject: What that step is done to.
            at_end: A newest segment without a length is one that was being created.
        """
        for path in self.strangers:
            yield Finding(
                rule=StoreRule.FILE_SIZE,
                file=path,
                offset=0,
                expected=f"names of {NAME_DIGITS} digits, multiples of {self.segment_size}",
                found=path.rpartition("/")[2],
                step=Step.BACK_UP_FILE,
                subject=path,
            )
        sizes = {segment.start: segment.size for segment in self.segments}
        for start in self.starts():
            size = sizes.get(start)
            if size == self.segment_size:
                continue
            is_begun = size == 0 and start == self.segments[-1].start and at_end
            yield Finding(
                rule=StoreRule.FILE_SIZE,
                file=self.path_of(start),
                offset=size or 0,
                expected=f"a segment of {self.segment_size} bytes",
                found="no file" if size is None else f"{size} bytes",
                severity=Severity.NOTE if is_begun else Severity.DERIVED,
                step=Step.NOTHING if is_begun else step,
                subject=start if subject is None else subject,
            )


def size_of(disk: Disk, path: str) -> int:
    """Bytes of a file, 0 when it is missing."""
    if not disk.exists(path):
        return 0
    file = disk.open(path, read_only=True)
    try:
        return file.size()
    finally:
        file.close()
