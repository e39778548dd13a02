"""The classic delay levels: ``messageDelayLevel`` text to delays in milliseconds.

Level n is the n-th word of the text, counted from 1. The adapter is all that is left of the classic
schedule service here: a level becomes a moment, and the moment goes on the wheel like any other.

Source: Java ``ScheduleMessageService.parseDelayLevel``.
"""

from __future__ import annotations

import re

import attrs

DEFAULT_LEVELS = "1s 5s 10s 30s 1m 2m 3m 4m 5m 6m 7m 8m 9m 10m 20m 30m 1h 2h"
LEVEL_COUNT_MAX = 64
"""Words in the text; RocketMQ keeps one queue a level, and no table in use has more than 30."""

_UNIT_MS = {"s": 1_000, "m": 60_000, "h": 3_600_000, "d": 86_400_000}
_WORD = re.compile(r"([0-9]{1,10})([smhd])")


class DelayLevelError(ValueError):
    """The level text of the configuration is not usable; the operator corrects it."""


@attrs.frozen
class DelayLevels:
    """A parsed table of levels."""

    delays_ms: tuple[int, ...]
    """Delay of level 1, 2, … in milliseconds."""

    @classmethod
    def parse(cls, text: str = DEFAULT_LEVELS) -> DelayLevels:
        """Read ``1s 5s … 2h``: words of digits and a unit s, m, h or d.

        Raises:
            DelayLevelError: No word, too many words, or a word of another form.
        """
        words = text.split()
        if not 1 <= len(words) <= LEVEL_COUNT_MAX:
            raise DelayLevelError(
                f"messageDelayLevel: expected 1 to {LEVEL_COUNT_MAX} levels, found {len(words)}"
            )
        return cls(tuple(_delay_ms(level, word) for level, word in enumerate(words, start=1)))

    @property
    def level_max(self) -> int:
        """The highest level."""
        return len(self.delays_ms)

    def delay_ms(self, level: int) -> int:
        """Delay of ``level`` (1 and up); a level above the highest counts as the highest."""
        return self.delays_ms[min(level, self.level_max) - 1]


def _delay_ms(level: int, word: str) -> int:
    match = _WORD.fullmatch(word)
    if match is None:
        raise DelayLevelError(
            f"messageDelayLevel: level {level}: expected digits and one of s m h d, found {word!r}"
        )
    return int(match[1]) * _UNIT_MS[match[2]]
