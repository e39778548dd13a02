"""A file of seeds that have been run, so that a long run goes on where it was ended.

Each line is a result in JSON with what it was run with. Seeds that kept every promise are not run
again; those that broke one are. A line that was cut off counts as none.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from pathlib import Path

import attrs
import msgspec

from .seeds import SeedResult


@attrs.frozen
class SeedResults:
    """The results of one kind of run in a file, which others may share."""

    path: Path
    run_with: Mapping[str, object]
    """Names and values that a result depends on, beside the seed: text, numbers, true and false."""

    def load(self, seeds: Collection[int]) -> Iterator[SeedResult]:
        """The results of seeds that need not be run again.

        Raises:
            OSError: The file cannot be read; a missing one is empty.
        """
        if not self.path.exists():
            return
        found: dict[int, SeedResult] = {}
        for line in self.path.read_bytes().splitlines():
            try:
                row = msgspec.json.decode(line, type=dict[str, object])
                result = msgspec.convert(row.pop("result"), SeedResult)
            except (msgspec.DecodeError, KeyError):
                continue
            if row == dict(self.run_with) and result.seed in seeds and not result.faults:
                found[result.seed] = result
        yield from found.values()

    def add(self, results: Sequence[SeedResult]) -> None:
        """Append results, each a line.

        Raises:
            OSError: The disk refused.
        """
        rows = [{**self.run_with, "result": one.row()} for one in results]
        with self.path.open("ab") as file:
            file.write(msgspec.json.Encoder().encode_lines(rows))
