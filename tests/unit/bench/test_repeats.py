"""Of several repeats of a question one counts, and says what the others found."""

from __future__ import annotations

from functools import partial

from timermq.bench.question import Figure, Load
from timermq.bench.repeats import ask_repeatedly, least_disturbed


def rate(value: float, cpu_us: float) -> Figure:
    """A rate as it is answered."""
    return Figure(
        question="steady",
        value=value,
        unit="msg/core-s",
        floor=60_000,
        more_is_better=True,
        facts={"cpu_us": cpu_us},
    )


def test_the_least_disturbed_repeat_counts() -> None:
    """The one with the least CPU: a slow calibration beside more of it is worth nothing."""
    repeats = [rate(40_000, 30.0), rate(61_000, 20.0), rate(70_000, 35.0)]

    best = least_disturbed(repeats).to_json()

    assert (61_000, 20.0, True) == (best["value"], best["cpu_us"], best["passes"])
    assert [40_000, 61_000, 70_000] == best["asked"]
    assert repeats[0].to_json() == least_disturbed(repeats[:1]).to_json()


def test_lateness_is_chosen_as_it_was_seen() -> None:
    """A sleeper that was disturbed makes no message less late."""
    repeats = [
        Figure(question="lateness", value=value, unit="ms", floor=10, facts={"p99_ms": p99_ms})
        for value, p99_ms in ((2.0, 30.0), (5.0, 9.0))
    ]

    assert 5.0 == least_disturbed(repeats).value


def test_one_early_message_is_not_outdone() -> None:
    """What must not happen at all counts if it happened in any of the repeats."""
    repeats = [Figure(question="early", value=value, unit="messages", floor=0) for value in (0, 1)]

    assert (1, False) == (least_disturbed(repeats).value, least_disturbed(repeats).passes)


def test_quick_questions_are_asked_round_by_round() -> None:
    """Minutes lie between two repeats of one; those that take long are asked once."""
    told: list[str] = []

    def ask(name: str, _: Load) -> list[Figure]:
        return [Figure(question=name, value=len(told) + 1, unit="s")]

    answers = ask_repeatedly(
        {name: partial(ask, name) for name in ("steady", "idle", "burst")},
        Load(),
        2,
        lambda figure: told.append(figure.question),
    )

    assert ["steady", "idle", "burst", "steady", "burst"] == told
    assert [("steady", (1, 4)), ("idle", (2,)), ("burst", (3, 5))] == [
        (answer.question, answer.asked) for answer in answers
    ]
