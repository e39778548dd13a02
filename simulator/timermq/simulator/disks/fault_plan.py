"""Which operations on a disk fail, and how: plans for a ``FaultyDisk``.

A plan is any function from an ``Access`` to a ``Fault`` or None. Two are here: ``FaultRules`` for
what a test spells out, ``FaultDraw`` for what a seed decides.
"""

from __future__ import annotations

import enum
import errno
from collections.abc import Callable, Collection, Mapping
from random import Random

import attrs

from timermq.timerstore.file_family import FileFamily

ALL_FAMILIES = frozenset(FileFamily)


class Operation(enum.Enum):
    """An operation on a disk that a plan can let fail."""

    OPEN = "open"
    READ = "read"
    """Not of the views: see ``FaultyDisk``."""
    MAP = "map"
    WRITE = "write"
    ALLOCATE = "allocate"
    TRUNCATE = "truncate"
    SYNC = "sync"
    SYNC_DIR = "sync_dir"
    RENAME = "rename"
    REMOVE = "remove"
    MAKE_DIRS = "make_dirs"


TAKING_SPACE = frozenset({Operation.WRITE, Operation.ALLOCATE, Operation.MAKE_DIRS})
"""The operations that a full disk refuses."""


@attrs.frozen
class Access:
    """One operation that is about to be done."""

    operation: Operation
    path: str
    family: FileFamily
    offset: int = 0
    """Of a read or write, bytes."""
    size: int = 0
    """Of a read or write, or the new length, bytes."""


@attrs.frozen
class Fault:
    """How an operation fails: an OSError, and what it did before."""

    error: int = errno.EIO
    """Number of the OSError."""
    written: int = 0
    """Bytes of a write that reach the file all the same: a short write."""


Plan = Callable[[Access], Fault | None]


@attrs.define(kw_only=True)
class FaultRule:
    """Some operations on some files fail: after ``skip`` that go well, ``count`` of them."""

    operations: Collection[Operation]
    families: Collection[FileFamily] = ALL_FAMILIES
    name: str = ""
    """Only paths that hold this text."""
    fault: Fault = Fault()
    skip: int = 0
    count: int | None = 1
    """None: all from then on, until ``heal``."""

    def strikes(self, access: Access) -> bool:
        """Whether this access fails; counts it if it is one that the rule speaks of."""
        if (
            access.operation not in self.operations
            or access.family not in self.families
            or self.name not in access.path
        ):
            return False
        if self.skip:
            self.skip -= 1
            return False
        if self.count is None:
            return True
        self.count = max(self.count - 1, -1)
        return self.count >= 0

    def heal(self) -> None:
        """From now on all goes well."""
        self.count = 0


class FaultRules:
    """A plan in rules; the first that strikes decides.

    Args:
        rules: They count what they see: none belongs to two plans.
    """

    def __init__(self, *rules: FaultRule) -> None:
        self.rules = list(rules)
        self.struck: list[Access] = []
        """The failed operations, in order: a test sees that its faults were met."""

    def __call__(self, access: Access) -> Fault | None:
        """The fault of the first rule that strikes."""
        for rule in self.rules:
            if rule.strikes(access):
                self.struck.append(access)
                return rule.fault
        return None

    def heal(self) -> None:
        """No rule strikes any more: the disk is good again, or has room again."""
        for rule in self.rules:
            rule.heal()


class FaultDraw:
    """A plan that a seed decides: each operation fails with a chance of its own.

    Args:
        draw: Decides; the same draws for the same operations.
        chances: Operation to the chance that one fails, 0 to 1.
        families: Which files fail.
        error: Number of the OSError.
    """

    def __init__(
        self,
        draw: Random,
        chances: Mapping[Operation, float],
        *,
        families: Collection[FileFamily] = ALL_FAMILIES,
        error: int = errno.EIO,
    ) -> None:
        self.struck: list[Access] = []
        """The failed operations, in order."""
        self._draw = draw
        self._chances = chances
        self._families = families
        self._error = error

    def __call__(self, access: Access) -> Fault | None:
        """A fault if the seed says so; a write that fails may be a short one."""
        chance = self._chances.get(access.operation, 0.0)
        if not chance or access.family not in self._families or self._draw.random() >= chance:
            return None
        self.struck.append(access)
        is_write = access.operation is Operation.WRITE
        return Fault(self._error, self._draw.randint(0, access.size) if is_write else 0)


def no_faults(access: Access) -> Fault | None:
    """The plan of a good disk."""
    del access
    return None
