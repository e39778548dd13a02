"""The classic delay levels as admission needs them: how long a message of a level waits.

The adapter is all that is left of the classic schedule service here: a level becomes a moment, and
the moment goes on the wheel like any other. What the text means is the store's business.

Source: Java ``ScheduleMessageService``.
"""

from __future__ import annotations

import attrs

from timermq.timerstore.delay_levels import DelayLevelError as DelayLevelError
from timermq.timerstore.delay_levels import level_deliver_ms, parse_delay_levels
from timermq.timerstore.store_options import DEFAULT_DELAY_LEVELS


@attrs.frozen
class DelayLevels:
    """The table of delay levels, as ``message_delay_level`` gives it."""

    delays_ms: tuple[int, ...]
    """Delay of level 1, 2, … in milliseconds."""

    @classmethod
    def parse(cls, text: str = DEFAULT_DELAY_LEVELS) -> DelayLevels:
        """Read ``1s 5s … 2h``.

        Raises:
            DelayLevelError: It is no table of levels.
        """
        return cls(parse_delay_levels(text))

    @property
    def level_max(self) -> int:
        """The number of the highest level; level 1 is the lowest."""
        return len(self.delays_ms)

    def delay_ms(self, level: int) -> int:
        """Delay of ``level`` (1 and up); a level above the highest counts as the highest."""
        return level_deliver_ms(self.delays_ms, level, 0)
