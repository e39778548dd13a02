"""A planted bug: a change of a line or a few that breaks a promise, and what has to find it.

The list is data, in ``bugs.toml``; ``trial`` plants one of them in a copy of the sources.
"""

from __future__ import annotations

import tomllib
from pathlib import Path

import attrs
import cattrs

from timermq.simulator.scenario import FaultKind

ROOT = Path(__file__).parents[2]
LIST_PATH = Path(__file__).with_name("bugs.toml")
OPEN_PATH = Path(__file__).with_name("open.toml")
"""Bugs that nothing has been shown to find."""
PROMISES = frozenset(
    {
        "NOT_BEFORE",
        "NOT_LOST",
        "ONCE",
        "ORDERED_DURABILITY",
        "CHAINS_DESCEND",
        "BOUNDED",
        "FOLLOWS_LOG",
        "CANCEL",
        "ORDER",
        "OFFSETS",
        "ON_TIME",
        "BYTES",
        "RIGHTS",
    }
)
"""Those of docs/guarantees.md and of the rules in docs/testing.md. ON_TIME: at the millisecond that
was asked for, when nothing holds it up. BYTES: as it was sent, and no more. RIGHTS: an account
reads, changes and takes only what it has the right to."""


@attrs.frozen(kw_only=True)
class Simulated:
    """Days of the simulator, seed after seed from 1 on."""

    days: float
    faults: tuple[FaultKind, ...] = ()
    """Of one broker; replicas have their own."""
    brokers: int = 1
    lease: bool = False
    """A lease says which of several brokers leads."""


@attrs.frozen(kw_only=True)
class Judged:
    """Lives of the judge, seed after seed from 1 on."""

    seeds: int
    """Within which it has to find the bug."""


@attrs.frozen(kw_only=True)
class PlantedBug:
    """A bug: which lines it changes, and what has to find it."""

    name: str
    breaks: str
    """The promise."""
    module: str
    """Path in the repository."""
    edits: tuple[tuple[str, str], ...]
    """What stands there, once, and what stands there with the bug."""
    also: dict[str, tuple[tuple[str, str], ...]] = attrs.Factory(
        dict[str, tuple[tuple[str, str], ...]]
    )
    """The same of other modules, where one guards what another one lets pass."""
    simulator: Simulated | None = None
    judge: Judged | None = None
    tests: tuple[str, ...] = ()
    """Tests of which one has to fail, as pytest names them. One of the three has to find it."""

    def modules(self) -> list[str]:
        """Paths of all that it changes."""
        return [self.module, *self.also]

    def planted(self, source: str, module: str | None = None) -> str:
        """The source of a module with the bug.

        Args:
            source: Without it.
            module: One of ``modules``; None: the first.

        Raises:
            ValueError: What is to be changed does not stand there exactly once.
        """
        module = module or self.module
        for old, new in self.edits if module == self.module else self.also[module]:
            count = source.count(old)
            if count != 1:
                raise ValueError(
                    f"{module}: bug {self.name!r}: expected once, found {count} times: {old!r}"
                )
            source = source.replace(old, new)
        return source


def planted_bugs(path: Path = LIST_PATH) -> tuple[PlantedBug, ...]:
    """The bugs that a list in TOML names, in its order."""
    converter = cattrs.Converter(forbid_extra_keys=True)
    data = tomllib.loads(path.read_text())
    return converter.structure(data["bug"], tuple[PlantedBug, ...])
