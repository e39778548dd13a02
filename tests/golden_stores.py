"""The golden stores: directories that RocketMQ 5.3.3 wrote, and what its own classes read there.

What the stores hold stands in ``golden/README.md``. A store is unpacked once per run, at first use;
the classes below are the parts of a manifest that tests compare with.
"""

from __future__ import annotations

import lzma
import tarfile
from collections.abc import Mapping
from pathlib import Path
from typing import cast

import attrs
import msgspec

GOLDEN = Path(__file__).parent / "golden"
NAMES = ("g1", "g2", "g3", "g4", "g5")


class Manifest(msgspec.Struct, rename="camel"):
    """What the manifest of one golden store says."""

    store: str
    settings: dict[str, str]
    clean_shutdown: bool
    times: dict[str, int]
    """Epoch milliseconds of ``startedMs``, ``stopSignalMs`` (TERM or KILL) and ``stoppedMs``."""
    archive: Archive
    messages: list[SentMessage]
    state: StoreState


class Archive(msgspec.Struct, rename="camel"):
    """Size and digest of every file."""

    files: list[ArchiveFile]


class ArchiveFile(msgspec.Struct, rename="camel"):
    """One file of the archive."""

    path: str
    size: int
    sha256: str


class SentMessage(msgspec.Struct, rename="camel"):
    """One message as its producer saw it, and what had become of it when the broker stopped."""

    kind: str
    topic: str
    queue_id: int | None
    """None of one that was sent one way: nothing was answered."""
    msg_id: str
    keys: str | None
    tags: str | None
    flag: int
    body_sha256: str
    properties: dict[str, str]
    state: str
    held: list[HeldRecord]
    deliver_ms: int | None = None
    recall_handle: str | None = None


class HeldRecord(msgspec.Struct, rename="camel"):
    """A record of the message in an internal topic."""

    topic: str
    queue_id: int
    queue_offset: int
    phy_offset: int
    store_ms: int
    roll_times: str = msgspec.field(name="TIMER_ROLL_TIMES", default="0")


class StoreState(msgspec.Struct, rename="camel"):
    """The store as the broker's storage classes load it."""

    min_phy_offset: int
    max_phy_offset: int
    checkpoint: Checkpoint
    records: list[LogRecord]
    queues: list[Queue]
    key_queries: list[KeyQuery]
    time_queries: list[TimeQuery]
    timer: Timer


class Checkpoint(msgspec.Struct, rename="camel"):
    """The numbers of RocketMQ's store checkpoint: three moments and two positions in the log."""

    physic_msg_timestamp: int
    logics_msg_timestamp: int
    index_msg_timestamp: int
    master_flushed_offset: int
    confirm_phy_offset: int


class LogRecord(msgspec.Struct, rename="camel"):
    """One record of the commit log; of a blank only position and size."""

    phy_offset: int
    size: int
    blank: bool = False
    sha256: str = ""
    magic: int = 0
    body_crc: int = msgspec.field(name="bodyCRC", default=0)
    topic: str = ""
    queue_id: int = 0
    queue_offset: int = 0
    flag: int = 0
    sys_flag: int = 0
    born_ms: int = 0
    born_host: str = ""
    store_ms: int = 0
    store_host: str = ""
    reconsume_times: int = 0
    prepared_transaction_offset: int = 0
    stored_body_size: int = 0
    body_size: int = 0
    body_sha256: str = ""
    uniq_key: str | None = None
    offset_msg_id: str = ""
    properties_text: str = ""
    properties: dict[str, str] = {}


class Queue(msgspec.Struct, rename="camel"):
    """One consume queue; a unit is [queue offset, position, size, tags code]."""

    topic: str
    queue_id: int
    min_offset: int
    max_offset: int
    units: list[tuple[int, int, int, int]]


class KeyQuery(msgspec.Struct, rename="camel"):
    """An answer of the index, in log order."""

    topic: str
    key: str
    phy_offsets: list[int]


class TimeQuery(msgspec.Struct, rename="camel"):
    """Queue offsets by store time."""

    topic: str
    queue_id: int
    timestamp: int
    lower: int
    upper: int


class Timer(msgspec.Struct, rename="camel"):
    """Wheel, timer log and timer checkpoint."""

    timercheck: TimerCheck
    slots_on_disk: list[Slot]
    slots_recovered: list[Slot]
    units: list[Unit]
    curr_read_time_ms: int
    curr_queue_offset: int
    timer_log_max_offset: int


class TimerCheck(msgspec.Struct, rename="camel"):
    """The seven numbers of the timer checkpoint."""

    last_read_time_ms: int
    last_timer_log_flush_pos: int
    last_timer_queue_offset: int
    master_timer_queue_offset: int
    state_version: int
    timestamp: int
    counter: int


class Slot(msgspec.Struct, rename="camel"):
    """One slot of the wheel, with the positions of its chain, newest first, where it was walked."""

    time_ms: int
    first_pos: int
    last_pos: int
    num: int
    chain: list[int] = []


class Unit(msgspec.Struct, rename="camel"):
    """One unit of the timer log."""

    position: int
    prev_pos: int
    magic: int
    write_time_ms: int
    delay_ms: int
    phy_offset: int
    message_size: int
    topic_hash: int


@attrs.frozen
class GoldenStore:
    """An unpacked store and its manifest."""

    root: str
    """The store's directory; tests that write work on a copy."""
    manifest: Manifest
    raw: Mapping[str, object]
    """The manifest's ``state`` as plain JSON: for its ``config …`` entries."""


class GoldenStores:
    """Unpacks the stores, each at its first use."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._stores: dict[str, GoldenStore] = {}

    def __getitem__(self, name: str) -> GoldenStore:
        if name not in self._stores:
            self._stores[name] = self._unpack(name)
        return self._stores[name]

    def unpack_copy(self, name: str, directory: Path) -> str:
        """Unpack a store of one's own, to be written to; returns its directory."""
        with tarfile.open(GOLDEN / f"{name}.tar.xz") as archive:
            archive.extractall(directory, filter="data")
        return str(directory / "store")

    def _unpack(self, name: str) -> GoldenStore:
        manifest = lzma.decompress((GOLDEN / f"{name}.manifest.json.xz").read_bytes())
        everything = cast("dict[str, dict[str, object]]", msgspec.json.decode(manifest))
        return GoldenStore(
            root=self.unpack_copy(name, self._directory / name),
            manifest=msgspec.json.decode(manifest, type=Manifest),
            raw=everything["state"],
        )
