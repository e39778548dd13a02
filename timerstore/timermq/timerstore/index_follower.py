"""Keeps the key index behind the log: reads records, hands their keys over.

Keys are not looked at while messages are put; the index follows in the background, in slices, and
catches up when somebody asks for a key. Where it stands is what the index files say, so nothing
about it has to be recovered.

Corresponds to CommitLogDispatcherBuildIndex and IndexService.buildIndex.
"""

import contextlib
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from itertools import chain, islice

import structlog

from .commit_log import CommitLog
from .disk import Disk, is_out_of_files
from .errors import StoreError, StoreFormatError
from .index_file import IndexFile
from .index_keys import Fresh, FreshRecords, KeyColumns, keys_in
from .index_service import IndexService
from .log_reading import LogReading
from .log_record import LogRecord, read_log_record, store_ms_of
from .moved_key import has_unique_key
from .record_check import CheckKind
from .store_options import StoreOptions

log = structlog.get_logger("timermq.timerstore.index_follower")

FRESH_COUNT_MAX = 16_384
"""Records that are kept to be indexed without reading them again: of usual ones some megabytes."""

FRESH_SIZE_MAX = 32 << 20
"""Bytes of the log that they stand in; their properties, which are what is kept, have no more."""

SLICE_COUNT = 256
"""Records that are indexed between two checkpoints of the event loop: one to three milliseconds.
What a put gives as columns is indexed at once, in less."""

BLOCK_SIZE = 256 << 10
"""Bytes of the log that are looked at together."""

LOOK_UP_LAG_MAX = 2 << 20
"""Bytes of the log that a look-up reads for the index, or without room for it looks through, in one
step: of small records some 10,000, less than a tenth of a second. What was just written and is
kept to be indexed (``FRESH_COUNT_MAX``) is not among them."""


class IndexBehindError(StoreError):
    """So much of the log is not indexed that a look-up would hold up everything else.

    It is indexed in the background: the same look-up may be asked for again later. While the index
    has no room on the disk it stays behind.

    Attributes:
        size: Bytes that would have to be read.
    """

    def __init__(self, size: int) -> None:
        super().__init__(
            f"{size} bytes of the log are not in the key index yet, expected at most "
            f"{LOOK_UP_LAG_MAX}: try again"
        )
        self.size = size


def has_key(record: LogRecord, key: bytes, *, unique: bool) -> bool:
    """Whether a message has a key, or with ``unique`` has it as its unique key, moved or not."""
    if unique:
        return has_unique_key(record.properties, key)
    return key in keys_in(record.properties)


class IndexFollower:
    """The index of a store and how far it is; `open` makes one.

    Args:
        log: The log, recovered.
        index: The index, loaded.
        first: Position of the first record that may not be indexed.
        query_count_max: Positions that one query takes from the index.
        read_only: It stays as it is.
    """

    def __init__(
        self,
        log: CommitLog,
        index: IndexService,
        first: int,
        *,
        query_count_max: int,
        read_only: bool,
    ) -> None:
        self.position = max(first, log.min_offset)
        """Everything before it is indexed."""
        self._log = log
        self._index = index
        self._query_count_max = query_count_max
        self._read_only = read_only
        self._fresh: deque[Fresh] = deque()
        """The records just written, in the order of the log."""
        self._fresh_count = self._fresh_size = 0

    @classmethod
    def open(
        cls,
        disk: Disk,
        root: str,
        log: CommitLog,
        options: StoreOptions,
        *,
        now_ms: Callable[[], int],
        read_only: bool,
    ) -> "IndexFollower":
        """Open the index files, without those that tell of records beyond the end of the log.

        A file that is damaged, or of other settings, goes with all later ones: what they told is
        read from the log again, in the background.

        Raises:
            StoreFormatError: Read only, and a file is not an index of these settings.
            OSError: Too many files are open, or the disk refused.
        """
        directory = f"{root}/index"
        if not read_only:
            _drop_damaged(disk, directory, options)
            for name in sorted(filter(str.isdigit, disk.list_dir(directory)), reverse=True):
                path = f"{directory}/{name}"
                if not _is_beyond(disk, path, options, log.max_offset):
                    break
                disk.remove(path)
        index = IndexService(
            disk,
            directory,
            hash_slots=options.max_hash_slot_num,
            entries_max=options.max_index_num,
            now_ms=now_ms,
            read_only=read_only,
        )
        index.load()
        # The newest message may lack some of its keys; those that it has are not added again.
        return cls(
            log,
            index,
            index.covered_to,
            query_count_max=options.max_msgs_num_batch,
            read_only=read_only,
        )

    @property
    def flushed_ms(self) -> int:
        """Store time up to which the index is durable."""
        return self._index.flushed_ms

    @property
    def is_behind(self) -> bool:
        """Whether the log holds records that are not indexed."""
        return self.position < self._log.max_offset

    def offer(self, fresh: Fresh) -> None:
        """Take what was just written, so that it need not be read; too much of it is forgotten."""
        if isinstance(fresh, FreshRecords):
            self._fresh.extend(fresh.parts(SLICE_COUNT))
        else:
            self._fresh.append(fresh)
        self._fresh_count += len(fresh)
        self._fresh_size += fresh.size
        if self._fresh_count > FRESH_COUNT_MAX or self._fresh_size > FRESH_SIZE_MAX:
            self._fresh.clear()
            self._fresh_count = self._fresh_size = 0

    def index_slice(self, count_max: int = SLICE_COUNT) -> None:
        """Index the next records, about ``count_max``.

        Raises:
            OSError: The disk did not take the entries; the next call tries again.
        """
        log = self._log
        start = max(self.position, log.min_offset)
        keys = KeyColumns()
        end = self._take_keys(keys, start, count_max) or self._read_keys(keys, start, count_max)
        if end == start:
            end = self._pass_damage(keys, start)
        self._index.add(keys.hashed())
        self.position = end

    def _pass_damage(self, keys: KeyColumns, start: int) -> int:
        """Position of the next record; one that is certain all the same is indexed."""
        found = next(iter(LogReading(self._log, start, purpose="keys of records")), None)
        if found is None:
            return self._log.max_offset
        phy_offset, record = found
        if phy_offset > start:
            return phy_offset
        keys.add_block(record, start, 1)
        return start + len(record)

    def _take_keys(self, keys: KeyColumns, start: int, count_max: int) -> int | None:
        """Take the keys of what was just written there; where what is left begins, None without.

        Nothing is forgotten that has to be retried: then it is read.
        """
        end, fresh = start, self._fresh
        count = 0
        while fresh and fresh[0].start <= end and count < count_max:
            part = fresh.popleft()
            self._fresh_count -= len(part)
            self._fresh_size -= part.size
            if part.start == end:
                keys.add_fresh(part)
                end = part.end
                count += len(part)
        return end if end > start else None

    def _read_keys(self, keys: KeyColumns, start: int, count_max: int) -> int:
        """Read the keys of the next records; returns where what is left begins."""
        log, fresh = self._log, self._fresh
        # What is kept begins where this reading is to end.
        size_max = fresh[0].start - start if fresh else BLOCK_SIZE
        data = log.read(start, min(size_max, BLOCK_SIZE))
        done, is_blank = keys.add_block(data, start, count_max)
        if is_blank:
            return min(log.next_segment_start(start), log.max_offset)
        if not done and len(data) == BLOCK_SIZE:
            # A record larger than a block.
            size = int.from_bytes(data[:4], signed=True)
            if BLOCK_SIZE < size <= log.max_offset - start:
                record = log.read(start, size)
                done = size if len(record) == size and keys.add_record(record, start) else 0
        return start + done

    def check_near(self) -> None:
        """Refuse before a look-up what it would have to read for too long in one step.

        Raises:
            IndexBehindError: That is more than ``LOOK_UP_LAG_MAX``.
        """
        size = self._log.max_offset - max(self.position, self._log.min_offset) - self._fresh_size
        if size > LOOK_UP_LAG_MAX:
            raise IndexBehindError(size)

    def catch_up(self) -> None:
        """Index everything that is in the log now."""
        while self.is_behind:
            self.index_slice()

    async def flush(self) -> None:
        """Make the index durable, if the disk has room; the log must be durable up to `position`.

        Raises:
            OSError: A sync failed.
        """
        await self._index.flush()

    def delete_before(self, phy_offset: int) -> int:
        """Remove files that tell only of records before a position; the count removed."""
        return self._index.delete_before(phy_offset)

    def close(self) -> None:
        """Give the files back; nothing is written."""
        self._index.close()

    def query(
        self, topic: str, key: str, *, count_max: int, begin_ms: int, end_ms: int, unique: bool
    ) -> list[bytes]:
        """Find records by key: keys are compared, not only their hashes.

        The index is brought up to date first, unless it is read only. Records that are not indexed
        are looked through one by one.

        Args:
            topic: Topic.
            key: Unique key, or one of the user's keys.
            count_max: Most messages; the newest ones count. At most ``max_msgs_num_batch`` come
                from the index.
            begin_ms: Earliest store time.
            end_ms: Latest store time.
            unique: Only the message whose unique key this is.

        Returns:
            Records in the order of the log.
        """
        self._come_up()
        indexed = self._index.query(
            topic, key, count_max=self._query_count_max, begin_ms=begin_ms, end_ms=end_ms
        )
        records = self._records(self._places(indexed), topic, key, unique=unique)
        within = (one for one in records if begin_ms <= store_ms_of(one[1]) <= end_ms)
        return [record for _, record in sorted(islice(within, count_max))]

    def newest_first(self, topic: str, key: str, *, unique: bool) -> Iterator[tuple[int, bytes]]:
        """All records with a key, the newest first, each with its position.

        They are read as they are asked for; nothing may be stored meanwhile.

        Args:
            topic: Topic.
            key: Unique key, or one of the user's keys.
            unique: Only messages whose unique key this is.

        Raises:
            CutWalkError: So many stand in the key's slot that there may be more of them; where
                the next record is asked for.
        """
        self._come_up()
        indexed = self._index.positions(topic, key, begin_ms=0, end_ms=(1 << 63) - 1)
        return self._records(self._places(indexed), topic, key, unique=unique)

    def kin(self, phy_offset: int) -> Iterator[tuple[int, bytes]]:
        """Records that have the unique key of the one at a position, which need not be readable.

        Newest first, each with its position. Hashes of keys are compared, so others may be among
        them. None if the record was not indexed while it could be read.

        Raises:
            CutWalkError: So many stand in the key's slot that there may be more of them.
        """
        self._come_up()
        for place in self._index.kin(phy_offset):
            checked = self._log.check_at(place, check_crc=False)
            if checked is not None and checked.kind is CheckKind.RECORD:
                record = self._log.record_at(place, checked.size)
                if record is not None:
                    yield place, record

    def _come_up(self) -> None:
        if not self._read_only:
            # No room for the index: what is not in it is looked through instead.
            with contextlib.suppress(OSError):
                self.catch_up()

    def _places(self, indexed: Iterable[int]) -> Iterator[int]:
        """Places from the newest back, each once.

        One that opens RocketMQ's files may be behind what is indexed there.
        """
        position = self.position
        reading = LogReading(self._log, position, purpose="records that are not indexed yet")
        unindexed = [phy for phy, _ in reading]
        return chain(reversed(unindexed), (phy for phy in indexed if phy < position))

    def _records(
        self, places: Iterable[int], topic: str, key: str, *, unique: bool
    ) -> Iterator[tuple[int, bytes]]:
        """Those of the records at some places that have the key."""
        topic_name, wanted = topic.encode(), key.encode()
        for phy_offset in places:
            checked = self._log.check_at(phy_offset, check_crc=False)
            if checked is None or checked.kind is not CheckKind.RECORD:
                continue
            data = self._log.read(phy_offset, checked.size)
            record = read_log_record(data)
            if record.topic == topic_name and has_key(record, wanted, unique=unique):
                yield phy_offset, data


def _drop_damaged(disk: Disk, directory: str, options: StoreOptions) -> None:
    """Remove the first index file that cannot be opened, and those that were filled after it.

    The newest ones go first: a process that ends in between leaves no file behind a missing one.
    """
    names = sorted(filter(str.isdigit, disk.list_dir(directory)))
    for at, name in enumerate(names):
        reason = _damage_of(disk, f"{directory}/{name}", options, is_newest=name == names[-1])
        if reason is not None:
            log.warning("key index is read from the log again", first=name, reason=reason)
            for later in reversed(names[at:]):
                disk.remove(f"{directory}/{later}")
            return


def _damage_of(disk: Disk, path: str, options: StoreOptions, *, is_newest: bool) -> str | None:
    """Why an index file cannot be used; None when it can, or was being created."""
    try:
        file = disk.open(path, read_only=True)
        size = file.size()
        file.close()
        if not size and is_newest:
            return None
        index = _open_index(disk, path, options)
        with contextlib.closing(index.file):
            is_true = index.is_empty or bool(index.newest_hashes(index.end_py))
    except (StoreFormatError, OSError) as error:
        if isinstance(error, OSError) and is_out_of_files(error):
            raise
        return str(error)
    return None if is_true else f"{path}: its last entry is not of {index.end_py}, as the head says"


def _is_beyond(disk: Disk, path: str, options: StoreOptions, log_end: int) -> bool:
    """Whether an index file was being created, or tells of a record that the log has lost."""
    file = disk.open(path, read_only=True)
    size = file.size()
    file.close()
    if size == 0:
        return True
    index = _open_index(disk, path, options)
    index.file.close()
    return index.end_py >= log_end


def _open_index(disk: Disk, path: str, options: StoreOptions) -> IndexFile:
    return IndexFile.open(
        disk,
        path,
        slot_count=options.max_hash_slot_num,
        entry_count_max=options.max_index_num,
        filling=False,
        read_only=True,
    )
