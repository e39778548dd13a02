"""Tests of what went wrong in groups of errors."""

from __future__ import annotations

from timermq.remoting.causes import causes, first_cause

FIRST, SECOND, THIRD = OSError("a"), KeyboardInterrupt(), ValueError("b")


def test_causes_come_in_their_order() -> None:
    """They come so however deep they stand."""
    inner = BaseExceptionGroup("inner", [FIRST, SECOND])
    group = BaseExceptionGroup("outer", [BaseExceptionGroup("", [inner]), THIRD])

    assert list(causes(group)) == [FIRST, SECOND, THIRD]
    assert first_cause(group) is FIRST


def test_an_error_is_its_own_cause() -> None:
    """One that is no group."""
    assert list(causes(FIRST)) == [FIRST]
