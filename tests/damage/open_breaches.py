"""Breaches that are known and not repaired yet: what is listed in open.toml."""

from __future__ import annotations

import tomllib
from fnmatch import fnmatchcase
from functools import cache
from pathlib import Path

import attrs

from simulation.staged_service import ROOT
from timermq.simulator.disks.memory_node import SECTOR_SIZE
from timermq.timerstore.file_family import FileFamily
from timermq.timerstore.store_checkpoint import StoreCheckpoint

from .damages import Case
from .outcome import Verdict
from .process import FILES
from .stores import store_named

LIST_PATH = Path(__file__).with_name("open.toml")


@attrs.frozen
class OpenBreach:
    """One entry of the list."""

    name: str
    """Pattern of the names of cases."""
    kind: str
    """Kind of the damage."""
    outcome: str
    """How what is broken begins."""
    why: str
    tail: bool = False
    """Only damage behind what the checkpoint of a killed store knows to be durable."""

    def covers(self, case: Case, broken: str) -> bool:
        """Whether this is what is broken in a case."""
        is_named = fnmatchcase(case.name, self.name) and self.kind == case.damage.kind.value
        is_there = is_named and (not self.tail or is_of_tail(case))
        return is_there and broken.startswith(self.outcome)


def is_of_tail(case: Case) -> bool:
    """Whether the log is damaged behind what the checkpoint knows to be durable."""
    if case.damage.family is not FileFamily.COMMIT_LOG or not case.store.endswith("-killed"):
        return False
    page = store_named(case.store).image[f"{ROOT}/checkpoint"]
    durable_py = StoreCheckpoint.decode(page).durable_py or 0
    last = max(case.damage.sectors(FILES.mapped_file_size_commit_log))
    return last + SECTOR_SIZE > durable_py


@cache
def open_breaches() -> tuple[OpenBreach, ...]:
    """The breaches that open.toml lists, in its order."""
    listed = tomllib.loads(LIST_PATH.read_text()).get("breach", [])
    return tuple(OpenBreach(**one) for one in listed)


def is_open(case: Case, verdict: Verdict) -> bool:
    """Whether all that is broken in a case is known."""
    return all(
        any(one.covers(case, broken) for one in open_breaches()) for broken in verdict.broken
    )
