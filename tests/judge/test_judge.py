"""Drawn lives of a store, judged by what its log says; and whether they meet what they are for."""

from __future__ import annotations

import functools
from collections import Counter

import pytest
import structlog

from .__main__ import quieten, story
from .leading import Outcome, lead

BLOCK = 25
"""Seeds of one test: some seconds."""
BLOCKS = 12

LEAST = {
    "lives": 900,
    "kills": 200,
    "power cuts": 25,
    "power cuts, torn": 50,
    "stopped in order": 300,
    "lives that cleaned": 100,
    "lost at the end of the log": 10,
    "deliveries undone": 3,
    "rolls": 3_000,
    "moved": 100,
    "recalls": 20,
    "verdict cancelled": 100,
    "verdict too_late": 100,
    "verdict not_found": 50,
    "left out with a mark": 50,
    "refused for want of room": 300,
    "sends refused": 50,
    "clock set ahead": 30,
    "clock set back": 30,
    "rewinds": 10,
    "lost checkpoint": 10,
    "lost wheel": 20,
    "lost timer log": 20,
    "repairs": 25,
    "damaged": 10,
    "quarantined": 8,
    "dropped": 3,
    "retries": 10,
    "retries that succeed": 2,
    "pounces": 250,
    "unique keys used again": 50,
    "verdicts on several": 25,
    "rows of bulk jobs": 80,
}
"""What all blocks together have to meet: lives that never clean prove nothing about cleaning."""


@functools.cache
def led(block: int) -> tuple[Outcome, ...]:
    """What came of the seeds of a block."""
    before = structlog.get_config()
    quieten()
    try:
        first = 1 + block * BLOCK
        return tuple(lead(seed) for seed in range(first, first + BLOCK))
    finally:
        structlog.configure(**before)


@pytest.mark.slow
@pytest.mark.parametrize("block", range(BLOCKS))
def test_no_rule_is_broken(block: int) -> None:
    """No message is lost, early, twice, or there although it was cancelled."""
    broken = [one for one in led(block) if one.breaches]
    assert not broken, "\n\n".join(story(one) for one in broken)


@pytest.mark.slow
def test_the_lives_meet_what_they_are_for() -> None:
    """Every kind of trouble comes often enough."""
    met: Counter[str] = Counter()
    for block in range(BLOCKS):
        for one in led(block):
            met += one.coverage
    assert {} == {what: met[what] for what, least in LEAST.items() if met[what] < least}


@pytest.mark.parametrize("seed", [3, 11])
def test_a_seed_has_one_history(seed: int) -> None:
    """Two runs of a seed have the same history, byte for byte."""
    assert lead(seed) == lead(seed)


def test_what_has_left_a_slot_that_is_not_over() -> None:
    """It counts as waiting where the clock was set back by more than is waited for in the end."""
    outcome = lead(17_822)

    assert outcome.coverage["clock set back"] == 2
    assert outcome.breaches == ()
