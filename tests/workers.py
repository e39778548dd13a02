"""Workers of a test run: how many, and which modules they are given in which order.

The longest come first, so that no worker is left alone with one at the end. ``module_seconds.json``
keeps how long modules took: ``KEEP_TIMES=1 make test`` writes it anew. What is not there is short,
or new: it comes last, its slow kinds first.
"""

from __future__ import annotations

import json
import os
from collections import Counter
from collections.abc import Mapping
from pathlib import Path

import attrs
import pytest

# xdist says nothing of its types.
from xdist.scheduler import (  # type: ignore[import-untyped]
    LoadFileScheduling,  # pyright: ignore
)

TESTS = Path(__file__).parent
SECONDS_FILE = TESTS / "module_seconds.json"
KEPT_SECONDS_MIN = 2
"""Modules that took less are not kept."""

SLOWEST_FIRST = (
    "spark",
    "interop",
    "cli",
    "soak",
    "simulation",
    "judge",
    "damage",
    "planted",
    "property",
    "unit",
)
"""Kinds of tests."""

SPARK = "tests/spark"
SPARK_SESSIONS = {
    f"{SPARK}/drivers": (f"{SPARK}/drivers/",),
    f"{SPARK}/r-z": tuple(f"{SPARK}/test_{begin}" for begin in ("report", "s", "t", "w")),
    f"{SPARK}/a-r": (f"{SPARK}/",),
}
"""Units that share a session of Spark, whose start takes ten seconds, and what their modules begin
with: the first that fits. Each is about as long as the longest other module."""


def worker_count() -> int:
    """The count of workers: more than cores, since most long tests wait for other processes."""
    return 3 * (os.cpu_count() or 1) + 1


def unit_of(nodeid: str) -> str:
    """The tests that run together with one in one worker: its module, or its session of Spark."""
    module = nodeid.split("::")[0]
    sessions = SPARK_SESSIONS.items()
    return next((unit for unit, begins in sessions if module.startswith(begins)), module)


def read_seconds() -> dict[str, int]:
    """The kept seconds of modules."""
    return dict(json.loads(SECONDS_FILE.read_text()))


def place(nodeid: str, seconds: Mapping[str, int]) -> tuple[int, int]:
    """A test's place in the order: that of its unit.

    Args:
        nodeid: The test.
        seconds: Of units.
    """
    return -seconds.get(unit_of(nodeid), 0), SLOWEST_FIRST.index(nodeid.split("/")[1])


def unit_seconds(seconds: Mapping[str, int]) -> Counter[str]:
    """The seconds of units, from those of modules."""
    units: Counter[str] = Counter()
    for module, spent in seconds.items():
        units[unit_of(module)] += spent
    return units


class ModulesTogether(LoadFileScheduling):  # type: ignore[misc]  # xdist says nothing of its types
    """A unit runs in one worker."""

    def _split_scope(self, nodeid: str) -> str:
        return unit_of(nodeid)


@attrs.define
class ModuleTimes:
    """A plugin that counts the seconds of modules, and keeps them at the end."""

    spent: dict[str, float] = attrs.Factory(dict[str, float])

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Count one part of a test."""
        module = report.nodeid.split("::")[0]
        self.spent[module] = self.spent.get(module, 0) + report.duration

    def pytest_sessionfinish(self) -> None:
        """Keep the times of the modules that ran; the others keep theirs."""
        kept = {**read_seconds(), **{module: round(spent) for module, spent in self.spent.items()}}
        table = {
            module: seconds
            for module, seconds in sorted(kept.items())
            if seconds >= KEPT_SECONDS_MIN and (TESTS.parent / module).exists()
        }
        SECONDS_FILE.write_text(json.dumps(table, indent=0) + "\n")
