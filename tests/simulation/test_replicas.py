"""Simulated replicas: seeds keep every promise, and meet what they are drawn for."""

from __future__ import annotations

from collections import Counter
from functools import cache

import pytest

from timermq.client.history import Ack, Deliver
from timermq.simulator.outcome import Outcome
from timermq.simulator.replicas.replica_plan import draw_replicas
from timermq.simulator.run import simulate

DAYS = 0.005
"""As long as one burst."""
PAIRS = (1, 4, 5, 10, 19)
TRIOS = (9, 15)
LEASED = (4, 8, 10, 13)
"""Pairs that lead by a lease. 10: the master that lost it has pulls held, and records of its own
alone. 13: a broker that led alone is started again, and takes the lease."""
ROLLING = (4, 39)
"""Pairs whose messages go round the wheel: a follower has some of them in other slots."""


@cache
def outcome_of(seed: int, brokers: int) -> Outcome:
    """What becomes of a fixed seed, in any number of tests."""
    return simulate(draw_replicas(seed, brokers=brokers, days=DAYS))


@pytest.mark.parametrize(
    ("seed", "brokers"), [*((one, 2) for one in PAIRS), *((one, 3) for one in TRIOS)]
)
def test_a_fixed_seed_keeps_every_promise(seed: int, brokers: int) -> None:
    """Nothing is lost, early or twice but what may be; and the logs of all are equal in the end."""
    assert () == outcome_of(seed, brokers).faults


@pytest.mark.parametrize("seed", ROLLING)
def test_messages_that_go_round_the_wheel_arrive_once(seed: int) -> None:
    """A promotion rolls and delivers nothing that the master has rolled."""
    outcome = simulate(draw_replicas(seed, brokers=2, days=DAYS, rolls=True))

    assert outcome.counts["replicas: promotions"]
    assert () == outcome.faults


def test_a_step_that_a_killed_process_takes_yet_is_none_of_the_broker() -> None:
    """A task that was to go on when its process ended finds its files closed."""
    assert () == simulate(draw_replicas(72, brokers=2, days=4 * DAYS)).faults


@pytest.mark.parametrize("seed", LEASED)
def test_a_lease_has_one_lead_and_nothing_is_lost(seed: int) -> None:
    """While one broker leads no other one writes, and consumers see what two have."""
    outcome = simulate(draw_replicas(seed, brokers=2, days=DAYS, has_lease=True))

    assert outcome.counts["replicas: batches judged by the lease"]
    assert () == outcome.faults


def test_three_brokers_by_a_lease() -> None:
    """Two of them are in sync with one that leads."""
    assert () == simulate(draw_replicas(1, brokers=3, days=DAYS, has_lease=True)).faults


def test_the_seeds_meet_what_befalls_replicas() -> None:
    """Messages are sent and arrive, masters are lost, followers lead, and records are cut off."""
    outcomes = [outcome_of(one, 2) for one in PAIRS]
    counts = sum((Counter(one.counts) for one in outcomes), Counter[str]())
    events = Counter(type(event) for one in outcomes for event in one.events)

    assert events[Ack]
    assert events[Deliver]
    assert counts["replicas: promotions"]
    assert counts["replicas: messages with lost records"]
    assert {one.scenario.is_confirmed for one in outcomes} == {True, False}  # type: ignore[union-attr]


def test_the_same_seed_is_the_same_history() -> None:
    """Byte for byte, whatever ran before it in the process."""
    again = simulate(draw_replicas(1, brokers=2, days=DAYS))

    assert outcome_of(1, 2).digest == again.digest
