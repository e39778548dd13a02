"""Brokers that tests start end with them, whatever happens."""

from __future__ import annotations

import signal
from pathlib import Path

import psutil
import pytest

from interop.serving import Broker, starting

pytestmark = pytest.mark.slow


class TestFailedError(Exception):
    """What a test may raise."""

    __test__ = False


def fail_with_brokers(store: Path, started: list[Broker]) -> None:
    """Start a broker, and one in its place, and fail."""
    with starting() as start:
        first = start(store)
        started.append(first)
        first.stop()
        started.append(start(store, listen=first.listen, namesrv=first.namesrv))
        raise TestFailedError


def test_what_a_failed_test_leaves_running_is_killed(tmp_path: Path) -> None:
    """What has ended before is left as it is."""
    started: list[Broker] = []
    with pytest.raises(TestFailedError):
        fail_with_brokers(tmp_path / "store", started)

    assert [0, -signal.SIGKILL] == [broker.process.returncode for broker in started]


def test_a_broker_that_does_not_start_leaves_no_process(tmp_path: Path) -> None:
    """It has ended, and was waited for."""
    children = psutil.Process().children()
    with starting() as start, pytest.raises(AssertionError, match="the broker is not ready"):
        start(tmp_path / "store", "--set", "no_such_setting=1")

    assert children == psutil.Process().children()
