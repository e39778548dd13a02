"""Durations of the creation of topics and groups by operators: until they are on the disk.

Source: Java ``AdminBrokerProcessor.updateAndCreateTopic``, which counts refusals too; bounds as in
``BrokerMetricsManager.registerMetricsView``.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Hashable, Iterable
from contextlib import contextmanager
from typing import Generic, TypeVar

import attrs

from .histogram import Histogram

BOUNDS_MS = (10, 100, 1_000, 3_000, 5_000)

SUCCESS, FAILURE = "success", "failure"

Label = TypeVar("Label", bound=Hashable)


@attrs.define(eq=False)
class Durations(Generic[Label]):
    """Durations of one kind since the start, milliseconds."""

    now_ms: Callable[[], int]
    by_outcome: dict[tuple[str, Label], Histogram] = attrs.field(
        factory=dict[tuple[str, Label], Histogram], init=False
    )
    """By ``SUCCESS`` or ``FAILURE``, and the kind of thing that was made."""

    @contextmanager
    def making(self, labels: Iterable[Label]) -> Generator[None]:
        """Count things when the block has ended, a label each; as failures when it raises."""
        begun_ms, outcome = self.now_ms(), FAILURE
        try:
            yield
            outcome = SUCCESS
        finally:
            took_ms = max(self.now_ms() - begun_ms, 0)
            for label in labels:
                found = self.by_outcome.setdefault((outcome, label), Histogram(BOUNDS_MS))
                found.observe(took_ms)
