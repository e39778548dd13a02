"""A table that is written as Parquet in place of an older one, and nothing else's place.

Spark's ``overwrite`` first removes whatever the directory holds, so it is asked for only where this
process has seen that nothing is there but what Spark wrote before.
"""

from __future__ import annotations

import os
import re
from pathlib import Path

from pyspark.sql import DataFrame

from ..errors import SparkJobError
from ..named_stores import named_stores
from ..options import Stores
from ..places import is_object

_SPARKS_OWN = re.compile(
    r"part-\d+-[^/]+\.parquet"  # a task's file
    r"|_SUCCESS"
    r"|\.(?:part-\d+-[^/]+\.parquet|_SUCCESS)\.crc"
    r"|_temporary"  # of a job that died
)
"""Names in a directory that Spark has written a table into."""
_FILE_SCHEME = "file:"


def write_table(frame: DataFrame, directory: str, *, store: Stores) -> None:
    """Write a frame as Parquet into a directory, in place of an older table.

    Args:
        frame: The table.
        directory: As driver and executors see it.
        store: The store that the table is of, or several, as of ``named_stores``.

    Raises:
        SparkJobError: As of ``write_mode``.
    """
    frame.write.mode(write_mode(directory, store=store)).parquet(directory)


def write_mode(directory: str, *, store: Stores) -> str:
    """How Spark may write a table into a directory.

    Returns:
        ``overwrite`` if nothing is in it but an older table, ``errorifexists`` if there is none, or
        none that this machine sees: what was not looked at is not removed.

    Raises:
        SparkJobError: It is, holds or lies within the store, or something else is in it.
    """
    path = directory
    if path.startswith(_FILE_SCHEME):
        path = "/" + path.removeprefix(_FILE_SCHEME).lstrip("/")
    if "://" in path:
        return "errorifexists"
    for one in named_stores(store):
        _check_apart(directory, os.path.realpath(path), one.root)
    place = Path(path)
    if not place.exists():
        return "errorifexists"
    if not place.is_dir():
        raise SparkJobError(f"{directory}: expected a directory, found a file")
    others = sorted(one.name for one in place.iterdir() if not is_sparks_own(one))
    if others:
        raise SparkJobError(
            f"{directory}: expected a directory with nothing in it but a table that Spark wrote, "
            f"found {others[0]!r}" + (f" and {len(others) - 1} more" if others[1:] else "")
        )
    return "overwrite"


def is_sparks_own(path: Path) -> bool:
    """Whether Spark names what it writes for a table like this, and it is of that kind."""
    return (
        _SPARKS_OWN.fullmatch(path.name) is not None
        and not path.is_symlink()
        and path.is_dir() == (path.name == "_temporary")
    )


def _check_apart(directory: str, path: str, store: str) -> None:
    if is_object(store):
        return
    root = os.path.realpath(store)
    common = os.path.commonpath([root, path])
    if common not in (root, path):
        return
    if root == path:
        found = "the store itself"
    else:
        found = "one within it" if common == root else "one that holds it"
    raise SparkJobError(
        f"{directory}: expected a directory apart from the store {store}, found {found}"
    )
