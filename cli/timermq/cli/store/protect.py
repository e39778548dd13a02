"""Protect a store: its files and directories are for their owner alone, as those made now are.

A broker may serve it meanwhile: open files stay open, and what is made new is protected already.
"""

from __future__ import annotations

import argparse
import os
import stat
from collections.abc import Iterator
from pathlib import Path

from timermq.pipeline.recovery.store_sizes import expect_store
from timermq.timerstore.os_disk import DIRECTORY_MODE, FILE_MODE, OsDisk

from ..arguments import OneLineParser, complete_directories

OTHERS = 0o077
"""Rights of the group and of everybody else."""


def prepare_parser(parser: OneLineParser) -> None:
    """The directory of the store to protect."""
    directory = parser.add_argument("directory", metavar="DIR", help="the store's directory")
    complete_directories(directory)


def run(args: argparse.Namespace) -> int:
    """Take the rights of others away, and say from how many files and directories."""
    root = os.path.normpath(args.directory)
    expect_store(OsDisk(), root)
    count = sum(_protect(path) for path in _paths(root))
    print(f"{root}: {count} files and directories were open to others; none is now")
    return 0


def _paths(root: str) -> Iterator[Path]:
    yield Path(root)
    for place, directories, files in os.walk(root, onerror=_refuse):
        for name in (*directories, *files):
            yield Path(place, name)


def _refuse(error: OSError) -> None:
    raise error


def _protect(path: Path) -> bool:
    """Take the rights of others away; whether there were any. Links are passed over."""
    try:
        mode = path.lstat().st_mode
        if stat.S_ISLNK(mode) or not mode & OTHERS:
            return False
        path.chmod(DIRECTORY_MODE if stat.S_ISDIR(mode) else FILE_MODE)
    except FileNotFoundError:
        return False  # cleaned meanwhile
    return True
