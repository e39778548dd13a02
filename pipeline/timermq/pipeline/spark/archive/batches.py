"""The part of an archive that is replayed as one job: the files of a batch, or a file of none.

A portion never changes: a batch that has its entry gets no more files, and what has come since is
another portion. So jobs that are named after their portions' content take each message once,
however an archive is spelled, copied or has grown.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

import attrs

from ..errors import SparkJobError
from ..jobs.schedule import content_name
from ..options import absolute
from .archive_log import Batch, entries, staging_of

_FILE = re.compile(r"(\d{20})-\d{5}\.parquet")
"""A file of a batch, by where its stretch of the log begins."""


@attrs.frozen
class Portion:
    """Files of an archive that are replayed together."""

    root: Path
    files: tuple[str, ...]
    """Their places under the root, in order."""

    @property
    def paths(self) -> list[str]:
        """The files as Spark takes them."""
        return [str(self.root / place) for place in self.files]

    def job(self, said: Mapping[str, object]) -> str:
        """The name of a job over the portion: of what is in it, and where it stands in the archive.

        Args:
            said: What else makes it another job: the range, the shift.
        """
        return content_name("replay", self.paths, {**said, "places": self.files})


def known_batches(directory: str) -> list[Batch]:
    """The batches of an archive as they are now, all their files in place; none of other tables.

    Args:
        directory: As it was named.

    Raises:
        SparkJobError: Files of the newest one are on their way.
    """
    found = entries(Path(directory))
    if not found:
        return found  # also of a place that this machine does not see
    spellings = {absolute(directory), os.path.realpath(directory)}
    for file in found[-1].files:
        if (Path(directory) / file.path).exists():
            continue
        if any((staging_of(Path(one)) / file.staged).exists() for one in spellings):
            raise SparkJobError(
                f"{directory}: expected all files of batch {found[-1].number} in their places, "
                f"found {file.path} still staged: a run of archive is about to move it, or has "
                "died: replay after its end, or after the next one"
            )
    return found


def portions(root: Path, places: Iterable[str], known: Sequence[Batch]) -> list[Portion]:
    """Some files of an archive as portions, in the order of the batches.

    Args:
        root: The archive.
        places: Of the files under it.
        known: The batches that it had before it was looked at for files: those of later ones, which
            may not all be there yet, are left for another run.
    """
    number_of = {file.path: batch.number for batch in known for file in batch.files}
    end = known[-1].high if known else None
    found: dict[tuple[int, str], list[str]] = {}
    for place in sorted(places):
        of_batch = _FILE.fullmatch(Path(place).name)
        if place in number_of:
            found.setdefault((number_of[place], ""), []).append(place)
        elif end is None or of_batch is None or int(of_batch[1]) < end:
            found.setdefault((-1, place), []).append(place)
    return [Portion(root, tuple(found[key])) for key in sorted(found)]
