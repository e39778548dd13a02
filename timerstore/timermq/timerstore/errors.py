"""Errors of the store: one root, few leaves, each saying who can do what."""

from __future__ import annotations

import os


class StoreError(Exception):
    """Something is wrong with the store; the message says thing, place, expected and found."""


class StoreFormatError(StoreError):
    """A file is not what its name says: corrupt, foreign, or of other settings.

    Nothing was overwritten. The operator checks the settings (segment sizes) or repairs the store.
    """

    def __init__(self, path: str, offset: int, expected: str, found: str) -> None:
        super().__init__(f"{path}: at {offset}: expected {expected}, found {found}")
        self.path = path
        self.offset = offset
        self.expected = expected
        self.found = found


class StoreKindError(StoreError):
    """A part of the store is of a kind that is not read here; nothing was opened.

    The operator takes the steps of the message, with the program that wrote it.
    """


class StoreLockedError(StoreError):
    """Another process serves this store; the operator stops it or takes another directory."""


def no_access(error: PermissionError) -> str:
    """The error of a file without access, in one line: it is there, or may be."""
    found = (error.strerror or "permission denied").lower()
    return f"{error.filename}: expected access for user {os.geteuid()}, found {found}"


class StoreFailedError(StoreError):
    """A sync failed, or a failed write could not be undone; the store must be opened again.

    What was acknowledged as durable is safe; recovery finds out from the log what else was stored.
    """
