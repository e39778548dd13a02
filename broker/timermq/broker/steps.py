"""Work that takes long, in steps, so that others go on in between (``round_robin``)."""

from __future__ import annotations

from collections.abc import Generator
from typing import TypeVar, cast

Result = TypeVar("Result")

Steps = Generator[None, None, Result]
"""Work in steps, with a result at its end."""


def at_once(steps: Steps[Result]) -> Result:
    """The result of all steps."""
    while True:
        try:
            next(steps)
        except StopIteration as end:
            return cast("Result", end.value)
