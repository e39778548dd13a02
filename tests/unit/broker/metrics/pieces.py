"""Work in pieces, done at one go."""

from __future__ import annotations

from collections.abc import Generator
from typing import TypeVar

Result = TypeVar("Result")


def steps(work: Generator[None, None, Result]) -> tuple[int, Result]:
    """How often a work gives others their turn, and what it returns."""
    count = 0
    while True:
        try:
            next(work)
        except StopIteration as end:
            return count, end.value
        count += 1
