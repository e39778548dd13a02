"""The classic delay levels as the store needs them: a text such as ``1s 5s 10s`` made into delays.

RocketMQ keeps the deliver time of a message on ``SCHEDULE_TOPIC_XXXX`` where other queue units keep
the hash of the tags, so a writer of consume queues must know the levels.
"""

from functools import lru_cache

SCHEDULE_TOPIC = "SCHEDULE_TOPIC_XXXX"

LEVEL_COUNT_MAX = 64
"""Items of a table; RocketMQ keeps one queue a level, and no table in use has more than 30."""
DIGITS_MAX = 10
"""Of one number: any moment that such a delay leads to fits 64 bits."""

UNKNOWN_LEVEL_DELAY_MS = 1000
"""Delay of a level that the table does not have
(ScheduleMessageService.computeDeliverTimestamp)."""

_UNIT_MS = {"s": 1000, "m": 60_000, "h": 3_600_000, "d": 86_400_000}


class DelayLevelError(ValueError):
    """The level text of the configuration is not usable; the operator corrects it."""


@lru_cache(16)
def parse_delay_levels(text: str) -> tuple[int, ...]:
    """Read a level table; of one that was read before the same is given.

    Args:
        text: 1 to `LEVEL_COUNT_MAX` items divided by spaces, each a whole number of at most
            `DIGITS_MAX` digits and one of the units s, m, h, d.

    Returns:
        The delays in milliseconds; level n stands at index n - 1.

    Raises:
        DelayLevelError: No item, too many, or one of another form.

    Source: ScheduleMessageService.parseDelayLevel.
    """
    items = text.split()
    if not 1 <= len(items) <= LEVEL_COUNT_MAX:
        raise DelayLevelError(
            f"delay levels: expected 1 to {LEVEL_COUNT_MAX} items, found {len(items)}"
        )
    return tuple(_parse_delay(item) for item in items)


def _parse_delay(item: str) -> int:
    digits, unit = item[:-1], item[-1:]
    is_number = digits.isascii() and digits.isdigit() and len(digits) <= DIGITS_MAX
    if unit not in _UNIT_MS or not is_number:
        raise DelayLevelError(
            f"delay level {item[:64]!r}: expected a whole number and one of s, m, h, d"
        )
    return int(digits) * _UNIT_MS[unit]


def level_deliver_ms(levels: tuple[int, ...], level: int, store_ms: int) -> int:
    """Say when a message of a level (1 or more) that was stored at ``store_ms`` is due.

    A level above the highest counts as the highest.

    Source: CommitLog.checkMessageAndReturnSize, DefaultMessageStore.computeDeliverTimestamp.
    """
    if not levels:
        return store_ms + UNKNOWN_LEVEL_DELAY_MS
    return store_ms + levels[min(level, len(levels)) - 1]
