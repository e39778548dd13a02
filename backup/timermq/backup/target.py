"""The ``Target`` seam: named objects, each put whole; a directory or an object store holds them."""

from __future__ import annotations

from typing import Protocol

from timermq.timerstore.errors import StoreError


class TargetError(StoreError):
    """The target refused, or cannot be reached; what it held before is as it was.

    The shipper tries again. The operator sees to room, rights or the network.
    """


class BackupError(StoreError):
    """The backup is damaged, incomplete, of another store, or no backup.

    A retry changes nothing; the message says what the operator can do.
    """


class Target(Protocol):
    """Objects by name. A name has `/` between its parts, ASCII letters, digits, `-` and `.`."""

    @property
    def place(self) -> str:
        """The target as an operator names it, for messages."""
        ...

    async def names(self) -> list[str]:
        """The names of all objects.

        Raises:
            TargetError: The target cannot be read.
        """
        ...

    async def get(self, name: str) -> bytes | None:
        """The bytes of an object; None when it is missing.

        Raises:
            TargetError: The target cannot be read.
        """
        ...

    async def put(self, name: str, data: bytes) -> None:
        """Store an object durably, in one step: readers see the old one or the new one.

        Raises:
            TargetError: It is not stored, or it is not known whether it is.

        Cancellation: as a kill: the old object or the new one is there.
        """
        ...

    async def delete(self, name: str) -> None:
        """Remove an object; missing is fine.

        Raises:
            TargetError: The target refused.
        """
        ...
