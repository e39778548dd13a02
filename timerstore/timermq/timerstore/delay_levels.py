"""The classic delay levels as the store needs them: a text such as ``1s 5s 10s`` made into delays.

RocketMQ keeps the deliver time of a message on ``SCHEDULE_TOPIC_XXXX`` where other queue units keep
the hash of the tags, so whoever writes consume queues must know the levels.
"""

SCHEDULE_TOPIC = "SCHEDULE_TOPIC_XXXX"

UNKNOWN_LEVEL_DELAY_MS = 1000
"""Delay of a level that the table does not have
(ScheduleMessageService.computeDeliverTimestamp)."""

_UNIT_MS = {"s": 1000, "m": 60_000, "h": 3_600_000, "d": 86_400_000}


def parse_delay_levels(text: str) -> tuple[int, ...]:
    """Read a level table.

    Args:
        text: Items divided by spaces, each a whole number and one of the units s, m, h, d.

    Returns:
        The delays in milliseconds; level n stands at index n - 1.

    Raises:
        ValueError: An item is not a number and a unit.

    Source: ScheduleMessageService.parseDelayLevel.
    """
    return tuple(_parse_delay(item) for item in text.split())


def _parse_delay(item: str) -> int:
    digits, unit = item[:-1], item[-1:]
    if unit not in _UNIT_MS or not (digits.isascii() and digits.isdigit()):
        raise ValueError(f"delay level {item!r}: expected a whole number and one of s, m, h, d")
    return int(digits) * _UNIT_MS[unit]


def level_deliver_ms(levels: tuple[int, ...], level: int, store_ms: int) -> int:
    """Say when a message of a level (1 or more) that was stored at ``store_ms`` is due.

    A level above the highest counts as the highest.

    Source: CommitLog.checkMessageAndReturnSize, DefaultMessageStore.computeDeliverTimestamp.
    """
    if not levels:
        return store_ms + UNKNOWN_LEVEL_DELAY_MS
    return store_ms + levels[min(level, len(levels)) - 1]
