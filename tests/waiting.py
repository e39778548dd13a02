"""Waiting for another process: until something is so, for a limited time.

A wait that runs out says that something never came, or that the machine had no time for it. Which
of the two it was shows when the test runs once more: see ``--only-rerun`` in pyproject.toml.
"""

from __future__ import annotations

import time
from collections.abc import Callable


class StillWaitingError(AssertionError):
    """A wait for another process ran out."""


def wait_until(
    holds: Callable[[], bool],
    seconds: float,
    *,
    told: Callable[[], object] = str,
    is_over: Callable[[], bool] = bool,
    pause: float = 0.05,
) -> None:
    """Wait until something is so.

    Args:
        holds: Whether it is; also looked at when the time is up.
        seconds: The limit.
        told: What the error says beside the limit.
        is_over: Whether it can no longer become so.
        pause: Seconds between two looks.

    Raises:
        StillWaitingError: It was not so in time.
        AssertionError: It can no longer become so.
    """
    deadline = time.monotonic() + seconds
    while not holds():
        if is_over():
            raise AssertionError(f"not so, and it will not be: {told()}")
        if time.monotonic() > deadline:
            raise StillWaitingError(f"not so after {seconds:g} s: {told()}")
        time.sleep(pause)
