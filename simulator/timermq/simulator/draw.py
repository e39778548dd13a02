"""Draws a seed into a plan: a base, and what each kind of fault and of request adds to it.

What is added is drawn from a generator of its own: the rest of a seed's plan is what it was.
"""

from __future__ import annotations

from collections.abc import Collection
from random import Random

import attrs

from .changed_settings import with_changed_settings
from .clock_steps import with_accepted_clocks, with_large_steps
from .ends_in_delivery import with_ends_in_delivery
from .plans.base_plan import CRASHES, DAY_MS, ROLLS_MAX, draw_base
from .plans.begun_plan import with_begun_stores
from .plans.bulk_plan import with_bulk_jobs
from .plans.cleaning_plan import with_cleaning
from .plans.full_disk_plan import with_full_disks, with_plain_file_systems
from .plans.poison_plan import with_poison
from .plans.read_error_plan import with_read_errors
from .plans.rest_plan import with_rests
from .plans.rot_plan import with_rots
from .plans.transaction_plan import with_delayed_transactions, with_transactions
from .scenario import FaultKind, Scenario

ALL_FAULTS = frozenset(FaultKind)
FAULTY_SOCKETS_SHARE = 0.5
"""Share of the plans whose sockets do less than they are asked for."""


def draw_scenario(
    seed: int, *, days: float = 1.0, faults: Collection[FaultKind] = ALL_FAULTS
) -> Scenario:
    """The plan of a seed.

    Args:
        seed: Decides everything.
        days: Virtual days; the last life goes on until everything has arrived.
        faults: What may go wrong.
    """
    scenario = draw_base(seed, int(days * DAY_MS), frozenset(faults))
    scenario = with_transactions(scenario)
    if FaultKind.POISON in faults:
        scenario = with_poison(scenario)
    if FaultKind.CLOCK in faults:
        scenario = with_accepted_clocks(with_large_steps(scenario))
    kinds = [kind for fault, kind in CRASHES.items() if fault in faults]
    scenario = with_ends_in_delivery(scenario, kinds, steps=FaultKind.CLOCK in faults)
    if FaultKind.NETWORK in faults:
        scenario = with_faulty_sockets(scenario)
    if FaultKind.ENOSPC in faults:
        scenario = with_full_disks(scenario, ROLLS_MAX)
    if FaultKind.CLEAN in faults:
        scenario = with_cleaning(scenario)
    if FaultKind.SETTINGS in faults:
        scenario = with_changed_settings(scenario)
    if FaultKind.DELAYED in faults:
        scenario = with_delayed_transactions(scenario)
    if FaultKind.BULK in faults:
        scenario = with_bulk_jobs(scenario)
    if FaultKind.READ in faults:
        scenario = with_read_errors(scenario)
    if FaultKind.BLOCKS in faults:
        scenario = with_plain_file_systems(scenario)
    if FaultKind.ROCKETMQ in faults:
        scenario = with_begun_stores(scenario)
    if FaultKind.ROT in faults:
        scenario = with_rots(scenario)
    # What is damaged has lost no file, and is damaged in one way only.
    return scenario if scenario.rots else with_rests(scenario, faults)


def with_faulty_sockets(scenario: Scenario) -> Scenario:
    """The plan, or the same with sockets that fall short, and small buffers on both sides of them.

    They are drawn from a generator of their own: the rest of a seed's plan is what it was.
    """
    draw = Random(f"sockets of {scenario.seed}")  # noqa: S311 - a plan, not a secret
    if draw.random() >= FAULTY_SOCKETS_SHARE:
        return scenario
    network = attrs.evolve(
        scenario.network,
        window_size=draw.choice((500, 4_096, 65_536)),
        rough=draw.choice((0.02, 0.1, 0.4)),
        breaks=draw.choice((0.0, 0.002, 0.01)),
        receive_size=draw.choice((40, 512, 65_536)),
        unread_output_size_max=draw.choice((1 << 14, 1 << 15, 64 << 20)),
    )
    return attrs.evolve(scenario, network=network)
