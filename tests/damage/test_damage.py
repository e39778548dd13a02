"""A drawn thousand damages of small stores: each comes out as it may, or is on the open list."""

from __future__ import annotations

import pytest

from damage.damages import Case, Damage, Kind, Wanted
from damage.open_breaches import is_open, open_breaches
from damage.outcome import Outcome, judge, without_damage
from damage.stores import NAMES, store_named
from simulation.staged_service import ROOT
from timermq.timerlog import UNIT

CHEAP = ("pending-stopped", "pending-killed", "quarantine-killed", "transactions-killed")
"""Stores that are served soonest."""
COUNT = 1_000
PARTS = 10


@pytest.mark.parametrize("name", NAMES)
def test_a_sound_store(name: str) -> None:
    """Without damage all arrives, nothing is early, and what was cancelled stays away."""
    view = without_damage(name)

    assert view.keys
    assert all(count == 1 for count in view.names.values())
    assert (0, 0) == (view.early, view.left)
    assert not any(one.startswith("c") for one in view.keys)
    assert name.startswith("quarantine") == bool(view.quarantined)


@pytest.mark.slow
@pytest.mark.parametrize("part", range(PARTS))
def test_drawn_damages(part: int) -> None:
    """None is lost, early, twice or arrives although it was cancelled; no queue shows another."""
    cases = Wanted(CHEAP).drawn(COUNT)[part::PARTS]
    broken = [
        (case.name, verdict.broken)
        for case, verdict in ((case, judge(case)) for case in cases)
        if verdict.outcome is Outcome.BREACH and not is_open(case, verdict)
    ]

    assert len(cases) == COUNT // PARTS
    assert broken == []


@pytest.mark.slow
def test_a_bit_of_each_byte_of_units_that_wait() -> None:
    """Few of its bits say where a message goes, so what is drawn may meet none of them."""
    path = f"timerlog/{0:020}"
    content = store_named("pending-stopped").image[f"{ROOT}/{path}"]
    held = range(len(content.rstrip(b"\0")))
    places = [Damage(path, Kind.FLIP, f"{byte}.0") for byte in held]
    verdicts = {one.name: judge(Case("pending-stopped", one)) for one in places}

    assert len(held) >= 3 * UNIT.size
    assert {name: one for name, one in verdicts.items() if one.outcome is not Outcome.SAME} == {}


@pytest.mark.parametrize("kind", Kind)
def test_a_damage_is_known_by_its_name(kind: Kind) -> None:
    """The name alone makes the same damage again, and it changes one file."""
    store = store_named("pending-killed")
    for case in Wanted(["pending-killed"], kinds=frozenset({kind})).drawn(20):
        image = case.damage.image(store)

        assert Case.named(case.name) == case
        changed = [path for path in store.image if image.get(path) != store.image[path]]
        assert [case.damage.path] == [path.removeprefix("/store/") for path in changed] or (
            kind is Kind.CUT and not changed
        )


def test_the_open_list_says_why() -> None:
    """Each entry has a kind that there is, and a reason."""
    for one in open_breaches():
        assert one.kind in [kind.value for kind in Kind]
        assert len(one.why) > 20
