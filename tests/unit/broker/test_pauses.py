"""Work on requests pauses, and everything else gets on."""

from __future__ import annotations

from functools import partial
from itertools import pairwise

import trio
from trio.testing import MockClock

from timermq.broker.pauses import PAUSE_TURNS, WORK_SECONDS, Pauses


class Bench:
    """Tasks that work, and one that counts the turns of the event loop."""

    def __init__(self, clock: MockClock) -> None:
        self.pauses = Pauses(trio.current_time)
        self.turns = 0
        self.worked: list[tuple[str, int]] = []
        """Who has worked, and at which turn."""
        self._clock = clock

    def work(self, name: str, seconds: float) -> None:
        """A step that takes so long."""
        self._clock.jump(seconds)
        self.worked.append((name, self.turns))

    async def work_on(self, name: str, seconds: float, count: int) -> None:
        """So many steps, without a break of its own but a turn."""
        for _ in range(count):
            await self.pauses.work(partial(self.work, name, seconds))
            await trio.lowlevel.checkpoint()

    async def count_turns(self) -> None:
        """Count turns of the event loop until cancelled."""
        while True:
            self.turns += 1
            await trio.lowlevel.checkpoint()


async def test_behind_so_much_work_others_have_some_turns(mock_clock: MockClock) -> None:
    """A timer goes from task to task meanwhile; the time of all that work for clients counts."""
    bench = Bench(mock_clock)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(bench.count_turns)
        async with trio.open_nursery() as working:
            for name in ("one", "other"):
                working.start_soon(bench.work_on, name, WORK_SECONDS / 3, 8)
        nursery.cancel_scope.cancel()

    at = [turn for _, turn in bench.worked]
    breaks = [later - earlier for earlier, later in pairwise(at)]
    assert [index for index, turns in enumerate(breaks, 1) if turns >= PAUSE_TURNS] == [4, 8, 12]
    assert max(breaks[:3]) <= 2


async def test_a_small_share_has_no_pause(mock_clock: MockClock) -> None:
    """What comes to five milliseconds in a tenth of a second holds nothing up."""
    bench = Bench(mock_clock)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(bench.count_turns)
        for _ in range(100):
            await bench.work_on("one", WORK_SECONDS / 10, 1)
            mock_clock.jump(WORK_SECONDS)
        nursery.cancel_scope.cancel()

    assert bench.turns <= 102


async def test_what_does_not_count_has_no_pause(mock_clock: MockClock) -> None:
    """Plain sends: their batches are not to become smaller."""
    bench = Bench(mock_clock)

    def work() -> bool:
        bench.work("one", 2 * WORK_SECONDS)
        return False

    async with trio.open_nursery() as nursery:
        nursery.start_soon(bench.count_turns)
        for _ in range(5):
            await bench.pauses.work(work)
            await trio.lowlevel.checkpoint()
        nursery.cancel_scope.cancel()

    assert bench.turns <= 7


async def test_little_work_has_no_pause(mock_clock: MockClock) -> None:
    """A client that waits for its answer has it at once."""
    bench = Bench(mock_clock)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(bench.count_turns)
        await bench.work_on("one", WORK_SECONDS / 100, 50)
        nursery.cancel_scope.cancel()

    assert bench.turns <= 52


async def test_who_waits_works_before_who_has_worked(mock_clock: MockClock) -> None:
    """A task whose every step has a pause behind it does not keep the others from theirs."""
    bench = Bench(mock_clock)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(bench.work_on, "long", 2 * WORK_SECONDS, 5)
        await trio.lowlevel.checkpoint()
        for name in ("one", "other"):
            nursery.start_soon(bench.work_on, name, 0, 2)

    order = [name for name, _ in bench.worked]
    first = order.index("long")
    assert sorted(order[first + 1 : first + 3]) == ["one", "other"]
    assert order[first + 3] == "long"


async def test_who_is_cancelled_in_a_pause_ends_it(mock_clock: MockClock) -> None:
    """The other tasks work on without it."""
    bench = Bench(mock_clock)
    with trio.CancelScope() as scope:
        scope.cancel()
        await bench.work_on("one", 2 * WORK_SECONDS, 1)
    await bench.work_on("other", 0, 1)

    assert [name for name, _ in bench.worked] == ["one", "other"]
