"""The calibration: a fixed loop that runs beside a block."""

from __future__ import annotations

import subprocess
import sys

import psutil
import pytest

from timermq.bench import calibration as module
from timermq.bench.calibration import calibrate, calibration


def loops() -> list[psutil.Process]:
    """The processes that calibrate: other tests may have left some of their own."""
    return [one for one in psutil.Process().children() if module.__file__ in one.cmdline()]


def test_a_block_gets_what_the_loop_cost_meanwhile() -> None:
    """Milliseconds, once the block has ended."""
    with calibration() as found:
        assert not found.ms
        assert len(loops()) == 1

    assert found.ms > 0
    assert not loops()


def test_a_block_that_fails_leaves_no_process_behind() -> None:
    """An error of the block is not held up."""
    with pytest.raises(ZeroDivisionError), calibration():
        _ = 1 // 0

    assert not loops()


def test_a_loop_that_ends_by_itself_is_told() -> None:
    """No figure is made of half a calibration."""
    with pytest.raises(RuntimeError, match="ended with -9"), calibration():
        loops()[0].kill()


def test_loops_go_on_until_the_input_ends() -> None:
    """More than one, and a clean end."""
    process = subprocess.Popen(
        [sys.executable, module.__file__],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    first, second = process.stdout.readline(), process.stdout.readline()
    process.communicate()

    assert float(first) > 0
    assert float(second) > 0
    assert process.returncode == 0


def test_alone_the_best_of_a_few_loops_counts() -> None:
    """Without a block, the best of a few loops is more than 0 ms of CPU."""
    assert calibrate() > 0
