"""Tests of what became of a put."""

from __future__ import annotations

import pytest

from timermq.timerstore.put_status import PutResult, PutStatus


def test_ordinals_are_those_of_rocketmq() -> None:
    """The numbers go over the wire in RocketMQ's tools."""
    names = ["PUT_OK", "FLUSH_DISK_TIMEOUT", "FLUSH_SLAVE_TIMEOUT", "SLAVE_NOT_AVAILABLE"]

    assert list(range(16)) == [int(status) for status in PutStatus]
    assert names == [status.name for status in PutStatus if status.is_stored]


def test_a_result_does_not_change() -> None:
    """A result may be shared by many messages."""
    result = PutResult(PutStatus.PUT_OK, 100, 20, 3, 1)

    with pytest.raises(AttributeError):
        setattr(result, "size", 5)  # noqa: B010 - plain assignment does not pass the type check


def test_a_result_says_what_to_wait_for() -> None:
    """A record is durable when the log is durable up to its end."""
    assert PutResult(PutStatus.PUT_OK, 100, 20, 3, 1).end == 120
