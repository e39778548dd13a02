"""Plans of faults: which operations on a disk fail, and how often."""

from __future__ import annotations

import errno
from random import Random

import pytest

from timermq.simulator.disks.fault_plan import (
    Access,
    Fault,
    FaultDraw,
    FaultRule,
    FaultRules,
    Operation,
    no_faults,
)
from timermq.timerstore.file_family import FileFamily

FAMILY, OTHER = list(FileFamily)[:2]


def access(operation: Operation = Operation.WRITE, path: str = "/s/a", size: int = 9) -> Access:
    """An operation on a file of a family."""
    return Access(operation, path, FAMILY, size=size)


@pytest.mark.parametrize(
    ("rule", "strikes"),
    [
        (FaultRule(operations=[Operation.WRITE]), True),
        (FaultRule(operations=[Operation.READ]), False),
        (FaultRule(operations=[Operation.WRITE], families=[OTHER]), False),
        (FaultRule(operations=[Operation.WRITE], name="/a"), True),
        (FaultRule(operations=[Operation.WRITE], name="/b"), False),
    ],
)
def test_a_rule_strikes_what_it_speaks_of(rule: FaultRule, *, strikes: bool) -> None:
    """Operation, family and a part of the path."""
    assert rule.strikes(access()) == strikes


def test_a_rule_skips_and_counts_only_what_it_speaks_of() -> None:
    """Other operations do not use it up."""
    rule = FaultRule(operations=[Operation.WRITE], skip=1, count=2)
    others = [rule.strikes(access(Operation.READ)) for _ in range(5)]

    assert others == [False] * 5
    assert [rule.strikes(access()) for _ in range(5)] == [False, True, True, False, False]


def test_a_rule_without_a_count_strikes_until_it_is_healed() -> None:
    """The disk has room again then."""
    rule = FaultRule(operations=[Operation.WRITE], count=None)
    rules = FaultRules(rule)
    assert [rules(access()) is not None for _ in range(3)] == [True] * 3
    rules.heal()

    assert rules(access()) is None


def test_the_first_rule_that_strikes_decides() -> None:
    """What was struck is kept, so that a test sees that its faults were met."""
    full = Fault(errno.ENOSPC)
    rules = FaultRules(
        FaultRule(operations=[Operation.READ]),
        FaultRule(operations=[Operation.WRITE], fault=full),
        FaultRule(operations=[Operation.WRITE]),
    )
    found = [rules(access()), rules(access()), rules(access())]

    assert found == [full, Fault(), None]
    assert rules.struck == [access(), access()]


def test_a_seed_decides_by_chances() -> None:
    """Of each operation its own; a write that fails may be a short one, others never are."""
    chances = {Operation.WRITE: 1.0, Operation.SYNC: 1.0, Operation.READ: 0.0}
    plan = FaultDraw(Random(3), chances, error=errno.ENOSPC)
    writes = [plan(access(size=4)) for _ in range(40)]

    assert {one.written for one in writes if one is not None} == {0, 1, 2, 3, 4}
    assert plan(access(Operation.SYNC)) == Fault(errno.ENOSPC)
    assert plan(access(Operation.READ)) is None
    assert plan(access(Operation.OPEN)) is None
    assert len(plan.struck) == 41


def test_the_same_seed_strikes_the_same_operations() -> None:
    """So a failure is seen again; other families take no draws."""
    found = list[list[bool]]()
    for families in ([FAMILY], [OTHER]):
        plan = FaultDraw(Random(5), {Operation.WRITE: 0.5}, families=families)
        found.append([plan(access()) is not None for _ in range(20)])
    again = FaultDraw(Random(5), {Operation.WRITE: 0.5}, families=[FAMILY])

    assert found[0] == [again(access()) is not None for _ in range(20)]
    assert {*found[0]} == {True, False}
    assert found[1] == [False] * 20
    assert no_faults(access()) is None
