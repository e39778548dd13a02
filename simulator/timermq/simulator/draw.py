"""Draws a seed into a plan: a base, and what each kind of fault and of request adds to it.

What is added is drawn from a generator of its own: the rest of a seed's plan is what it was.
"""

from __future__ import annotations

from collections.abc import Collection

from .accepted_clocks import with_accepted_clocks
from .changed_settings import with_changing_lives
from .clock_steps import with_far_steps
from .ends_in_delivery import with_sharp_ends
from .faulty_sockets import with_rough_sockets
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
        scenario = with_accepted_clocks(with_far_steps(scenario))
    kinds = [kind for fault, kind in CRASHES.items() if fault in faults]
    scenario = with_sharp_ends(scenario, kinds, steps=FaultKind.CLOCK in faults)
    if FaultKind.NETWORK in faults:
        scenario = with_rough_sockets(scenario)
    if FaultKind.ENOSPC in faults:
        scenario = with_full_disks(scenario, ROLLS_MAX)
    if FaultKind.CLEAN in faults:
        scenario = with_cleaning(scenario)
    if FaultKind.SETTINGS in faults:
        scenario = with_changing_lives(scenario)
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
