"""Three brokers of one name, as processes that share no disk, and the lease that they may have."""

from __future__ import annotations

import contextlib
import signal
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

import attrs
import trio

from interop.serving import Broker, free_port, start
from timermq.broker.namesrv.name_server_link import open_tcp
from timermq.broker.replication.replica_calls import (
    NoReplicaError,
    ReplicaCalls,
    ReplicaRefusedError,
)
from timermq.remoting.epoch_report import EpochReport

from .trouble import SETTINGS, BrokerEndedError

COUNT = 3
TTL_SECONDS = 4
REPLICATION = {
    "in_sync_replicas": 2,
    "min_in_sync_replicas": 2,
    "confirm": "replicated",
    "ha_send_heartbeat_interval_ms": 1_000,
    "ha_housekeeping_interval_ms": 5_000,
    "ha_max_time_slave_not_catchup_ms": 3_000,
    "follow_interval_ms": 500,
    "follow_tables_interval_ms": 1_000,
    "namesrv_listen_enable": "true",
}
"""With three replicas one may be lost: what is acknowledged is on two, and on all in sync."""
SERVED_SECONDS = 180.0
"""Within which brokers that all run have to take messages, on a machine with much to do."""
LOOK_SECONDS = 0.2


class NotServedError(Exception):
    """All brokers run, and none takes messages."""


@attrs.define(eq=False)
class Replica:
    """One of the brokers, whose process may be another one each time."""

    number: int
    """Its broker id as a follower."""
    store: Path
    flags: Sequence[str]
    listen: str
    namesrv: str
    running: Broker | None = None
    is_stopped: bool = False
    """By SIGSTOP."""

    @property
    def answers(self) -> bool:
        """Whether its process runs and was not stopped."""
        return self.running is not None and not self.is_stopped

    async def start(self) -> None:
        """Start it; returns when it serves."""
        begin = partial(start, self.store, *self.flags, listen=self.listen, namesrv=self.namesrv)
        self.running = await trio.to_thread.run_sync(begin)
        self.is_stopped = False

    def kill(self) -> None:
        """SIGKILL, and forget the process."""
        self.process.kill()
        self.running, self.is_stopped = None, False

    async def end(self) -> None:
        """SIGTERM, and wait for the end.

        Raises:
            BrokerEndedError: It ended with something else than 0.
        """
        code = await trio.to_thread.run_sync(self.process.stop)
        self.running = None
        if code != 0:
            raise BrokerEndedError(f"{self.listen}: asked to stop it ended with {code}")

    def stop(self) -> None:
        """SIGSTOP: its connections stay open, and nothing answers."""
        self.process.process.send_signal(signal.SIGSTOP)
        self.is_stopped = True

    def go_on(self) -> None:
        """SIGCONT: it works again, and knows nothing of the pause."""
        self.process.process.send_signal(signal.SIGCONT)
        self.is_stopped = False

    @property
    def process(self) -> Broker:
        """The broker that runs.

        Raises:
            BrokerEndedError: It ended by itself.
        """
        assert self.running is not None, "started"
        code = self.running.process.poll()
        if code is not None:
            last = self.running.log.read_text().strip().rpartition("\n")[2]
            raise BrokerEndedError(f"{self.listen}: it ended by itself with {code}: {last}")
        return self.running


@attrs.define(eq=False)
class Replicas:
    """All of them, and what they say of themselves."""

    all: Sequence[Replica]
    reports: dict[int, EpochReport] = attrs.Factory(dict[int, EpochReport])
    """The number of each that answered the last question to what it said."""
    epochs: set[int] = attrs.Factory(set[int])
    """Epochs in which one was seen to lead."""
    gaps: list[float] = attrs.Factory(list[float])
    """How long none said that it leads, seconds, each time."""

    @classmethod
    def of(cls, directory: Path, lease: str | None) -> Replicas:
        """Brokers that have not been started.

        Args:
            directory: Takes stores and logs.
            lease: URL of the lease; None: an operator promotes.
        """
        ports = [f"127.0.0.1:{free_port()}" for _ in range(2 * COUNT)]
        listens, namesrvs = ports[:COUNT], ports[COUNT:]
        made: list[Replica] = []
        for number, (listen, namesrv) in enumerate(zip(listens, namesrvs, strict=True), start=1):
            settings: dict[str, object] = {**SETTINGS, **REPLICATION}
            settings |= {"ha_listen_port": free_port(), "namesrv_addr": ";".join(namesrvs)}
            if lease is not None or number == 1:
                settings["broker_role"] = "SYNC_MASTER"
            if lease is not None or number > 1:
                settings["broker_id"] = number
            if lease is not None:
                settings |= {"lease": lease, "lease_margin_ms": 500}
            if number > 1:
                settings["follow"] = listens[0]
            flags = [f"--set={name}={value}" for name, value in settings.items()]
            made.append(Replica(number, directory / f"store-{number}", flags, listen, namesrv))
        return cls(made)

    @property
    def namesrv(self) -> str:
        """Name servers of all brokers: ``host:port;…``."""
        return ";".join(one.namesrv for one in self.all)

    def leader(self) -> Replica | None:
        """The one that said that it leads, in the highest epoch; None: none did."""
        leading = {number: one.last_epoch for number, one in self.reports.items() if one.is_master}
        best = max(leading, key=leading.__getitem__, default=None)
        return next((one for one in self.all if one.number == best), None)

    async def ask(self) -> None:
        """Ask all that can answer what they are."""
        calls, found = ReplicaCalls(open_tcp), dict[int, EpochReport]()

        async def ask_one(one: Replica) -> None:
            with contextlib.suppress(NoReplicaError, ReplicaRefusedError):
                found[one.number] = await calls.epochs(one.listen)

        async with trio.open_nursery() as nursery:
            for one in self.all:
                if one.answers:
                    nursery.start_soon(ask_one, one)
        self.reports = {one.number: found[one.number] for one in self.all if one.number in found}
        leader = self.leader()
        if leader is not None:
            self.epochs.add(self.reports[leader.number].last_epoch)

    async def watch(self) -> None:
        """Ask again and again who leads, until cancelled."""
        led_at, has_led = trio.current_time(), True
        while True:
            await self.ask()
            if self.leader() is not None:
                if not has_led:
                    self.gaps.append(trio.current_time() - led_at)
                led_at = trio.current_time()
            has_led = self.leader() is not None
            await trio.sleep(LOOK_SECONDS)

    async def until(self, holds: Callable[[], bool], what: str) -> None:
        """Ask again and again until something is so.

        Raises:
            NotServedError: It takes too long.
        """
        with trio.move_on_after(SERVED_SECONDS):
            await self.ask()
            while not holds():
                await trio.sleep(LOOK_SECONDS)
                await self.ask()
            return
        told = {number: attrs.asdict(one) for number, one in self.reports.items()}
        raise NotServedError(f"{what}: not so after {SERVED_SECONDS:g} s; they say {told}")

    def are_level(self) -> bool:
        """Whether all have answered, one leads, and all logs end at one position."""
        ends = {one.max_offset for one in self.reports.values()}
        return len(self.reports) == COUNT and len(ends) == 1 and self.leader() is not None
