"""The lake that a user names: a directory, or the URL of an object store."""

from __future__ import annotations

from ..options import absolute
from ..places import object_place
from .directory_lake import DirectoryLake
from .lake import Lake
from .object_lake import ObjectLake


def lake_of(directory: str) -> Lake:
    """The lake at a path or URL.

    Raises:
        SparkJobError: It is the address of another place.
    """
    place = object_place(directory)
    return DirectoryLake(absolute(directory)) if place is None else ObjectLake(place)
