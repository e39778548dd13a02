"""Settings of the timer service, in RocketMQ's words and with its defaults.

Source: Java ``MessageStoreConfig`` (the ``timer…`` keys).
"""

from __future__ import annotations

import attrs
from attrs import validators

from timermq.timerstore.delay_levels import parse_delay_levels
from timermq.timerstore.live_setting import LIVE
from timermq.timerstore.store_options import DEFAULT_DELAY_LEVELS

SLOTS_TOTAL = 7 * 86_400
"""Slots of the wheel's reach, whatever the precision; the file holds twice as many."""

PRECISIONS_MS = (100, 200, 500, 1000)
"""Widths that a slot may have."""

ROLL_WINDOW_MARGIN = 60
CONGEST_OFF = 2**31 - 1


def _precision(_: object, attribute: attrs.Attribute[int], value: int) -> None:
    if value not in PRECISIONS_MS:
        raise ValueError(f"{attribute.name}: expected 100, 200, 500 or 1000, found {value}")


def _levels(_: object, _attribute: attrs.Attribute[str], text: str) -> None:
    parse_delay_levels(text)


@attrs.define(kw_only=True, on_setattr=attrs.setters.frozen)
class TimerOptions:
    """How the timer service works; values outside their range are refused with ``ValueError``.

    All that is not ``LIVE`` is frozen.
    """

    timer_wheel_enable: bool = True
    """False: what producers ask for by TIMER_ properties is refused. Levels and the tries of groups
    work, as RocketMQ's do without a wheel; here they go by the wheel all the same."""
    timer_precision_ms: int = attrs.field(default=1000, validator=_precision)
    """Width of a slot. Delivery is exact to the millisecond whatever it is."""
    timer_roll_window_slot: int = attrs.field(
        default=172_800, validator=validators.and_(validators.ge(3))
    )
    """Slots; a timer that lies further ahead is rolled: enqueued again on the way. Of fewer than 3
    a roll could only go into the target's own slot."""
    timer_max_delay_sec: int = attrs.field(
        default=259_200,
        validator=validators.and_(validators.ge(1), validators.le(10 * 365 * 86_400)),
        on_setattr=LIVE,
    )
    """Seconds; exactly the maximum is allowed."""
    timer_flush_interval_ms: int = attrs.field(default=1000, validator=validators.ge(1))
    timer_congest_num_each_slot: int = attrs.field(
        default=CONGEST_OFF,
        validator=validators.and_(validators.ge(1), validators.le(CONGEST_OFF)),
        on_setattr=LIVE,
    )
    """Messages a slot takes before some are refused; twice as many: all. Default: off."""
    mapped_file_size_timer_log: int = attrs.field(
        default=104_857_600, validator=validators.and_(validators.ge(120), validators.le(2**31 - 1))
    )
    """Bytes of a timer-log segment."""
    message_delay_level: str = attrs.field(default=DEFAULT_DELAY_LEVELS, validator=_levels)
    leave_timer_properties: bool = False
    """Delivered messages have the properties that RocketMQ leaves on them, for programs that read
    them (``timer_properties.LEFT_NAMES``). They are removed from messages that are sent, which may
    be forwarded ones. Due messages are then written one by one."""

    slots_total: int = attrs.field(default=SLOTS_TOTAL, validator=validators.ge(1))
    """Half the ring. RocketMQ opens only the default; small wheels are for tests."""
    read_ahead_ms: int = attrs.field(default=100, validator=validators.ge(0))
    """How long before its first millisecond a slot is read."""
    clock_check_interval_ms: int = attrs.field(default=1000, validator=validators.ge(1))
    """Longest sleep between two looks at the wall clock: a step forward is noticed within it."""
    clock_step_max_ms: int = attrs.field(default=3_600_000, validator=validators.ge(1_000))
    """A wall clock that jumps further, either way, is UNSAFE. What became due by a longer jump
    forward is held back for ``clock_doubt_ms``."""
    clock_doubt_ms: int = attrs.field(default=600_000, validator=validators.ge(0))
    """How long a longer jump forward has to stand until it is believed without an operator; 0: at
    once, as RocketMQ does."""
    enqueue_batch_count_max: int = attrs.field(default=1024, validator=validators.ge(1))
    """Messages that the enqueue stages handle between two checkpoints."""
    enqueue_linger_ms: int = attrs.field(
        default=20, validator=validators.and_(validators.ge(0), validators.le(50))
    )
    """How long a batch of messages that are not due soon (`timer_state.URGENT_MS`) may grow before
    it is linked."""
    deliver_batch_count_max: int = attrs.field(default=1024, validator=validators.ge(1))
    """Messages written by one append when they are due."""
    deliver_batch_size_max: int = attrs.field(default=524_288, validator=validators.ge(1))
    """Bytes of bodies read for one batch of due messages; a larger message goes alone."""
    slot_units_max: int = attrs.field(default=1 << 18, validator=validators.ge(1))
    """Units of one slot held in memory at a time (44 bytes each); more are read in passes. Twice as
    many are sorted at once, and nothing else is done meanwhile: a fifth of a second."""
    open_slots_max: int = attrs.field(default=32, validator=validators.ge(1))
    """Slots that are read at the same time while one of them holds more than is delivered in time:
    so many seconds of a burst keep no other topic waiting. All but the first together hold about
    ``slot_units_max``."""
    retry_interval_ms: int = attrs.field(default=500, validator=validators.ge(1))
    """Pause before a due message is put again after the store could not take it."""

    @property
    def roll_window_ms(self) -> int:
        """The roll window in milliseconds, kept within the wheel's reach as RocketMQ does."""
        reach = self.slots_total - ROLL_WINDOW_MARGIN
        slots = self.timer_roll_window_slot
        if reach >= 2:
            slots = min(slots, reach)
        return slots * self.timer_precision_ms
