"""Every damage of a store's files that the campaign does, each known by a name.

| kind | what happens |
|---|---|
| flip | one bit is another |
| zero | a sector reads as zeros |
| stale | a sector holds what it held earlier |
| swap | two sectors of a file have changed places |
| cut | a file ends at a sector |
| lost | a file that can be made again is gone |

A name is ``PATH:KIND:WHERE``, with the path below the store's root; where is ``BYTE.BIT`` of a
flip, ``SECTOR+SECTOR`` of a swap, ``0`` of a lost file, else a sector, counted from 0.

Stores are mostly empty. Of a sector that holds nothing two bits are flipped, one at each end;
otherwise every bit is.
"""

from __future__ import annotations

import enum
from collections import defaultdict
from collections.abc import Collection, Iterator, Sequence
from itertools import combinations
from random import Random

import attrs

from simulation.staged_service import ROOT
from timermq.simulator.disks.disk_damage import Image
from timermq.simulator.disks.memory_node import SECTOR_SIZE
from timermq.timerstore.file_family import FileFamily, family_of

from .stores import NAMES, Store, store_named

LEFT_ALONE = frozenset({FileFamily.LOCK})
"""What holds nothing that is read."""


LOSABLE = frozenset({FileFamily.TIMER_LOG, FileFamily.TIMER_WHEEL, FileFamily.TIMER_CHECKPOINT})
"""What a start makes again when a file of it is gone."""


class Kind(enum.Enum):
    """What happens to a file."""

    FLIP = "flip"
    ZERO = "zero"
    STALE = "stale"
    SWAP = "swap"
    CUT = "cut"
    LOST = "lost"


@attrs.frozen
class Damage:
    """One damage of one file."""

    path: str
    """Below the root."""
    kind: Kind
    where: str

    @property
    def name(self) -> str:
        """The name of the damage: ``path:kind:where``."""
        return f"{self.path}:{self.kind.value}:{self.where}"

    @property
    def family(self) -> FileFamily:
        """The family of the file."""
        return family_of(ROOT, f"{ROOT}/{self.path}")

    @classmethod
    def named(cls, name: str) -> Damage:
        """The damage of a name."""
        path, kind, where = name.rsplit(":", 2)
        return cls(path, Kind(kind), where)

    def image(self, store: Store) -> Image:
        """The files of a store with this damage."""
        path = f"{ROOT}/{self.path}"
        if self.kind is Kind.LOST:
            return {one: content for one, content in store.image.items() if one != path}
        return {**store.image, path: self._damaged(store.image[path], store.earlier.get(path, b""))}

    def sectors(self, size: int) -> list[int]:
        """Offsets of the sectors that are damaged, of a file of so many bytes."""
        if self.kind is Kind.FLIP:
            offset = int(self.where.partition(".")[0])
            return [offset - offset % SECTOR_SIZE]
        if self.kind in (Kind.CUT, Kind.LOST):
            return list(range(int(self.where) * SECTOR_SIZE, size, SECTOR_SIZE))
        return [int(one) * SECTOR_SIZE for one in self.where.split("+")]

    def _damaged(self, content: bytes, earlier: bytes) -> bytes:
        places = self.sectors(len(content))
        if self.kind is Kind.CUT:
            return content[: int(self.where) * SECTOR_SIZE]
        damaged = bytearray(content)
        if self.kind is Kind.FLIP:
            offset, bit = map(int, self.where.split("."))
            damaged[offset] ^= 1 << bit
            return bytes(damaged)
        sources = [*reversed(places)] if self.kind is Kind.SWAP else places
        for place, source in zip(places, sources, strict=True):
            size = min(SECTOR_SIZE, len(content) - place)
            new = b""
            if self.kind is Kind.SWAP:
                new = content[source : source + size]
            elif self.kind is Kind.STALE:
                new = earlier[place : place + size]
            damaged[place : place + size] = new.ljust(size, b"\0")
        return bytes(damaged)


def damages(store: Store, kinds: Collection[Kind] = frozenset(Kind)) -> Iterator[Damage]:
    """Every damage of a store that changes something."""
    for path in sorted(store.image):
        if family_of(ROOT, path) not in LEFT_ALONE:
            content, earlier = store.image[path], store.earlier.get(path, b"")
            yield from _of_file(path.removeprefix(f"{ROOT}/"), content, earlier, kinds)


def flips(path: str, content: bytes) -> Iterator[Damage]:
    """Every bit of what is held in a file, and two of each sector that is empty."""
    for first, sector in _sectors(content):
        bits = range(8 * len(sector)) if any(sector) else (0, 8 * len(sector) - 1)
        for bit in bits:
            yield Damage(path, Kind.FLIP, f"{first + bit // 8}.{bit % 8}")


def drawn_flip(path: str, content: bytes, draw: Random) -> Damage:
    """One of them; one in ten is of any sector."""
    sectors = [one for one in _sectors(content) if any(one[1])] or list(_sectors(content))
    if draw.random() < 0.1:
        sectors = list(_sectors(content))
    first, sector = draw.choice(sectors)
    bit = draw.randrange(8 * len(sector))
    return Damage(path, Kind.FLIP, f"{first + bit // 8}.{bit % 8}")


def _sectors(content: bytes) -> Iterator[tuple[int, bytes]]:
    for first in range(0, len(content), SECTOR_SIZE):
        yield first, content[first : first + SECTOR_SIZE]


def _of_file(
    path: str, content: bytes, earlier: bytes, kinds: Collection[Kind]
) -> Iterator[Damage]:
    if Kind.FLIP in kinds:
        yield from flips(path, content)
    for first, sector in _sectors(content):
        number = str(first // SECTOR_SIZE)
        if any(sector) and Kind.ZERO in kinds:
            yield Damage(path, Kind.ZERO, number)
        before = earlier[first : first + len(sector)].ljust(len(sector), b"\0")
        if Kind.STALE in kinds and any(before) and before != sector:
            yield Damage(path, Kind.STALE, number)
        if Kind.CUT in kinds:
            yield Damage(path, Kind.CUT, number)
    if Kind.LOST in kinds and family_of(ROOT, f"{ROOT}/{path}") in LOSABLE:
        yield Damage(path, Kind.LOST, "0")
    if Kind.SWAP in kinds:
        yield from _swaps(path, content)


def _swaps(path: str, content: bytes) -> Iterator[Damage]:
    """Of whole sectors that differ; one of the empty ones stands for all."""
    whole = {at: one for at, one in _sectors(content) if len(one) == SECTOR_SIZE}
    held = [at for at, one in whole.items() if any(one)]
    empty = [at for at, one in whole.items() if not any(one)][:1]
    for one, other in combinations(sorted(held + empty), 2):
        if whole[one] != whole[other]:
            yield Damage(path, Kind.SWAP, f"{one // SECTOR_SIZE}+{other // SECTOR_SIZE}")


@attrs.frozen
class Case:
    """A damage of one of the stores."""

    store: str
    damage: Damage

    @property
    def name(self) -> str:
        """By which it is repeated."""
        return f"{self.store}:{self.damage.name}"

    @classmethod
    def named(cls, name: str) -> Case:
        """The case of a name."""
        store, _, damage = name.partition(":")
        return cls(store, Damage.named(damage))


@attrs.frozen
class Wanted:
    """Which cases are wanted; all by default."""

    stores: Sequence[str] = NAMES
    family: str = ""
    """How names of families begin."""
    kinds: frozenset[Kind] = frozenset(Kind)

    def cases(self, *, flips: bool = True) -> Iterator[Case]:
        """All of them, store by store."""
        kinds = self.kinds if flips else self.kinds - {Kind.FLIP}
        for name in self.stores:
            for damage in damages(store_named(name), kinds):
                if damage.family.value.startswith(self.family):
                    yield Case(name, damage)

    def drawn(self, count: int, seed: int = 1) -> list[Case]:
        """So many of them: of each family and kind alike, as far as there are."""
        draw = Random(seed)
        groups: defaultdict[tuple[FileFamily, Kind], list[Case]] = defaultdict(list[Case])
        for case in self.cases(flips=False):
            groups[case.damage.family, case.damage.kind].append(case)
        if Kind.FLIP in self.kinds:
            for case in self._drawn_flips(draw, count):
                groups[case.damage.family, case.damage.kind].append(case)
        for group in groups.values():
            draw.shuffle(group)
        drawn: list[Case] = []
        while len(drawn) < count and any(groups.values()):
            drawn += [group.pop() for group in groups.values() if group]
        return drawn[:count]

    def _drawn_flips(self, draw: Random, count: int) -> Iterator[Case]:
        """So many of each family."""
        files: defaultdict[FileFamily, list[tuple[str, str]]] = defaultdict(list[tuple[str, str]])
        for name in self.stores:
            for path, content in sorted(store_named(name).image.items()):
                family = family_of(ROOT, path)
                is_wanted = family.value.startswith(self.family) and family not in LEFT_ALONE
                if content and is_wanted:
                    files[family].append((name, path))
        for places in files.values():
            for _ in range(count):
                name, path = draw.choice(places)
                content = store_named(name).image[path]
                yield Case(name, drawn_flip(path.removeprefix(f"{ROOT}/"), content, draw))
