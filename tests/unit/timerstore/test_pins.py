"""Pins: each owner's need counts, in whatever order they came to be, and is told by its name."""

from __future__ import annotations

import itertools
from functools import partial

import pytest
from structlog.testing import capture_logs

from small_store import SEGMENT_SIZE
from timermq.simulator.disks.memory_disk import MemoryDisk
from timermq.timerstore.cleaning import HOUR_MS
from timermq.timerstore.pins import Pins
from timermq.timerstore.queue_register import QueueRegister
from unit.timerstore.test_cleaning import Rig

NEEDS = {"timers": 700, "transactions": 300, "bulk jobs": None, "others": 500}


def pins_of(*owners: str) -> Pins:
    """The pins of owners that came to be in this order."""
    pins = Pins(QueueRegister(MemoryDisk(), "/store"))
    for owner in owners:
        pins.add(owner, partial(NEEDS.__getitem__, owner))
    return pins


def test_no_order_of_construction_loses_a_pin() -> None:
    """None wraps another: the lowest is the lowest, and each has its name."""
    for owners in itertools.permutations(NEEDS):
        pins = pins_of(*owners)

        assert pins.lowest() == 300
        assert pins.needed() == {"timers": 700, "transactions": 300, "others": 500}


def test_owners_that_need_nothing_pin_nothing() -> None:
    """Nor does a store without owners."""
    assert pins_of("bulk jobs").lowest() is None
    assert pins_of().lowest() is None


def test_each_need_is_asked_for_anew() -> None:
    """A pin cannot be out of date."""
    places = [5]
    pins = pins_of()
    pins.add("timers", lambda: places[0])
    places[0] = 9

    assert pins.lowest() == 9


def test_an_owner_has_one_pin() -> None:
    """A second one of the name would hide that the store is served twice."""
    pins = pins_of("timers")

    with pytest.raises(ValueError, match="expected one pin of 'timers', found another"):
        pins.add("timers", lambda: None)


def test_the_log_tells_who_keeps_old_segments() -> None:
    """Once, until it is another one; not while nothing would go anyway."""
    rig = Rig()
    needs = {"timers": SEGMENT_SIZE + 1, "transactions": 2 * SEGMENT_SIZE}
    for owner in needs:
        rig.store.pins.add(owner, partial(needs.__getitem__, owner))
    with capture_logs() as logs:
        rig.clean()
        rig.clock.time_ms += 72 * HOUR_MS
        rig.clean()
        rig.clean()
        needs["timers"] = 4 * SEGMENT_SIZE
        rig.clean()

    told = [(one["owner"], one["needed_from"]) for one in logs if "owner" in one]
    assert told == [("timers", SEGMENT_SIZE + 1), ("transactions", 2 * SEGMENT_SIZE)]
