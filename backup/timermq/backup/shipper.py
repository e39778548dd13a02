"""Ships a store to a target: what is new in the log, then the tables, then the manifest.

A round puts objects under new names, and then the manifest that names them. A round that is killed,
or that the target refuses, leaves the manifest before it, and with it the backup as it was. The
objects that the round had put are garbage: no manifest names them. Garbage is removed after a time
in which a restore that still reads it can end.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterable, Sequence

import attrs
import structlog

from timermq.timerstore.consume_queue_table import QueueKey
from timermq.timerstore.disk import Disk

from .backup_objects import BackupObjects
from .log_tail import PIECE_SIZE, LogPiece, LogTail
from .manifest import (
    MANIFEST,
    Manifest,
    Piece,
    Stored,
    WholeSegment,
    digest,
    encode_list,
)
from .queue_ends import REGISTER, cleaned_queue_ends, with_ends
from .retention import begun_at, without_cleaned
from .same_log import SameLog
from .tables import Tables
from .target import BackupError, Target, TargetError

log = structlog.get_logger("timermq.backup.shipper")

PROGRESS_SIZE = 256 << 20
"""Bytes after which a long round puts a manifest: at most so much is shipped again after a kill."""
MERGE_COUNT = 32
"""Small pieces of the newest segment from which on they are merged into larger objects."""
GARBAGE_MS = 600_000
"""How long an object stays after the last manifest that named it: a restore may be reading it."""
QUIET_MS = 60_000
"""Longest time between two manifests, also without news: their time shows that a shipper runs."""
FOLDERS = ("log/", "list/", "table/")
"""Beginnings of the names of all objects but the manifest."""


@attrs.frozen(kw_only=True)
class Shipped:
    """What one round has shipped, and whether another one would find more."""

    end: int
    """End of the log in the backup."""
    size: int
    """Bytes of the log that were shipped."""
    is_settled: bool
    """Another round would find no more at the end of the log, unless messages come."""


@attrs.define(eq=False, kw_only=True)
class Shipper:
    """One process that ships one store to one target; ``round`` does it once.

    Args:
        disk: The disk of the store.
        root: Its directory.
        target: Of the backup.
        now_ms: The wall clock, epoch ms.
        keep_ms: Age of its newest record at which a segment leaves the backup, once the store has
            cleaned it.
        is_served: Whether a broker serves the store.
        queue_file_size: Bytes of one file of a queue.
        piece_size: Bytes of one object; smaller in tests.
    """

    disk: Disk
    root: str
    target: Target
    now_ms: Callable[[], int]
    keep_ms: int
    is_served: Callable[[], bool]
    queue_file_size: int
    piece_size: int = PIECE_SIZE
    tail: LogTail = attrs.field(init=False)
    manifest: Manifest = attrs.field(factory=Manifest, init=False)
    """The manifest in the target, when ``_is_known``."""
    _tables: Tables = attrs.field(init=False)
    _run: str = attrs.field(factory=lambda: uuid.uuid4().hex[:12], init=False)
    _count: int = attrs.field(default=0, init=False)
    """Objects put by this process."""
    _bytes: bytes | None = attrs.field(default=None, init=False)
    """The bytes of the manifest's object; None when there is none."""
    _is_known: bool = attrs.field(default=False, init=False)
    """``manifest`` is that of the target, and its log is that of the store."""
    _has_listed: bool = attrs.field(default=False, init=False)
    _queue_ends: tuple[int, dict[QueueKey, int]] = attrs.field(default=(0, {}), init=False)
    """Start of the log, and the ends of the queues that had nothing in it then."""
    _put_names: list[str] = attrs.field(factory=list[str], init=False)
    """Objects put since the last manifest, and those that the next one no longer names."""
    _garbage: dict[str, int] = attrs.field(factory=dict[str, int], init=False)
    """Object to the time at which it may be removed, epoch ms."""

    def __attrs_post_init__(self) -> None:
        self.tail = LogTail(self.disk, self.root, self.piece_size)
        self._tables = Tables(self.disk, self.root)

    async def round(self) -> Shipped:
        """Ship what is new.

        Raises:
            TargetError: The target refused; the next round begins again.
            BackupError: The target holds the backup of another store or a damaged one, or another
                process ships to it.
            OSError: The disk of the store failed.

        Cancellation: the backup is as the last manifest says.
        """
        self._put_names = []
        try:
            manifest = self.manifest if self._is_known else await self._learn()
            return await self._ship(manifest)
        except BaseException:
            self._is_known = False
            self._throw_away(self._put_names)
            raise

    async def _ship(self, manifest: Manifest) -> Shipped:
        begun_ms, is_stopped = self.now_ms(), not self.is_served()  # before the look at the log
        positions = self._positions()
        manifest, size = await self._ship_log(manifest, is_stopped)
        tables = {**positions, **self._tables.read(with_positions=False)}
        manifest = await self._put_tables(manifest, tables)
        small = sum(one.size < self.piece_size // 2 for one in manifest.pieces)
        if small >= MERGE_COUNT:
            manifest = await self._merge(manifest)
        oldest = self.tail.oldest()
        if oldest is not None:
            manifest = without_cleaned(manifest, oldest[0], begun_ms - self.keep_ms)
        manifest = attrs.evolve(manifest, is_complete=True)
        is_recent = begun_ms - self.manifest.shipped_ms < QUIET_MS
        if manifest != self.manifest or not is_recent:
            await self._put_manifest(attrs.evolve(manifest, shipped_ms=begun_ms))
        await self._remove_garbage()
        is_settled = is_stopped or not self.tail.has_doubt
        return Shipped(end=manifest.end, size=size, is_settled=is_settled)

    # -- the log ----------------------------------------------------------------------------------

    async def _ship_log(self, manifest: Manifest, is_stopped: bool) -> tuple[Manifest, int]:
        """Put the new pieces; the manifest with them, and their bytes."""
        size = unsaved = 0
        while True:
            oldest = self.tail.oldest()
            if oldest is None:
                return manifest, size
            manifest = self._begun(manifest, *oldest)
            position = max(manifest.end, oldest[0])
            piece = self.tail.piece_at(position, manifest.segment_size, is_stopped=is_stopped)
            if piece is None:
                return manifest, size
            manifest = await self._put_piece(manifest, piece)
            size, unsaved = size + len(piece.data), unsaved + len(piece.data)
            if unsaved >= PROGRESS_SIZE:
                await self._put_manifest(manifest)
                unsaved = 0

    def _begun(self, manifest: Manifest, oldest: int, segment_size: int) -> Manifest:
        """The manifest to which pieces can be added; it begins again where the log has a gap."""
        if manifest.segment_size not in (0, segment_size):
            raise BackupError(
                f"{self.target.place}: expected a backup with segments of {segment_size} bytes, as "
                f"{self.root} has, found {manifest.segment_size}: name another target"
            )
        begun = begun_at(manifest, oldest, segment_size)
        if manifest.end and not begun.end:
            log.warning(
                "backup begins again: records were cleaned before they were shipped",
                first=manifest.end,
                end=oldest,
            )
        return begun

    async def _put_piece(self, manifest: Manifest, piece: LogPiece) -> Manifest:
        if piece.damaged:
            log.error("damaged bytes shipped as they are", at=piece.start, size=piece.damaged)
        stored = await self._put_log(piece.start, piece.data)
        manifest = attrs.evolve(
            manifest,
            pieces=(*manifest.pieces, stored),
            last_store_ms=max(manifest.last_store_ms, piece.last_store_ms),
            damaged=manifest.damaged + piece.damaged,
        )
        return await self._close(manifest) if piece.end % manifest.segment_size == 0 else manifest

    async def _close(self, manifest: Manifest) -> Manifest:
        """The manifest with its newest segment closed: its pieces are in a list of their own."""
        manifest = await self._merge(manifest)
        first, last = manifest.pieces[0], manifest.pieces[-1]
        stored = await self._put(f"list/{first.start:020d}", encode_list(manifest.pieces))
        segment = WholeSegment(
            name=stored.name,
            sha256=stored.sha256,
            start=first.start,
            end=last.end,
            last_store_ms=manifest.last_store_ms,
        )
        return attrs.evolve(manifest, whole=(*manifest.whole, segment), pieces=())

    async def _merge(self, manifest: Manifest) -> Manifest:
        """The manifest with small neighbours merged; pieces that the store has cleaned stay."""
        pieces: list[Piece] = []
        for group in _groups(manifest.pieces, self.piece_size):
            data = None
            if len(group) > 1:
                first, end = group[0].start, group[-1].end
                data = self.tail.read(first, end, manifest.segment_size)
            if data is None or not _is_same(data, group):
                pieces += group
            else:
                pieces.append(await self._put_log(group[0].start, data))
        return attrs.evolve(manifest, pieces=tuple(pieces))

    async def _put_log(self, start: int, data: bytes) -> Piece:
        end = start + len(data)
        stored = await self._put(f"log/{start:020d}-{end:020d}", data)
        return Piece(name=stored.name, sha256=stored.sha256, start=start, end=end)

    # -- tables, manifest, garbage ----------------------------------------------------------------

    def _positions(self) -> dict[str, bytes]:
        """The tables with positions, read before the log: they tell of no more than it has."""
        start, _ = self.tail.oldest() or (0, 0)
        if start != self._queue_ends[0]:
            ends = cleaned_queue_ends(self.disk, self.root, self.queue_file_size, start)
            self._queue_ends = start, ends
        tables = self._tables.read(with_positions=True)
        register = with_ends(tables.get(REGISTER), self._queue_ends[1])
        return tables if register is None else {**tables, REGISTER: register}

    async def _put_tables(self, manifest: Manifest, tables: dict[str, bytes]) -> Manifest:
        stored: dict[str, Stored] = {}
        for path, data in tables.items():
            old = manifest.tables.get(path)
            is_same = old is not None and old.sha256 == digest(data)
            stored[path] = old if old and is_same else await self._put(f"table/{path}", data)
        return attrs.evolve(manifest, tables=stored)

    async def _put(self, name: str, data: bytes) -> Stored:
        self._count += 1
        stored = Stored(name=f"{name}-{self._run}.{self._count}", sha256=digest(data))
        self._put_names.append(stored.name)
        await self.target.put(stored.name, data)
        return stored

    async def _put_manifest(self, manifest: Manifest) -> None:
        if await self.target.get(MANIFEST) != self._bytes:
            raise BackupError(
                f"{self.target.place}: expected to be alone, found that another process ships to "
                "it: stop one of them"
            )
        manifest = attrs.evolve(manifest, run=self._run)
        data = manifest.encode()
        old, new = await self._names_of(self.manifest, manifest)
        # If the answer is lost one of the manifests holds, and the next look at it tells which.
        self._put_names += old - new
        await self.target.put(MANIFEST, data)
        self._bytes, self.manifest = data, manifest
        # A piece may be merged in the round that has put it.
        self._throw_away(set(self._put_names) - new)
        self._put_names = []

    async def _names_of(self, old: Manifest, new: Manifest) -> tuple[set[str], set[str]]:
        """Names of objects of two manifests, without the lists and pieces that both have."""
        both = set(old.whole) & set(new.whole)
        sides: list[set[str]] = []
        for manifest in (old, new):
            names = set(manifest.objects())
            for segment in manifest.whole:
                if segment not in both:
                    names |= await self._names_in(segment)
            sides.append(names)
        return sides[0], sides[1]

    async def _names_in(self, segment: WholeSegment) -> set[str]:
        """Names of the pieces of a segment.

        Raises:
            BackupError: The list of them is missing or damaged: no piece of it may be taken for
                garbage.
        """
        objects = BackupObjects(self.target, self.manifest)
        return {one.name for one in await objects.pieces_of(segment)}

    def _throw_away(self, names: Iterable[str]) -> None:
        for name in names:
            self._garbage.setdefault(name, self.now_ms() + GARBAGE_MS)

    async def _remove_garbage(self) -> None:
        for name in [one for one, at_ms in self._garbage.items() if at_ms <= self.now_ms()]:
            try:
                await self.target.delete(name)
            except TargetError as error:
                log.warning("garbage of the backup stays", name=name, error=str(error))
                return
            del self._garbage[name]

    # -- what is there ----------------------------------------------------------------------------

    async def _learn(self) -> Manifest:
        """Read the target's manifest; returns what of it fits the store."""
        self._bytes = await self.target.get(MANIFEST)
        place = self.target.place
        manifest = Manifest() if self._bytes is None else Manifest.decode(self._bytes, place)
        self.manifest = manifest
        named = set(manifest.objects())
        for segment in manifest.whole:
            # A manifest may have been put although the target's answer was lost.
            if not self._has_listed or segment.name in self._garbage:
                named |= await self._names_in(segment)
        if not self._has_listed:
            await self._find_garbage(named)
        for name in named:
            self._garbage.pop(name, None)
        fitting = await SameLog(BackupObjects(self.target, manifest), self.tail).cut()
        if fitting.end != manifest.end:
            log.warning(
                "backup is cut: the log of the store goes on otherwise",
                first=fitting.end,
                end=manifest.end,
            )
        self._is_known = True
        return fitting

    async def _find_garbage(self, named: set[str]) -> None:
        others = [one for one in await self.target.names() if one not in named]
        strange = [one for one in others if not one.startswith((*FOLDERS, MANIFEST))]
        if strange:
            raise BackupError(
                f"{self.target.place}: expected a backup or nothing, found {strange[0]}: name "
                "another target"
            )
        is_quiet = self.manifest.shipped_ms < self.now_ms() - GARBAGE_MS
        for name in others:
            self._garbage[name] = self.now_ms() + (0 if is_quiet else GARBAGE_MS)
        self._has_listed = True


def _groups(pieces: Sequence[Piece], size_max: int) -> list[list[Piece]]:
    """Pieces grouped with those neighbours with which they have room in one object."""
    groups: list[list[Piece]] = []
    room = 0
    for piece in pieces:
        if not groups or piece.size > room:
            groups.append([])
            room = size_max
        groups[-1].append(piece)
        room -= piece.size
    return groups


def _is_same(data: bytes, pieces: Sequence[Piece]) -> bool:
    first = pieces[0].start
    return all(digest(data[one.start - first : one.end - first]) == one.sha256 for one in pieces)
