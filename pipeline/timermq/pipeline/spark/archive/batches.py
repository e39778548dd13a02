"""The part of an archive that is replayed as one job: the files of a batch, or a file of none.

A portion never changes: a batch that has its entry gets no more files, and what has come since is
another portion. So jobs that are named after their portions' content take each message once,
however an archive is spelled, copied or has grown.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

import attrs

from ..jobs.schedule import content_name
from .batch import Batch


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


def listed_paths(root: Path, known: Sequence[Batch]) -> list[str]:
    """The files of batches that are there: of old ones the owner may have removed some."""
    paths = (root / file.path for batch in known for file in batch.files)
    return [str(path) for path in paths if path.exists()]


def portions(root: Path, places: Iterable[str], known: Sequence[Batch]) -> list[Portion]:
    """Some files of an archive as portions, in the order of the batches.

    Args:
        root: The archive, or another table.
        places: Of the files under it.
        known: The batches of the archive; none of another table.
    """
    number_of = {file.path: batch.number for batch in known for file in batch.files}
    found: dict[tuple[int, str], list[str]] = {}
    for place in sorted(places):
        key = (number_of[place], "") if place in number_of else (-1, place)
        found.setdefault(key, []).append(place)
    return [Portion(root, tuple(found[key])) for key in sorted(found)]
