"""Says how far many seeds are, on standard error: a bar on a terminal, else a line now and then."""

from __future__ import annotations

from collections import Counter
from types import TracebackType
from typing import Self

import attrs
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeRemainingColumn
from rich.progress import Progress as Bar

from .plans.base_plan import DAY_MS
from .seeds import SeedResult

SEEDS_A_LINE = 25
"""Seeds between two lines, where there is no terminal."""


@attrs.define
class Tally:
    """The results of the seeds that have been run."""

    seeds: int = 0
    virtual_ms: int = 0
    crashes: int = 0
    operations: int = 0
    cpu_ms: int = 0
    broken: int = 0
    counts: Counter[str] = attrs.field(factory=Counter[str])
    """The events by name, and their counts."""

    def add(self, result: SeedResult) -> None:
        """Add the result of one more seed."""
        self.seeds += 1
        self.virtual_ms += result.virtual_ms
        self.crashes += result.crashes
        self.operations += result.operations
        self.cpu_ms += result.cpu_ms
        self.broken += bool(result.faults)
        self.counts.update(result.counts)

    def words(self) -> str:
        """All of it in one line."""
        return (
            f"{self.seeds} seeds, {self.virtual_ms / DAY_MS:.1f} virtual days, {self.crashes} "
            f"crashes, {self.operations} operations, {self.cpu_ms / 1000:.0f} s of the processor "
            f"with {self.operations * 1000 // max(self.cpu_ms, 1)} operations in each, "
            f"{self.broken} broken"
        )


class Progress:
    """Shown while its block runs.

    Args:
        total: Seeds that there will be.
        console: Where it is shown.
    """

    def __init__(self, total: int, console: Console) -> None:
        self.tally = Tally()
        self._console = console
        self._bar = Bar(
            TextColumn("seeds"),
            BarColumn(),
            MofNCompleteColumn(),
            TimeRemainingColumn(),
            TextColumn("{task.description}"),
            console=console,
            transient=True,
            disable=not console.is_terminal,
        )
        self._task = self._bar.add_task("", total=total)

    def __enter__(self) -> Self:
        self._bar.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._bar.stop()

    def add(self, result: SeedResult) -> None:
        """Show that one more is done."""
        tally = self.tally
        tally.add(result)
        words = f"{tally.crashes} crashes, {tally.operations} operations, {tally.broken} broken"
        self._bar.update(self._task, advance=1, description=words)
        if not self._console.is_terminal and tally.seeds % SEEDS_A_LINE == 0:
            self.tell(tally.words())

    def tell(self, text: str) -> None:
        """Say something at once, above the bar."""
        line = f"timermq: simulate: {text}"
        self._console.print(line, markup=False, highlight=False, soft_wrap=True)
