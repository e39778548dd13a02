"""Tests of the store's errors."""

from __future__ import annotations

from timermq.timerstore.errors import (
    StoreError,
    StoreFormatError,
    StoreLockedError,
)


def test_a_format_error_is_one_line_with_its_facts() -> None:
    """Thing, place, expected and found are in the message and can be asked for."""
    error = StoreFormatError("/store/timerlog/0", 104, "magic 1, 2 or 4", "7")

    assert str(error) == "/store/timerlog/0: at 104: expected magic 1, 2 or 4, found 7"
    assert (error.path, error.offset, error.expected, error.found) == (
        "/store/timerlog/0",
        104,
        "magic 1, 2 or 4",
        "7",
    )


def test_one_root() -> None:
    """A handler of ``StoreError`` handles them all."""
    found = {leaf.__base__ for leaf in (StoreFormatError, StoreLockedError)}

    assert found == {StoreError}
