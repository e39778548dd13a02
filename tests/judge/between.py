"""What happens to the files of a store between two lives."""

from __future__ import annotations

from collections.abc import Sequence
from random import Random
from typing import Protocol

from timermq.repair.store_check import CheckedStore
from timermq.repair.store_repair import StoreRepair
from timermq.repair.store_rule import Severity
from timermq.simulator.disks.memory_disk import MemoryDisk

from .mortal_disk import PLENTY
from .notebook import Letter
from .reader import HEAD, NAME_DIGITS, Log, LogReader
from .rules import facts_of
from .setting import Fault, Setting
from .stage import TOPICS

DERIVED = {
    Fault.LOST_CHECKPOINT: "config/timercheck",
    Fault.LOST_WHEEL: "timerwheel",
    Fault.LOST_TIMER_LOG: "timerlog",
}
"""What can be made again from the log."""


SPOILT_SIZE = 12
"""Bytes: at least two words, for a single one would be put right."""
SECTOR_SIZE = 512
"""Bytes that have one seal."""


class Place(Protocol):
    """The history in which the store lives: draws, and is told what happens."""

    @property
    def draw(self) -> Random: ...
    def tell(self, text: str) -> None: ...
    def count(self, what: str, count: int = 1) -> None: ...
    def breach(self, text: str) -> None: ...


class Between:
    """The time in which no process has the store.

    Args:
        place: Told what happens.
        disk: Where the store is.
        reader: Of its log; told what is damaged.
        root: Its directory.
    """

    def __init__(self, place: Place, disk: MemoryDisk, reader: LogReader, root: str) -> None:
        self._place = place
        self._disk = disk
        self._reader = reader
        self._root = root

    def lose(self, what: Sequence[Fault]) -> None:
        """Remove some of what can be made again, for good.

        Of the timer log all: with a hole in it a start refuses it until it is repaired.
        """
        for one in what:
            path = f"{self._root}/{DERIVED[one]}"
            files = [f"{path}/{name}" for name in self._disk.list_dir(path)] or [path]
            files = [file for file in files if self._disk.exists(file)]
            for file in files:
                self._disk.remove(file)
                self._disk.sync_dir_now(file.rpartition("/")[0])
            if files:
                self._place.tell(f"lost: {', '.join(files)}")
                self._place.count(one.value)

    async def repair(self, setting: Setting, now_ms: int) -> bool:
        """`store repair`, with room for its copies; whether it has filled holes of the log."""
        self._disk.total = PLENTY
        store = CheckedStore(
            disk=self._disk,
            root=self._root,
            store_options=setting.store_options(self._place.draw),
            timer_options=setting.timer_options(self._place.draw),
            now_ms=now_ms,
        )
        report = await StoreRepair(store, lambda: now_ms).run()
        self._place.count("repairs")
        self._place.tell(f"repair: {[str(one.row()) for one in report.findings]}")
        if not report.is_repaired:
            self._place.breach(f"not repaired: {[str(one.row()) for one in report.left]}")
        return any(one.severity is Severity.LOST for one in report.findings)

    def damage(self, letters: Sequence[Letter], log: Log) -> Log:
        """Spoil some bytes in the body of a record that waits.

        Which bytes of the sector they are is not known, so all messages with a record in it, of
        any kind, may be quarantined.

        Returns:
            The log as it is then.
        """
        found = facts_of(log, TOPICS)
        for letter in self._place.draw.sample(letters, len(letters)):
            facts = found.by_name[letter.name]
            if facts.arrivals or facts.is_cancelled or facts.waits_at < log.start:
                continue
            if not facts.versions or letter.is_recalled or facts.waits_at in self._reader.damaged:
                continue
            if facts.waits_at in found.entries:
                continue  # quarantined before, with the bytes that it had then
            if facts.waits_at == log.records[-1].position:
                continue  # a start walks over the newest record, and refuses it
            in_sector = (facts.waits_at + HEAD.size) % SECTOR_SIZE
            if len(letter.body) < SPOILT_SIZE or in_sector > SECTOR_SIZE - SPOILT_SIZE:
                continue  # a word alone, here or in the next sector, would be put right
            letter.spoilt_at = facts.waits_at
            self._spoil(facts.waits_at + HEAD.size)
            self._reader.damaged.add(facts.waits_at)
            for one in letters:
                one.is_damaged |= one.key in self._beside(facts.waits_at + HEAD.size, log)
            self._place.tell(f"the record of {letter.name} at {facts.waits_at} is damaged")
            self._place.count("damaged")
            return self._reader.read()
        return log

    def _beside(self, position: int, log: Log) -> set[str]:
        """Unique keys of the messages that have a record in the sectors around a position."""
        names: set[str] = set()
        for record in log.records:
            if record.position < position + 2 * SECTOR_SIZE and record.end > position - SECTOR_SIZE:
                deleted = record.properties.get("TIMER_DEL_UNIQKEY", "").rpartition("+")[2]
                names |= {key.partition("#moved")[0] for key in (record.unique_key, deleted)}
        return names

    def _spoil(self, position: int) -> None:
        directory = f"{self._root}/commitlog"
        name = max(one for one in self._disk.list_dir(directory) if int(one) <= position)
        file = self._disk.open(f"{directory}/{name}")
        at = position - int(name[-NAME_DIGITS:])
        spoilt = bytes(byte ^ 3 for byte in file.read(at, SPOILT_SIZE))
        file.write(at, spoilt)
        self._disk.sync_now(file)
        file.close()
