"""Which seeds and faults ``simulate`` is asked for."""

from __future__ import annotations

import argparse

import pytest

from timermq.cli.arguments import OneLineParser, UsageError
from timermq.cli.simulate import prepare_parser, run
from timermq.simulator.draw import ALL_FAULTS
from timermq.simulator.scenario import FaultKind


def asked(*words: str) -> argparse.Namespace:
    """The arguments of the verb."""
    parser = OneLineParser(prog="simulate")
    prepare_parser(parser)
    return parser.parse_args(list(words))


@pytest.mark.parametrize(
    ("text", "seeds"),
    [("7", range(7, 8)), ("0..0", range(1)), ("3..5", range(3, 6)), ("007", range(7, 8))],
)
def test_seeds_are_one_or_from_the_first_to_the_last(text: str, seeds: range) -> None:
    """Both ends are among them."""
    assert asked("--seeds", text).seeds == seeds


@pytest.mark.parametrize("text", ["", "x", "-1", "1..", "..5", "5..3", "1..2..3", "9" * 19, "²"])
def test_other_texts_are_no_seeds(text: str) -> None:
    """A seed is a plain number that a report can name."""
    with pytest.raises(UsageError, match=r"expected (N or )?A\.\.B"):
        asked(f"--seeds={text}")


@pytest.mark.parametrize(
    ("text", "faults"),
    [
        ("none", frozenset[FaultKind]()),
        ("kill", frozenset({FaultKind.KILL})),
        ("kill, clock", frozenset({FaultKind.KILL, FaultKind.CLOCK})),
    ],
)
def test_faults_are_kinds_divided_by_commas(text: str, faults: frozenset[FaultKind]) -> None:
    """Without the flag all of them are drawn."""
    assert asked("--faults", text).faults == faults
    assert asked().faults == ALL_FAULTS


def test_an_unknown_fault_is_named() -> None:
    """An operator sees which word is wrong."""
    with pytest.raises(UsageError, match="'fire' is not a valid FaultKind"):
        asked("--faults", "kill,fire")


def test_brokers_are_one_two_or_three() -> None:
    """One, unless replicas are asked for."""
    assert [asked().brokers, asked("--brokers", "2").brokers] == [1, 2]
    with pytest.raises(UsageError):
        asked("--brokers", "4")


def test_a_lease_is_for_several_brokers() -> None:
    """One broker leads without any lease."""
    with pytest.raises(UsageError, match="--lease: expected --brokers 2 or 3"):
        run(asked("--lease"))
