"""A check and a repair of a log in which a damaged message holds records of another topic."""

from __future__ import annotations

import pytest
import trio

from damaged_stores import checked, repair
from forged_stores import FORGERY_OPTIONS, Forgery
from small_store import read_bodies
from timermq.repair.log_check import LogCheck
from timermq.repair.store_check import CheckedStore


def stopped(*, holder_count: int = 1, lost: str = "") -> Forgery:
    """The store, stopped and damaged, without the queues of some topics."""
    case = Forgery(holder_count=holder_count)
    case.stop()
    case.damage()
    for topic in lost:
        case.remove(topic)
    return case


def opened(case: Forgery) -> CheckedStore:
    """The store, to be checked."""
    return checked(case.disk, store_options=FORGERY_OPTIONS, now_ms=case.clock.time_ms)


def walked(case: Forgery) -> LogCheck:
    """A walk over its log."""
    log = opened(case).open_log(frozenset())
    list(log.run())
    log.close()
    return log


@pytest.mark.parametrize("holder_count", [1, 3])
def test_the_hole_is_the_damaged_message(holder_count: int) -> None:
    """From its beginning to the next record, whatever its body holds."""
    case = stopped(holder_count=holder_count)
    log = walked(case)

    assert [one.position for one in log.holes] == case.holders[:1]
    assert log.record_count == 5


@pytest.mark.parametrize("lost", ["", "Q"])
def test_a_repair_makes_no_message_of_it(lost: str) -> None:
    """In the place of the damaged message stands an empty one, and all others are as they were."""
    case = stopped(lost=lost)
    store = opened(case)
    left = trio.run(repair, store).left

    assert not left
    served = case.open()
    assert read_bodies(served) == ["a", "b", "c", "d"]
    assert read_bodies(served, "Q") == ["q"]
    assert read_bodies(served, "P") == [""]


def test_without_any_queue_nothing_tells() -> None:
    """What stands behind is found, and what the body holds too."""
    assert walked(stopped(lost="TPQ")).record_count == 5 + 5
