"""Tests of what the verb does before there is a broker."""

import errno
from functools import partial
from pathlib import Path

import attrs
import pytest
import trio
from structlog.testing import capture_logs
from trio.testing import MockClock

from broker_rig import BROKER, ROOT, STORE, TIMER
from fakes import VirtualClock
from timermq.broker.broker import Broker
from timermq.cli.configuration import Configuration, ServeOptions
from timermq.cli.serve import open_with_room, serve, tell_of_others
from timermq.simulator.disks.fault_plan import Fault, FaultRule, FaultRules, Operation
from timermq.simulator.disks.faulty_disk import FaultyDisk
from timermq.simulator.disks.memory_disk import MemoryDisk


class Start:
    """A start on a disk that refuses to make a directory, a number of times."""

    def __init__(self, error: int, count: int | None) -> None:
        rule = FaultRule(
            operations=[Operation.MAKE_DIRS], name="config", fault=Fault(error), count=count
        )
        self.tries = 0
        self._clock = VirtualClock()
        self._disk = FaultyDisk(MemoryDisk(), ROOT, FaultRules(rule))

    async def open(self) -> Broker:
        """Try to open the broker, and count the try."""
        self.tries += 1
        return await Broker.open(
            disk=self._disk,
            root=ROOT,
            options=BROKER,
            store_options=STORE,
            timer_options=TIMER,
            clock=self._clock,
        )


async def test_a_start_waits_for_room(autojump_clock: MockClock) -> None:
    """It is retried, at growing pauses, and leaves no lock and no socket behind meanwhile."""
    start = Start(errno.ENOSPC, 3)
    _, signals = trio.open_memory_channel[int](1)
    with capture_logs() as logs:
        broker = await open_with_room(start.open, signals)
    assert broker is not None
    broker.endpoint.close()
    broker.store.abandon()
    told = [one["error"] for one in logs if one["event"] == "start held up: no room on the disk"]

    assert 4 == start.tries
    assert 0.5 + 1 + 2 == pytest.approx(trio.current_time())
    assert [f"[Errno 28] No space left on device: '{ROOT}/config'"] == told


async def test_a_signal_ends_the_waiting(autojump_clock: MockClock) -> None:
    """An operator need not kill a broker that waits for room."""
    start = Start(errno.ENOSPC, None)
    sender, signals = trio.open_memory_channel[int](1)

    async def send_signal() -> None:
        await trio.sleep(4)
        await sender.send(15)

    async with trio.open_nursery() as nursery:
        nursery.start_soon(send_signal)
        broker = await open_with_room(start.open, signals)

    assert broker is None
    assert 4 == pytest.approx(trio.current_time())


async def test_another_error_is_not_waited_for(autojump_clock: MockClock) -> None:
    """A broken disk does not heal."""
    start = Start(errno.EIO, 1)
    with pytest.raises(OSError, match="Input/output error"):
        await open_with_room(start.open, trio.open_memory_channel[int](1)[1])

    assert 1 == start.tries


class Served:
    """A broker that serves for a moment, and does not follow another one afterwards."""

    next_life = None

    def __init__(self, acts: list[str]) -> None:
        self._acts = acts

    async def run(self, *, task_status: trio.TaskStatus[None]) -> None:
        """Note that the broker serves."""
        self._acts.append("serves")
        task_status.started()


@pytest.mark.parametrize("is_enabled", [True, False])
async def test_what_takes_long_the_first_time_is_done_before_there_are_timers(
    monkeypatch: pytest.MonkeyPatch, is_enabled: bool
) -> None:
    """The first filter would hold up whatever is due meanwhile for some tens of milliseconds."""
    acts: list[str] = []

    async def opened(*_: object) -> Served:
        acts.append("opened")
        return Served(acts)

    monkeypatch.setattr("timermq.cli.serve.open_with_room", opened)
    monkeypatch.setattr("timermq.cli.serve.prepare_sql", partial(acts.append, "parser"))
    monkeypatch.setattr("timermq.cli.serve._calm_collector", partial(acts.append, "collector"))
    broker = attrs.evolve(BROKER, enable_property_filter=is_enabled)
    configuration = Configuration(
        serve=ServeOptions(), broker=broker, store=STORE, timer=TIMER, settings=(), ignored=()
    )
    assert await serve(configuration) == 0

    assert acts == ["opened", *["parser"] * is_enabled, "collector", "serves"]


def test_it_is_said_who_else_may_look_in(tmp_path: Path) -> None:
    """Other users of the machine, and everybody whom a door beyond loopback lets in."""
    store, rules = tmp_path / "store", tmp_path / "plain_acl.yml"
    store.mkdir(mode=0o755)
    rules.touch(mode=0o644)
    key = tmp_path / "key.pem"
    key.touch(mode=0o644)
    secret = tmp_path / "secret"
    secret.touch(mode=0o644)
    account = tmp_path / "tools.yml"
    account.touch(mode=0o644)
    guarded = attrs.evolve(
        BROKER,
        acl_enable=True,
        acl_file=str(rules),
        tls_server_cert_path="cert.pem",
        tls_server_key_path=str(key),
        ha_secret_file=str(secret),
        credentials_file=str(account),
        ha_tls_cert_path=str(key),
        ha_tls_trust_cert_path="trust.pem",
    )
    with capture_logs() as logs:
        tell_of_others(str(store), guarded)
        store.chmod(0o700)
        rules.chmod(0o640)
        key.chmod(0o600)
        secret.chmod(0o600)
        account.chmod(0o600)
        tell_of_others(str(store), guarded)
        tell_of_others(str(store), attrs.evolve(BROKER, namesrv_listen_host="10.0.0.1"))
        tell_of_others(str(tmp_path / "none"), BROKER)

    assert [one["event"] for one in logs] == [
        "store is open to others",
        "file of accounts is open to others",
        "secret of replicas is open to others",
        "account of this broker is open to others",
        "key of a certificate is open to others",
        "key of a certificate is open to others",
        "open to all: no access control",
    ]
