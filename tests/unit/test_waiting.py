"""Waits for other processes: when they end, and how."""

from __future__ import annotations

import pytest

from waiting import StillWaitingError, wait_until


def test_ends_when_it_is_so() -> None:
    """The last look counts, though the time is up."""
    looks = iter([False, True])

    wait_until(lambda: next(looks), 60, pause=0)


def test_runs_out() -> None:
    """What never comes is told with the limit."""
    with pytest.raises(StillWaitingError, match=r"^not so after 0 s: two of three$"):
        wait_until(lambda: False, 0, told=lambda: "two of three", pause=0)


def test_what_can_no_longer_be() -> None:
    """It is a failure at once, and not a wait that ran out: it runs only once."""
    with pytest.raises(AssertionError, match="it will not be: ended") as caught:
        wait_until(lambda: False, 60, told=lambda: "ended", is_over=lambda: True)

    assert not isinstance(caught.value, StillWaitingError)
