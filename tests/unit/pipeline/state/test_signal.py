"""A signal wakes the one task that waits, and is not lost when it comes before the wait."""

from __future__ import annotations

import pytest
import trio
from trio.testing import MockClock, wait_all_tasks_blocked

from timermq.pipeline.state.signal import Signal


async def test_wakes_the_waiting_task() -> None:
    """A set lets the wait return, and only once."""
    signal = Signal()
    woken: list[int] = []

    async def wait_twice() -> None:
        for number in range(2):
            await signal.wait()
            woken.append(number)

    async with trio.open_nursery() as nursery:
        nursery.start_soon(wait_twice)
        await wait_all_tasks_blocked()
        signal.set()
        await wait_all_tasks_blocked()

        assert [0] == woken

        signal.set()

    assert [0, 1] == woken


async def test_a_set_before_the_wait_is_kept() -> None:
    """The next wait returns at once; sets in between count as one."""
    signal = Signal()
    signal.set()
    signal.set()
    await signal.wait()
    with trio.move_on_after(0) as scope:
        await signal.wait()

    assert scope.cancelled_caught


async def test_a_set_during_cancellation_stays(autojump_clock: MockClock) -> None:
    """A set that comes while the wait is cancelled is there for the next wait."""
    signal = Signal()
    with trio.CancelScope() as scope:
        scope.cancel()
        signal.set()
        await signal.wait()

    assert scope.cancelled_caught
    assert await signal.wait_at_most(1)


@pytest.mark.parametrize(("set_after", "is_set"), [(0.0, True), (2.0, True), (7.0, False)])
async def test_wait_at_most(autojump_clock: MockClock, set_after: float, is_set: bool) -> None:
    """Says whether the set came in time, and waits no longer than it must."""
    signal = Signal()

    async def set_later() -> None:
        await trio.sleep(set_after)
        signal.set()

    async with trio.open_nursery() as nursery:
        nursery.start_soon(set_later)
        start = trio.current_time()

        assert is_set == await signal.wait_at_most(5)
        assert min(set_after, 5.0) == trio.current_time() - start


async def test_a_late_set_is_kept(autojump_clock: MockClock) -> None:
    """After a wait that timed out the next set is not lost."""
    signal = Signal()

    assert not await signal.wait_at_most(1)
    signal.set()
    assert await signal.wait_at_most(1)
