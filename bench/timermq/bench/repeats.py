"""Several repeats of each question, of which the one counts that other work disturbed least."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import attrs

from .question import Figure, Load, Question

REPEATS = 3
"""Repeats of a quick question: on a shared machine one alone tells as much about its neighbours."""
ASKED_ONCE = frozenset({"pending", "idle"})
"""Questions that take minutes, or are not touched by what else goes on."""

Tell = Callable[[Figure], object]


def ask_repeatedly(
    questions: Mapping[str, Question], load: Load, repeats: int, tell: Tell
) -> list[Figure]:
    """The answers, in the order of the questions.

    Args:
        questions: By their names.
        load: What each is asked with.
        repeats: How often the quick ones are asked, at least 1.
        tell: Hears each single answer as it is given.
    """
    rounds = [_ask_all(questions, load, tell)]
    quick = {name: ask for name, ask in questions.items() if name not in ASKED_ONCE}
    # Round by round: the minutes between two repeats are more than a bad moment lasts.
    rounds += [_ask_all(quick, load, tell) for _ in range(repeats - 1)]
    return [
        least_disturbed([found[name] for found in rounds if name in found]) for name in rounds[0]
    ]


def least_disturbed(repeats: Sequence[Figure]) -> Figure:
    """One of the repeats, with the values of all.

    Of what must not happen at all, the worst: other work does not bring it about.
    """
    if repeats[0].floor == 0:
        chosen = max(repeats, key=lambda figure: figure.value)
    else:
        chosen = min(repeats, key=_disturbed)
    return attrs.evolve(chosen, asked=tuple(figure.value for figure in repeats))


def _ask_all(questions: Mapping[str, Question], load: Load, tell: Tell) -> dict[str, Figure]:
    """Ask each once; the figures by what they answer."""
    figures: dict[str, Figure] = {}
    for ask in questions.values():
        for figure in ask(load):
            figures[figure.question] = figure
            tell(figure)
    return figures


def _disturbed(figure: Figure) -> float:
    """What other work can only add to: CPU or lateness as seen, before it is set against others.

    A calibration or a sleeper that was disturbed would make the figure itself look better.
    """
    for seen in ("cpu_us", "p99_ms"):
        if seen in figure.facts:
            return float(figure.facts[seen])
    return figure.value
