"""Questions and their answers: a figure beside the floor under which it may not fall."""

from __future__ import annotations

from collections.abc import Callable

import attrs

from .calibration import REFERENCE_MS


@attrs.frozen(kw_only=True)
class Figure:
    """The answer to one question: a value with its unit and its floor."""

    question: str
    value: float
    unit: str
    floor: float | None = None
    """The bound; None: the figure stands for itself."""
    more_is_better: bool = False
    """The floor is a least value; otherwise a greatest."""
    facts: dict[str, float | int | str] = attrs.Factory(dict[str, float | int | str])
    """Other figures of the same measurement."""
    asked: tuple[float, ...] = ()
    """The values of all repeats that it was chosen from."""

    @property
    def passes(self) -> bool:
        """Whether the figure is within its floor."""
        if self.floor is None:
            return True
        return self.value >= self.floor if self.more_is_better else self.value <= self.floor

    def to_json(self) -> dict[str, object]:
        """The fields of the figure's line of ``--json``."""
        return {
            "question": self.question,
            "value": round(self.value, 3),
            "unit": self.unit,
            "floor": self.floor,
            "passes": self.passes,
            **self.facts,
            **({"asked": [round(value, 3) for value in self.asked]} if self.asked[1:] else {}),
        }


@attrs.frozen(kw_only=True)
class Load:
    """How much a question is asked with."""

    scale: float = 1.0
    """Of what the floors were set with: 1 is the real thing, 0.01 fits a test."""
    count: int | None = None
    """Messages, in place of the question's own number times the scale."""

    def messages(self, count: int) -> int:
        """Messages for a question that is asked with ``count`` at scale 1."""
        return self.count if self.count is not None else max(int(count * self.scale), 100)

    def seconds(self, seconds: float) -> float:
        """Seconds for a question that takes so many at scale 1, but 3 at least."""
        return max(seconds * self.scale, 3.0)


Question = Callable[[Load], list[Figure]]


def rate_figure(
    question: str,
    *,
    floor: float | None,
    messages: int,
    seconds: float,
    cpu_seconds: float,
    calibration_ms: float,
) -> Figure:
    """A rate, judged by the server's normalised CPU a message.

    Wall-clock rates of a shared machine swing by a factor of three. So the figure is how many
    messages one second of a core of the reference machine pays for; what was seen stands beside it.
    """
    cpu_us = cpu_seconds / messages * 1e6
    normal_cpu_us = cpu_us * REFERENCE_MS / calibration_ms
    busy = cpu_seconds / seconds
    return Figure(
        question=question,
        value=1e6 / normal_cpu_us,
        unit="msg/core-s",
        floor=floor,
        more_is_better=True,
        facts={
            "messages": messages,
            "seconds": round(seconds, 3),
            "per_second": round(messages / seconds),
            "cpu_us": round(cpu_us, 2),
            "normal_cpu_us": round(normal_cpu_us, 2),
            "calibration_ms": round(calibration_ms, 2),
            "limit": "CPU of the server" if busy > BUSY_SHARE else "load, or other processes",
        },
    )


BUSY_SHARE = 0.85
"""Part of a core from which on the server's CPU is what limits."""
