"""The target of a backup, as verbs take it on their command line."""

from __future__ import annotations

import importlib.util

from timermq.backup.target import Target
from timermq.backup.target_place import target_of
from timermq.timerstore.disk import Disk

from .arguments import OneLineParser, UsageError, complete_directories


def add_target(parser: OneLineParser) -> None:
    """Add the positional argument that names the target."""
    target = parser.add_argument(
        "target",
        metavar="TARGET",
        help="a directory, or an object store (s3://BUCKET/PREFIX; needs the extra backup)",
    )
    complete_directories(target)


def named_target(text: str, disk: Disk) -> Target:
    """The target that a command line names.

    Args:
        text: A directory, or a URL.
        disk: The disk of the directory.

    Raises:
        UsageError: An object store was named, and the extra is not installed.
        TargetError: The URL is not valid.
    """
    if "://" in text and importlib.util.find_spec("obstore") is None:
        raise UsageError(f"{text}: expected obstore, found none: pip install 'timermq[backup]'")
    return target_of(text, disk)
