"""The tasks that a client keeps running."""

from __future__ import annotations

import pytest
import trio
import trio.testing

from timermq.client import NoRouteError
from timermq.client.background import BackgroundTasks


async def test_tasks_end_with_the_block() -> None:
    """What still runs is cancelled at the end."""
    async with BackgroundTasks() as tasks:
        tasks.start_soon(trio.sleep_forever)

    assert tasks.cancel_scope.cancel_called


async def test_errors_of_the_block_come_out_bare() -> None:
    """A user of a client need not unpack groups."""
    error = NoRouteError("none")

    async def use() -> None:
        async with BackgroundTasks() as tasks:
            tasks.start_soon(trio.sleep_forever)
            raise error

    with pytest.raises(NoRouteError) as caught:
        await use()

    assert error is caught.value


async def test_a_task_that_fails_ends_the_block() -> None:
    """A bug in the background does not go unnoticed."""

    async def fail() -> None:
        await trio.sleep(1)
        raise RuntimeError("bug")

    with pytest.RaisesGroup(RuntimeError, flatten_subgroups=True):
        async with BackgroundTasks() as tasks:
            tasks.start_soon(fail)
            await trio.sleep_forever()


async def test_tasks_outlive_a_cancelled_block(autojump_clock: trio.testing.MockClock) -> None:
    """When somebody outside cancels, the tasks go on until the block has left."""
    ticks = 0

    async def tick() -> None:
        nonlocal ticks
        while True:
            await trio.sleep(1)
            ticks += 1

    with trio.move_on_after(0.5) as scope:
        async with BackgroundTasks() as tasks:
            tasks.start_soon(tick)
            try:
                await trio.sleep_forever()
            finally:
                with trio.CancelScope(shield=True):
                    await trio.sleep(3)

    assert scope.cancelled_caught
    assert 3 == ticks


async def test_in_a_cancelled_scope() -> None:
    """A client that is entered in a cancelled scope is left again at once."""
    with trio.CancelScope() as scope:
        scope.cancel()
        async with BackgroundTasks() as tasks:
            tasks.start_soon(trio.sleep_forever)
            await trio.sleep_forever()

    assert scope.cancelled_caught
