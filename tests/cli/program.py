"""What the tests of the command line share."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import cast

import attrs

SMALL_FILES = (
    "--set=mapped_file_size_commit_log=16777216",
    "--set=mapped_file_size_timer_log=1048576",
    "--set=max_hash_slot_num=1000",
    "--set=max_index_num=4000",
)
"""A gigabyte that is not filled takes time to reserve."""


@attrs.frozen
class Ran:
    """What one run of the program left behind."""

    code: int
    out: str
    err: str

    @property
    def rows(self) -> list[dict[str, object]]:
        """The objects that the program printed, one a line of JSON."""
        return [cast("dict[str, object]", json.loads(line)) for line in self.out.splitlines()]


RunProgram = Callable[..., Ran]
