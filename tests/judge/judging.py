"""Holds every message of one store against all rules."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import attrs

from .log_times import LogTimes
from .notebook import Letter
from .punctuality import Punctuality
from .reader import Log
from .rules import LogFacts, Rules
from .setting import Fault, Setting

SETTLE_MS = 400
"""So long before its slot a recall has to be stored to be certain."""


@attrs.frozen(kw_only=True, eq=False)
class Judging:
    """Judges the messages of one store by what its log says."""

    letters: Sequence[Letter]
    """All messages so far."""
    times: LogTimes
    setting: Setting

    def breaches(self, log: Log, found: LogFacts, *, over: bool) -> Iterator[str]:
        """What is wrong.

        Args:
            log: As it is now.
            found: What it shows.
            over: Nothing waits any more.
        """
        names = {one.position: one.name for one in log.records}
        quarantined = {names.get(at, one.name) for at, one in found.active().items()}
        rules = Rules(
            written=self.times.written,
            precision_ms=self.setting.precision_ms,
            settle_ms=SETTLE_MS,
        )
        for letter in self.letters:
            for text in rules.breaches(letter, found, quarantined, over=over):
                yield f"{letter.name}: {text}"
        if over:
            faults = self.setting.faults
            goes_back = bool({Fault.LOST_CHECKPOINT, Fault.REPAIR} & faults)
            punctuality = Punctuality(
                times=self.times,
                sync_ms=self.setting.sync_seconds * 1000,
                is_undisturbed=not {Fault.FULL, Fault.CLOCK} & faults,
                goes_back_ms=self.setting.precision_ms if goes_back else None,
            )
            for name, text in punctuality.breaches(self.letters, found):
                yield f"{name}: {text}"
