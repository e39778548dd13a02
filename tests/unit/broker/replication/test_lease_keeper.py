"""A broker leads while it holds the lease, in virtual time and by an engine in memory."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager

import attrs
import pytest
import trio
from trio.testing import MockClock

from timermq.broker.refusal import RefusedError
from timermq.broker.replication.lease import LeaseError, LeaseRecord, Stored
from timermq.broker.replication.lease_keeper import LeaseKeeper
from timermq.broker.replication.lease_state import LeaseState
from timermq.broker.replication.lease_timing import LeaseTiming
from timermq.pipeline.clock.clock import trio_time_ms

TIMING = LeaseTiming(ttl_ms=10_000, margin_ms=1_000)
B = ord("b")
"""Id of the broker ``b:1``."""
LONG = 1_000.0
"""Seconds of virtual time within which all comes to rest."""


@attrs.define(eq=False)
class MemoryLease:
    """An engine in memory that may be away, or may not answer."""

    stored: Stored = attrs.field(factory=lambda: Stored(None, "0"))
    revision: int = 0
    is_away: bool = False
    is_silent: bool = False

    async def read(self) -> Stored:
        """The record, if the engine is there."""
        await self._reach()
        return self.stored

    async def replace(self, record: LeaseRecord, version: str) -> tuple[bool, Stored]:
        """Replace the record, if the engine is there."""
        await self._reach()
        if version != self.stored.version:
            return False, self.stored
        self.revision += 1
        self.stored = Stored(record, str(self.revision))
        return True, self.stored

    async def _reach(self) -> None:
        await trio.sleep(0.01)
        if self.is_away:
            raise LeaseError("the engine is away")
        if self.is_silent:
            await trio.sleep_forever()


@attrs.define(eq=False)
class Led:
    """A broker that takes its time for each change."""

    name: str
    acts: list[str]
    seconds: float = 0.2
    epoch: int = 0
    writes: bool = False

    def known_epoch(self) -> int:
        """The highest epoch that it led by."""
        return self.epoch

    def log_end(self) -> int:
        """The end of a log that nothing is written to."""
        return 0

    def confirmed(self) -> int:
        """The same, for all have it."""
        return 0

    async def take_lead(self, epoch: int) -> None:
        """Lead, when some time has passed."""
        await trio.sleep(self.seconds)
        self.epoch, self.writes = epoch, True
        self.acts.append(f"{self.name} leads {epoch}")

    async def stop_leading(self) -> None:
        """Stop, when some time has passed."""
        await trio.sleep(self.seconds)
        self.writes = False
        self.acts.append(f"{self.name} stops")

    def follow_holder(self, address: str | None) -> None:
        """Note the holder that is followed."""
        self.acts.append(f"{self.name} follows {address}")


@attrs.define(eq=False)
class Part:
    """One broker's keeper that runs until it is killed."""

    keeper: LeaseKeeper
    broker: Led
    scope: trio.CancelScope


@attrs.define(eq=False)
class Pair:
    """Brokers that share one engine."""

    nursery: trio.Nursery
    lease: MemoryLease = attrs.field(factory=MemoryLease)
    acts: list[str] = attrs.field(factory=list[str])
    lives: int = 0

    async def start(self, name: str, *, may_found: bool = False, seconds: float = 0.2) -> Part:
        """Start a broker, again under a name that was killed."""
        self.lives += 1
        broker = Led(name, self.acts, seconds)
        state = LeaseState(
            name=name,
            broker_id=ord(name[0]),
            instance=f"{name}/{self.lives}",
            timing=TIMING,
            may_found=may_found,
        )
        keeper = LeaseKeeper(self.lease, state, broker, trio_time_ms)
        part = Part(keeper, broker, trio.CancelScope())
        await self.nursery.start(_run, part)
        return part

    async def led(self, *ids: int) -> Part:
        """A broker ``a:1`` that leads, with others in sync."""
        part = await self.start("a:1", may_found=True)
        await part.keeper.wait_leads()
        assert await part.keeper.agree(frozenset({None, *ids}))
        return part

    async def until(self, holds: Callable[[], bool]) -> None:
        """Let virtual time pass until something is so."""
        with trio.fail_after(LONG):
            while not holds():  # noqa: ASYNC110 - virtual time
                await trio.sleep(0.05)


async def _run(part: Part, *, task_status: trio.TaskStatus[None]) -> None:
    with part.scope:
        await part.keeper.run(task_status=task_status)


@asynccontextmanager
async def pair() -> AsyncGenerator[Pair]:
    """Brokers that end with the test."""
    async with trio.open_nursery() as nursery:
        yield Pair(nursery)
        nursery.cancel_scope.cancel()


async def test_a_broker_founds_the_lease(autojump_clock: MockClock) -> None:
    """It has waited for a holder that may be there, and leads by epoch 1."""
    async with pair() as both:
        part = await both.start("a:1", may_found=True)
        begun = trio.current_time()
        await part.keeper.wait_leads()

        assert trio.current_time() - begun >= TIMING.ttl_ms / 1000
        assert both.acts == ["a:1 leads 1"]
        assert part.keeper.status().leads
        assert part.keeper.refusal() is None


async def test_a_broker_that_leads_renews(autojump_clock: MockClock) -> None:
    """It leads on for as long as the engine answers; a slow change of role is no hindrance."""
    async with pair() as both:
        part = await both.start("a:1", may_found=True, seconds=30)
        await part.keeper.wait_leads()
        await trio.sleep(600)

        assert both.acts == ["a:1 leads 1"]


async def test_another_takes_the_lead_of_a_killed_one(autojump_clock: MockClock) -> None:
    """It is in sync, and leads by a greater epoch when the lease has run out."""
    async with pair() as both:
        first = await both.led(B)
        second = await both.start("b:1")
        await both.until(lambda: "b:1 follows a:1" in both.acts)
        first.scope.cancel()
        killed = trio.current_time()
        await second.keeper.wait_leads()

        assert both.acts[-1] == "b:1 leads 2"
        gone = trio.current_time() - killed
        assert gone <= (TIMING.ttl_ms + 2 * TIMING.renew_ms) / 1000 + second.broker.seconds


async def test_one_that_is_out_of_sync_waits_for_an_operator(autojump_clock: MockClock) -> None:
    """The record does not name it; forced, it leads."""
    async with pair() as both:
        first = await both.led()
        second = await both.start("b:1")
        first.scope.cancel()
        await trio.sleep(100)
        assert not second.keeper.leads

        with pytest.raises(RefusedError, match=r"LEASE: expected a broker that is in sync"):
            await second.keeper.claim(force=False)
        await second.keeper.claim(force=True)
        assert both.acts[-1] == "b:1 leads 2"


async def test_a_lease_that_is_renewed_is_not_taken_by_force(autojump_clock: MockClock) -> None:
    """An operator is told who leads, and what was refused is not done later."""
    async with pair() as both:
        first = await both.led()
        second = await both.start("b:1")
        with pytest.raises(RefusedError, match="LEASE: a:1 renews its lease"):
            await second.keeper.claim(force=True)

        first.scope.cancel()
        await trio.sleep(100)
        assert not second.keeper.leads


async def test_a_broker_stops_before_its_lease_runs_out(autojump_clock: MockClock) -> None:
    """Without the engine no broker leads; behind its return the same one does, by its epoch."""
    async with pair() as both:
        part = await both.led()
        both.lease.is_away = True
        await both.until(lambda: not part.broker.writes)
        assert part.keeper.refusal() == "this broker does not hold the lease, a:1 does"
        assert part.keeper.status().error == "the engine is away"

        both.lease.is_away = False
        await part.keeper.wait_leads()
        assert both.acts == ["a:1 leads 1", "a:1 stops", "a:1 leads 1"]


async def test_an_engine_that_says_nothing_is_away(autojump_clock: MockClock) -> None:
    """A request without an answer is given up in time to stop."""
    async with pair() as both:
        part = await both.led()
        both.lease.is_silent = True
        begun = trio.current_time()
        await both.until(lambda: not part.broker.writes)

        assert trio.current_time() - begun <= TIMING.ttl_ms / 1000
        both.lease.is_silent = False
        await part.keeper.wait_leads()


async def test_a_lease_that_is_given_up_is_taken_at_once(autojump_clock: MockClock) -> None:
    """The one that stops has stopped before the other leads."""
    async with pair() as both:
        first = await both.led(B)
        second = await both.start("b:1")
        await both.until(lambda: "b:1 follows a:1" in both.acts)
        begun = trio.current_time()
        await first.keeper.give_up()
        await second.keeper.wait_leads()

        assert trio.current_time() - begun <= TIMING.renew_ms / 1000 + 1
        assert both.acts[-3:] == ["a:1 stops", "b:1 follows None", "b:1 leads 2"]
        await both.until(lambda: "a:1 follows b:1" in both.acts)


async def test_giving_up_does_not_wait_for_an_engine_that_is_away(
    autojump_clock: MockClock,
) -> None:
    """A stop takes two seconds at most, and the lease runs out."""
    async with pair() as both:
        part = await both.led()
        both.lease.is_away = True
        begun = trio.current_time()
        await part.keeper.give_up()

        assert not part.broker.writes
        assert trio.current_time() - begun <= 2.1


async def test_only_a_holder_says_who_is_in_sync(autojump_clock: MockClock) -> None:
    """A broker that follows changes nothing in the record."""
    async with pair() as both:
        first = await both.led(B)
        second = await both.start("c:1")
        await both.until(lambda: "c:1 follows a:1" in both.acts)

        assert not await second.keeper.agree(frozenset({B}))
        assert first.keeper.status().in_sync == (B,)
        assert await first.keeper.agree(frozenset())
        assert both.lease.stored.record is not None
        assert both.lease.stored.record.in_sync == set()


async def test_who_is_in_sync_is_agreed_when_the_engine_is_back(autojump_clock: MockClock) -> None:
    """Until then the old ones count."""
    async with pair() as both:
        first = await both.led(B)
        both.lease.is_away = True
        with trio.move_on_after(100) as waiting:
            await first.keeper.agree(frozenset())
        assert waiting.cancelled_caught

        both.lease.is_away = False
        assert await first.keeper.agree(frozenset())


async def test_a_slow_promotion_that_was_overtaken_leads_in_no_old_epoch(
    autojump_clock: MockClock,
) -> None:
    """Another broker led meanwhile: what was begun before ends, and the new epoch is begun."""
    async with pair() as both:
        slow = await both.start("a:1", may_found=True, seconds=100)
        await both.until(lambda: slow.keeper.leads)
        both.lease.is_away = True
        await both.until(lambda: not slow.keeper.leads)
        both.lease.is_away = False
        record = both.lease.stored.record
        assert record is not None
        other = attrs.evolve(record, holder="b:1", instance="b/1", epoch=2, is_given_up=True)
        both.lease.stored = Stored(other, "other")

        async with trio.open_nursery() as nursery:
            nursery.start_soon(slow.keeper.claim, True)
            await both.until(lambda: slow.keeper.status().epoch == 3)
            assert slow.keeper.refusal() is not None
            await both.until(lambda: "a:1 leads 3" in both.acts)
        assert both.acts == ["a:1 leads 1", "a:1 stops", "a:1 leads 3"]
