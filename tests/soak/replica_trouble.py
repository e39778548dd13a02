"""What is done to three replicas: kills, stops, planned switches; and who makes one of them lead.

With a lease the brokers choose by themselves, and etcd itself is killed now and then. Without one
an operator promotes, as the documentation tells: the old master is dead, two of the three have been
asked, and the one that has most is promoted.
"""

from __future__ import annotations

import random
import sys
from collections.abc import Awaitable, Callable

import attrs
import trio

from etcd_peer import EtcdPeer
from timermq.client.history import Crash, Fault, HistoryWriter

from .load import Load
from .replicas import LOOK_SECONDS, SERVED_SECONDS, NotServedError, Replica, Replicas

PAUSE_SECONDS = (0.5, 5.0)
AWAY_SECONDS = (0.0, 8.0)
"""How long a killed broker is away: shorter than a lease, and longer."""
STOP_SECONDS = (1.0, 9.0)
ETCD_SECONDS = (0.5, 8.0)
SERVED_AGAIN = 0.8
"""How often messages have to be acknowledged again before the next thing is done."""
PROMOTED = 0.75
"""How often the operator promotes a follower and does not wait for the old master."""
ANSWERS_MIN = 2
"""Replicas that the operator asks: what was acknowledged is on one of any two."""
VERB_SECONDS = 120.0

Action = Callable[[], Awaitable[None]]


@attrs.define(eq=False)
class ReplicaTrouble:
    """Replicas, and everything that happens to them."""

    replicas: Replicas
    history: HistoryWriter
    draw: random.Random
    load: Load
    etcd: EtcdPeer | None
    """The lease's; None: an operator promotes."""

    async def start(self) -> None:
        """Start all three; one leads when it returns."""
        async with trio.open_nursery() as nursery:
            for one in self.replicas.all:
                nursery.start_soon(one.start)
        await self.replicas.until(self.replicas.are_level, "the replicas start")

    async def run(self) -> None:
        """One thing after the other, for ever."""
        actions: dict[Action, int] = {
            self._kill_master: 5,
            self._kill_follower: 2,
            self._kill_two: 1,
            self._stop_master: 2,
            self._stop_follower: 1,
            self._switch: 2,
        }
        if self.etcd is not None:
            actions[self._kill_etcd] = 1
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self.replicas.watch)
            while True:
                await trio.sleep(self.draw.uniform(*PAUSE_SECONDS))
                (action,) = self.draw.choices(list(actions), list(actions.values()))
                await action()
                if self.draw.random() < SERVED_AGAIN:
                    await self._served_again()

    async def settle(self) -> None:
        """All of them run, and one of them leads."""
        if self.etcd is not None and not self.etcd.is_running:
            await trio.to_thread.run_sync(self.etcd.start)
        for one in self.replicas.all:
            if one.is_stopped:
                one.go_on()
            if one.running is None:
                await one.start()
        await self._led()

    async def finish(self) -> None:
        """End them in order when all have the same log: followers first."""
        await self.replicas.until(self.replicas.are_level, "the replicas have one log")
        leader = self.replicas.leader()
        for one in sorted(self.replicas.all, key=lambda one: one is leader):
            await one.end()

    def end_now(self) -> None:
        """Leave no process behind, whatever has happened."""
        for one in self.replicas.all:
            if one.running is not None and one.running.process.poll() is None:
                one.running.kill()

    # -- what is done ---------------------------------------------------------------------------

    async def _kill_master(self) -> None:
        master = await self._leader()
        self._kill(master)
        await self._replace(master)

    async def _kill_follower(self) -> None:
        follower = self._other(await self._leader())
        self._kill(follower)
        await self._come_back(follower)

    async def _kill_two(self) -> None:
        master = await self._leader()
        follower = self._other(master)
        self._kill(master)
        self._kill(follower)
        await self._come_back(follower)
        await self._replace(master)

    async def _stop_master(self) -> None:
        """What comes back fenced by a lease; an operator kills it before another one leads."""
        master = await self._leader()
        self._fault("stop")
        master.stop()
        await trio.sleep(self.draw.uniform(*STOP_SECONDS))
        if self.draw.random() < 0.3:
            self._kill(master)
            await self._replace(master)
        else:
            master.go_on()
            self._fault("continue")

    async def _stop_follower(self) -> None:
        follower = self._other(await self._leader())
        self._fault("stop")
        follower.stop()
        await trio.sleep(self.draw.uniform(*STOP_SECONDS))
        follower.go_on()
        self._fault("continue")

    async def _switch(self) -> None:
        """A planned one: a stop in order with a lease, else a command to the master."""
        master = await self._leader()
        if self.etcd is None:
            self._fault("demote")
            await self._verb("demote", master.listen, "--to", self._other(master).listen)
            await self._led()
            return
        self._fault("end")
        await master.end()
        await self._come_back(master)

    async def _kill_etcd(self) -> None:
        assert self.etcd is not None
        self._fault("etcd_kill")
        self.etcd.kill()
        await trio.sleep(self.draw.uniform(*ETCD_SECONDS))
        await trio.to_thread.run_sync(self.etcd.start)

    # -- who leads ------------------------------------------------------------------------------

    async def _leader(self) -> Replica:
        """The one that leads, when there is one."""
        await self.replicas.until(lambda: self.replicas.leader() is not None, "one leads")
        leader = self.replicas.leader()
        assert leader is not None
        return leader

    async def _replace(self, master: Replica) -> None:
        """Let another one lead, or the old one again."""
        if self.etcd is None and self.draw.random() < PROMOTED:
            await self._promote()
        await self._come_back(master)
        await self._led()

    async def _led(self) -> None:
        """One leads: it does by itself, or the operator helps."""
        if self.etcd is None:
            await self._promote()
        else:
            await self._leader()

    async def _promote(self) -> None:
        """Promote the one that has most, unless one leads."""
        with trio.move_on_after(SERVED_SECONDS):
            while True:
                await self.replicas.ask()
                if self.replicas.leader() is not None:
                    return
                if len(self.replicas.reports) >= ANSWERS_MIN:
                    await self._promote_best()
                await trio.sleep(LOOK_SECONDS)
        raise NotServedError(f"no replica leads after {SERVED_SECONDS:g} s of promotions")

    async def _promote_best(self) -> None:
        """By force where it does not know that it has all: it has more than another one."""
        reports = self.replicas.reports
        best = max(reports, key=lambda one: (reports[one].last_epoch, reports[one].max_offset))
        address = next(one.listen for one in self.replicas.all if one.number == best)
        self._fault("promote")
        if await self._verb("promote", address) != 0:
            await self._verb("promote", address, "--force")

    async def _verb(self, *words: str) -> int:
        """Run the program with these words; the exit code."""
        command = [sys.executable, "-m", "timermq.cli", *words]
        with trio.fail_after(VERB_SECONDS):
            done = await trio.run_process(
                command, capture_stdout=True, capture_stderr=True, check=False
            )
        if done.returncode != 0:
            self._fault("refused_verb", f"{words}: {done.stderr.decode().strip()}")
        return done.returncode

    async def _served_again(self) -> None:
        """Until messages are acknowledged again."""
        seen = self.load.acknowledged
        await self.replicas.until(lambda: self.load.acknowledged > seen, "messages are taken")

    async def _come_back(self, one: Replica) -> None:
        await trio.sleep(self.draw.uniform(*AWAY_SECONDS))
        await one.start()

    def _other(self, master: Replica) -> Replica:
        return self.draw.choice([one for one in self.replicas.all if one is not master])

    def _kill(self, one: Replica) -> None:
        one.kill()
        at_ms, who = self.history.clock_ms(), self.history.who
        self.history.write(Crash(at_ms=at_ms, who=who, kind="kill"))

    def _fault(self, kind: str, text: str = "") -> None:
        at_ms, who = self.history.clock_ms(), self.history.who
        self.history.write(Fault(at_ms=at_ms, who=who, kind=kind, text=text))
