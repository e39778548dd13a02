"""The target that an operator names: a directory, or the URL of an object store."""

from __future__ import annotations

import os

from timermq.timerstore.disk import Disk

from .directory_target import DirectoryTarget
from .object_target import ObjectTarget
from .target import Target


def target_of(text: str, disk: Disk) -> Target:
    """The target of a text.

    Args:
        text: A path, or ``SCHEME://…``.
        disk: Of directories.

    Raises:
        TargetError: The URL is none that the library knows.
        ModuleNotFoundError: An object store, and the extra ``backup`` is not installed.
    """
    return ObjectTarget(text) if "://" in text else DirectoryTarget(disk, os.path.normpath(text))
