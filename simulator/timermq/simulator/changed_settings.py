"""Lives whose settings differ, and stores that are repaired between two of them.

An operator changes a setting and starts the broker again; what the files hold was made with the
setting before. Sizes of files stay: a store with other ones is refused.
"""

from __future__ import annotations

from random import Random

import attrs

from timermq.timerstore.store_options import FlushDiskType

from .scenario import Life, Scenario, Settings

SHARE = 0.5
"""Share of the plans in which settings change."""
LIFE_SHARE = 0.6
"""Share of the processes of these plans that have settings of their own."""
FLUSH_SHARE = 0.3
"""Share of these plans in which processes may flush differently. Then only what both ways of
flushing promise is judged."""
REPAIR_SHARE = 0.25
"""Share of all processes before which the store is repaired."""


def with_changed_settings(scenario: Scenario) -> Scenario:
    """The plan, or the same with other settings in some lives.

    They are drawn from a generator of their own: the rest of a seed's plan is what it was.
    """
    draw = Random(f"changing lives of {scenario.seed}")  # noqa: S311 - a plan, not a secret
    is_changing, flushes = draw.random() < SHARE, draw.random() < FLUSH_SHARE
    lives: list[Life] = []
    for life in scenario.lives:
        repaired = draw.random() < REPAIR_SHARE
        settings = None
        if is_changing and draw.random() < LIFE_SHARE:
            settings = _draw_settings(draw, scenario, flushes=flushes)
        lives.append(attrs.evolve(life, settings=settings, is_repaired=repaired))
    return attrs.evolve(scenario, lives=tuple(lives))


def _draw_settings(draw: Random, scenario: Scenario, *, flushes: bool) -> Settings:
    store, timer = scenario.store, scenario.timer
    # The window is never smaller than the plan's: each roll costs time of the simulation.
    window = timer.timer_roll_window_slot
    windows = (window, max(window, min(2 * window, timer.slots_total // 2)))
    return Settings(
        store=attrs.evolve(
            store,
            flush_disk_type=draw.choice(list(FlushDiskType)) if flushes else store.flush_disk_type,
            file_reserved_time_hours=draw.choice((store.file_reserved_time_hours, 87_600)),
            flush_interval_consume_queue_ms=draw.choice((300, 5_000)),
            index_flush_interval_ms=draw.choice((500, 30_000)),
            delete_file_batch_max=draw.choice((1, 10)),
        ),
        timer=attrs.evolve(
            timer,
            timer_roll_window_slot=draw.choice(windows),
            read_ahead_ms=draw.choice((0, 100, 300)),
            enqueue_linger_ms=draw.choice((0, 20)),
            enqueue_batch_count_max=draw.choice((1, 3, 1_024)),
            deliver_batch_count_max=draw.choice((1, 3, 256)),
            slot_units_max=draw.choice((2, 50, 1 << 20)),
            open_slots_max=draw.choice((1, 3, 32)),
        ),
    )
