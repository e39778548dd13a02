"""The target that an operator names: a directory, or the URL of an object store."""

from __future__ import annotations

import os

from timermq.timerstore.disk import Disk

from .directory_target import DirectoryTarget
from .object_target import ObjectTarget
from .target import Target


def target_of(text: str, disk: Disk) -> Target:
    """The target that a text names.

    Args:
        text: The path of a directory, or ``SCHEME://…``.
        disk: The disk of the directory.

    Raises:
        TargetError: The library does not know such a URL.
        ModuleNotFoundError: It names an object store, and the extra ``backup`` is not installed.
    """
    return ObjectTarget(text) if "://" in text else DirectoryTarget(disk, os.path.normpath(text))
