"""Two brokers and a real etcd: one is killed or stopped, and the other leads without an operator.

All is sent with SYNC_MASTER and two replicas in sync, so what was acknowledged is on both, and each
of these messages arrives once.
"""

from __future__ import annotations

import contextlib
import datetime
import json
import re
import signal
import urllib.request
from collections import Counter
from collections.abc import AsyncGenerator, Callable, Generator, Sequence
from pathlib import Path

import attrs
import pytest
import trio

from broker_rig import Peer, send_ext
from cli.program import SMALL_FILES
from etcd_peer import EtcdPeer, running_etcd
from interop.serving import Broker, StartBroker, free_port, starting
from timermq.client import ClientError, Consumer, Producer
from timermq.remoting.codes import RequestCode, ResponseCode
from waiting import StillWaitingError

pytestmark = [pytest.mark.interop, pytest.mark.slow]

LIMIT = 120.0
"""Seconds for whatever is waited for, on a busy machine."""
TTL_S = 8
"""So long that a busy machine renews in time: epochs are counted."""
TOPIC = "Orders"
FLAGS = (
    *SMALL_FILES,
    "--set=log_format=JSON",
    "--set=broker_role=SYNC_MASTER",
    "--set=in_sync_replicas=2",
    "--set=confirm=replicated",
    "--set=slave_timeout_ms=60000",  # an acknowledgement means two replicas, however slow
    "--set=lease_margin_ms=500",
    "--metrics-listen=127.0.0.1:0",
)


@attrs.define(eq=False)
class Replica:
    """One broker of the pair, whose process may change."""

    store: Path
    flags: Sequence[str]
    start_one: StartBroker
    running: Broker

    @property
    def address(self) -> str:
        """The address that stands in the lease when it leads."""
        return self.running.listen

    def start(self) -> None:
        """Start it again, at the same addresses."""
        old = self.running
        self.running = self.start_one(
            self.store, *self.flags, listen=old.listen, namesrv=old.namesrv
        )

    def told(self, event: str) -> list[dict[str, object]]:
        """The lines of its log of an event, of all its lives."""
        lines = self.running.log.read_text().splitlines()
        rows = [json.loads(line) for line in lines if line.startswith("{") and line.endswith("}")]
        return [row for row in rows if row["event"] == event]

    def lease_metrics(self) -> dict[str, float]:
        """What its page of metrics says of the lease, by the ends of the names."""
        listen = self.told("broker ready")[-1]["metrics_listen"]
        with urllib.request.urlopen(f"http://{listen}/metrics", timeout=LIMIT) as answer:
            page = answer.read().decode()
        found = re.findall(r"^timermq_lease_(\w+)\{.*\} (\S+)$", page, re.MULTILINE)
        return {name: float(value) for name, value in found}


@attrs.define(eq=False)
class Pair:
    """Both brokers, and the lease in etcd."""

    etcd: EtcdPeer
    name: str
    first: Replica
    second: Replica

    def record(self) -> dict[str, object]:
        """The lease as etcd keeps it; empty without one."""
        row = self.etcd.ctl("get", f"{self.name}/broker-a", "--print-value-only")
        return json.loads(row) if row.strip() else {}

    async def leads(self, replica: Replica, *, epoch: int, in_sync: Sequence[int] = ()) -> None:
        """Wait until a replica leads, with these followers in sync."""

        def holds() -> bool:
            record = self.record()
            return (
                record.get("holder") == replica.address
                and record.get("epoch") == epoch
                and (not in_sync or record.get("inSync") == list(in_sync))
                and any(row["epoch"] == epoch for row in replica.told("leads by its lease"))
            )

        await until(holds)


async def until(holds: Callable[[], bool]) -> None:
    """Wait until something is so, while the tasks of the test go on."""
    with trio.move_on_after(LIMIT):
        while not holds():  # noqa: ASYNC110 - other processes set no event
            await trio.sleep(0.1)
        return
    raise StillWaitingError(f"not so after {LIMIT:g} s")


@pytest.fixture(scope="module")
def etcd(tmp_path_factory: pytest.TempPathFactory) -> Generator[EtcdPeer]:
    """An etcd with a lease for each test."""
    with running_etcd(tmp_path_factory.mktemp("etcd")) as peer:
        yield peer


@contextlib.contextmanager
def pair(etcd: EtcdPeer, directory: Path) -> Generator[Pair]:
    """Two brokers, the first of which leads soon; both end with the block."""
    name = directory.name
    with starting() as start_one:

        def replica(number: int, *flags: str) -> Replica:
            # Each broker's name server is the other one's too: both know who leads.
            wanted = (
                *FLAGS,
                f"--set=broker_id={number}",
                f"--set=ha_listen_port={free_port()}",
                f"--lease={etcd.url(name, str(TTL_S))}",
                *flags,
            )
            store = directory / f"store-{number}"
            return Replica(store, wanted, start_one, start_one(store, *wanted))

        first = replica(1)
        yield Pair(etcd, name, first, replica(2, f"--set=follow={first.address}"))


@attrs.define(eq=False)
class Sender:
    """Sends messages with bodies of their own, through whatever happens."""

    acknowledged: list[bytes] = attrs.field(factory=list[bytes])
    refused: int = 0

    async def run(self, brokers: Sequence[Broker]) -> None:
        """Send until cancelled: every third at once, the others for a moment soon."""
        number = 0
        while True:
            namesrv = brokers[number % len(brokers)].namesrv
            with contextlib.suppress(ClientError):
                async with Producer(namesrv, request_timeout=5) as producer:
                    while True:
                        number += 1
                        body = f"message {number}".encode()
                        delay = datetime.timedelta(milliseconds=number % 3 * 1_500)
                        await producer.send(TOPIC, body, delay=delay or None)
                        self.acknowledged.append(body)
                        await trio.sleep(0.01)
            self.refused += 1
            await trio.sleep(0.1)


async def all_bodies(broker: Broker, group: str, wanted: Sequence[bytes]) -> Counter[bytes]:
    """What a new group gets until everything wanted has come, and what comes right behind."""
    got: Counter[bytes] = Counter()
    async with Consumer(
        broker.namesrv, group=group, topics={TOPIC: "*"}, start_from="first"
    ) as consumer:
        with trio.fail_after(LIMIT):
            while set(wanted) - got.keys():
                got[(await anext(aiter(consumer))).body] += 1
        with trio.move_on_after(3):  # a message that comes twice comes soon
            async for message in consumer:
                got[message.body] += 1
    return got


async def is_taken(address: str, body: bytes) -> bool:
    """Whether the broker at an address takes a message, whatever the route says.

    One that loses its lease may end the connection: it is asked again.
    """
    host, _, port = address.partition(":")
    with trio.fail_after(LIMIT):
        while True:
            with contextlib.suppress(OSError, trio.BrokenResourceError):
                async with await trio.open_tcp_stream(host, int(port)) as stream:
                    peer = Peer(stream)
                    answer = await peer.call(RequestCode.SEND_MESSAGE, send_ext(TOPIC), body)
                    return answer.code == ResponseCode.SUCCESS
            await trio.sleep(0.1)


@contextlib.asynccontextmanager
async def sending(*brokers: Broker) -> AsyncGenerator[Sender]:
    """A sender for the length of a block, which begins when it has sent something."""
    sender = Sender()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(sender.run, brokers)
        await until(lambda: len(sender.acknowledged) >= 30)
        yield sender
        nursery.cancel_scope.cancel()


async def test_a_killed_master_is_followed_by_the_other(etcd: EtcdPeer, tmp_path: Path) -> None:
    """Nothing that was acknowledged is lost or comes twice; the killed one comes back to follow."""
    with pair(etcd, tmp_path) as both:
        first, second = both.first, both.second
        await both.leads(first, epoch=1, in_sync=[2])
        # The record may be there a moment before the broker has etcd's answer.
        await until(lambda: first.lease_metrics()["in_sync"] == 1)
        shown = first.lease_metrics()
        assert 0 < shown.pop("left_seconds") < TTL_S
        assert shown == {"leads": 1, "epoch": 1, "in_sync": 1}
        assert second.lease_metrics()["leads"] == 0
        async with sending(first.running, second.running) as sender:
            first.running.kill()
            await both.leads(second, epoch=2)
            first.start()
            await both.leads(second, epoch=2, in_sync=[1])
            before = len(sender.acknowledged)
            await until(lambda: len(sender.acknowledged) >= before + 30)

        # A stop in order is a switch: the other one does not wait for the lease to run out. It has
        # to be in sync, which it may have lost under load.
        await both.leads(second, epoch=2, in_sync=[1])
        second.running.stop()
        await both.leads(first, epoch=3)
        got = await all_bodies(first.running, "g", sender.acknowledged)
        assert [body for body in sender.acknowledged if got[body] != 1] == []
        assert {body: count for body, count in got.items() if count > 1} == {}


async def test_a_stopped_master_comes_back_fenced(etcd: EtcdPeer, tmp_path: Path) -> None:
    """It delivers nothing and takes nothing, follows, and what was due meanwhile came once."""
    with pair(etcd, tmp_path) as both:
        first, second = both.first, both.second
        await both.leads(first, epoch=1, in_sync=[2])
        async with sending(first.running) as sender:
            pass
        first.running.process.send_signal(signal.SIGSTOP)
        await both.leads(second, epoch=2)
        first.running.process.send_signal(signal.SIGCONT)
        assert not await is_taken(first.address, b"refused")

        await both.leads(second, epoch=2, in_sync=[1])
        assert first.told("fenced: another replica leads")
        got = await all_bodies(second.running, "g", sender.acknowledged)
        assert set(got.values()) == {1}
        assert b"refused" not in got


async def test_without_etcd_no_broker_leads(tmp_path: Path) -> None:
    """The master stops in time, and leads on by the same epoch when etcd is back."""
    directory = tmp_path / "etcd"
    directory.mkdir()
    with running_etcd(directory) as own, pair(own, tmp_path) as both:
        first = both.first
        await both.leads(first, epoch=1, in_sync=[2])
        async with sending(first.running) as sender:
            own.kill()
            await until(lambda: bool(first.told("leads no more")) and sender.refused > 0)
            sent = len(sender.acknowledged)
            own.start()
            await until(lambda: len(sender.acknowledged) >= sent + 30)

        assert both.record()["epoch"] == 1
        got = await all_bodies(first.running, "g", sender.acknowledged)
        assert [body for body in sender.acknowledged if got[body] != 1] == []
