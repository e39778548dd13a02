"""Breaches that are known and not mended yet: what is listed in open.toml."""

from __future__ import annotations

import tomllib
from fnmatch import fnmatchcase
from functools import cache
from pathlib import Path

import attrs

from .damages import Case
from .outcome import Verdict

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

    def covers(self, case: Case, broken: str) -> bool:
        """Whether this is what is broken in a case."""
        is_named = fnmatchcase(case.name, self.name) and self.kind == case.damage.kind.value
        return is_named and broken.startswith(self.outcome)


@cache
def open_breaches() -> tuple[OpenBreach, ...]:
    """The list."""
    listed = tomllib.loads(LIST_PATH.read_text()).get("breach", [])
    return tuple(OpenBreach(**one) for one in listed)


def is_open(case: Case, verdict: Verdict) -> bool:
    """Whether all that is broken in a case is known."""
    return all(
        any(one.covers(case, broken) for one in open_breaches()) for broken in verdict.broken
    )
