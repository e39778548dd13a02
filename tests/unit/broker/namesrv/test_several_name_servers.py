"""Tests of a broker that registers with two name servers of our own, over real connections."""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, cast

import attrs
import pytest
import trio
import trio.testing
import trustme
from structlog.testing import capture_logs
from trio.testing import MockClock

from broker_rig import BROKER, Peer, open_broker
from fakes import VirtualClock
from timermq.broker.broker import Broker
from timermq.broker.namesrv.name_server_link import PAUSE_MAX
from timermq.broker.options import BrokerOptions, TlsClientAuth, TlsMode
from timermq.broker.security.tls import TlsError
from timermq.broker.topic_config import TopicConfig

AUTHORITY = trustme.CA()
NAME = "trading"
UNREGISTER_BROKER = 104


@attrs.define(eq=False)
class NameServer:
    """A broker that serves as a name server, at an address that stays when it is down."""

    nursery: trio.Nursery
    port: int = 0
    options: BrokerOptions = BROKER
    broker: Broker | None = None
    done: trio.Event = attrs.Factory(trio.Event)

    async def up(self) -> None:
        """Begin to serve with empty tables, at the port it had before."""
        (listener,) = await trio.open_tcp_listeners(self.port, host="127.0.0.1")
        self.port = listener.socket.getsockname()[1]
        self.done = trio.Event()
        self.broker = open_broker(
            VirtualClock(), options=self.options, listeners=(listener,), address=self.address
        )
        await self.nursery.start(self._run, self.broker)

    async def _run(
        self, broker: Broker, *, task_status: trio.TaskStatus[object] = trio.TASK_STATUS_IGNORED
    ) -> None:
        await broker.run(task_status=task_status)
        self.done.set()

    async def down(self) -> None:
        """Stop the broker and wait until it has ended; down already, it does nothing."""
        if self.broker is not None:
            self.broker.request_stop()
            await self.done.wait()
            self.broker = None

    @property
    def address(self) -> str:
        """Where it serves, or will again: ``host:port``."""
        return f"127.0.0.1:{self.port}"

    async def asked(self, code: int, **ext: str) -> Any:  # noqa: ANN401 - JSON
        """The body of the answer to a request."""
        assert self.broker is not None
        ours, theirs = trio.testing.memory_stream_pair()
        self.nursery.start_soon(self.broker.server.serve, ours, ("10.0.0.9", 50_000))
        answer = await Peer(theirs).call(code, ext)
        await theirs.aclose()
        return json.loads(answer.body)

    def requests(self, code: int) -> int:
        """How many of them it has had."""
        assert self.broker is not None
        return self.broker.dispatcher.requests[code]

    async def brokers(self) -> list[str]:
        """Names of those that are registered, but for its own."""
        clusters = cast("dict[str, list[str]]", (await self.asked(106))["clusterAddrTable"])
        return [name for names in clusters.values() for name in names if name != "broker-a"]

    async def topics(self) -> list[str]:
        """Names of the topics that its list has, of all brokers."""
        return cast("list[str]", (await self.asked(206))["topicList"])


@asynccontextmanager
async def two_name_servers() -> AsyncGenerator[list[NameServer]]:
    """Two name servers that are up for the length of a block."""
    async with trio.open_nursery() as nursery:
        servers = [NameServer(nursery), NameServer(nursery)]
        for one in servers:
            await one.up()
        yield servers
        for one in servers:
            await one.down()


@asynccontextmanager
async def registering(
    servers: list[NameServer], options: BrokerOptions = BROKER
) -> AsyncGenerator[Broker]:
    """A broker that registers with name servers, stopped in order at the end."""
    options = attrs.evolve(
        options, broker_name=NAME, namesrv_addr=";".join(one.address for one in servers)
    )
    broker = open_broker(VirtualClock(), options=options, address="127.0.0.1:20911")
    async with trio.open_nursery() as nursery:
        await nursery.start(broker.run)
        yield broker
        broker.request_stop()


def are_registered(broker: Broker) -> list[bool]:
    """How it stands with each name server."""
    return [state.is_registered for state in broker.name_servers.states()]


async def test_with_both_at_once(autojump_clock: MockClock) -> None:
    """Each knows the broker and its topics, old and new."""
    async with two_name_servers() as servers, registering(servers) as broker:
        await trio.sleep(1)
        found = [await one.brokers() for one in servers]
        broker.tables.topics.put(TopicConfig(topic_name="New"))
        await trio.sleep(2)
        topics = [await one.topics() for one in servers]
        registrations = [one.registrations for one in broker.name_servers.states()]

    assert [[NAME], [NAME]] == found
    assert all("New" in one for one in topics)
    assert [2, 2] == registrations


async def test_one_of_them_is_down(autojump_clock: MockClock) -> None:
    """The other one hears of changes as ever; the first all of them when it is back."""
    async with two_name_servers() as servers, registering(servers) as broker:
        await trio.sleep(1)
        await servers[0].down()
        await trio.sleep(300)
        down = are_registered(broker)
        broker.tables.topics.put(TopicConfig(topic_name="New"))
        await trio.sleep(2)
        meanwhile = (await servers[1].brokers(), "New" in await servers[1].topics())
        await servers[0].up()
        await trio.sleep(PAUSE_MAX + 1)
        back = (await servers[0].brokers(), "New" in await servers[0].topics())

        assert [True, True] == are_registered(broker)
    assert [False, True] == down
    assert ([NAME], True) == meanwhile == back


async def test_one_that_comes_later(autojump_clock: MockClock) -> None:
    """A broker that finds one of two name servers alone is there, and with both when they are."""
    async with two_name_servers() as servers:
        await servers[0].down()
        async with registering(servers) as broker:
            await trio.sleep(100)
            first = are_registered(broker)
            await servers[0].up()
            await trio.sleep(PAUSE_MAX + 1)
            found = [await one.brokers() for one in servers]

    assert [False, True] == first
    assert [[NAME], [NAME]] == found


async def test_goodbye_to_all(autojump_clock: MockClock) -> None:
    """A broker that stops unregisters everywhere, and one that is down holds it up with nothing."""
    async with two_name_servers() as servers:
        async with registering(servers):
            await trio.sleep(1)
        told = [one.requests(UNREGISTER_BROKER) for one in servers]
        found = [await one.brokers() for one in servers]
        async with registering(servers):
            await trio.sleep(1)
            await servers[1].down()
        left = await servers[0].brokers()

    assert [1, 1] == told
    assert [[], []] == found
    assert [] == left


def secured(directory: Path, auth: TlsClientAuth = TlsClientAuth.NONE) -> BrokerOptions:
    """A name server that takes TLS alone."""
    issued = AUTHORITY.issue_cert("127.0.0.1")
    issued.private_key_and_cert_chain_pem.write_to_path(directory / "both.pem")
    AUTHORITY.cert_pem.write_to_path(directory / "trust.pem")
    trustme.CA().cert_pem.write_to_path(directory / "strange.pem")
    return attrs.evolve(
        BROKER,
        tls_server_mode=TlsMode.ENFORCING,
        tls_server_cert_path=str(directory / "both.pem"),
        tls_server_need_client_auth=auth,
        tls_server_trust_cert_path=str(directory / "trust.pem"),
    )


def speaking_tls(directory: Path, **more: str | None) -> BrokerOptions:
    """A broker that speaks TLS to its name servers."""
    changed: dict[str, Any] = {
        "tls_client_trust_cert_path": str(directory / "trust.pem"),
        "tls_client_cert_path": str(directory / "both.pem"),
        **more,
    }
    return attrs.evolve(BROKER, namesrv_tls_enable=True, **changed)


@asynccontextmanager
async def one_name_server(options: BrokerOptions) -> AsyncGenerator[list[NameServer]]:
    """One name server with these options, up for the length of a block."""
    async with trio.open_nursery() as nursery:
        server = NameServer(nursery, options=options)
        await server.up()
        yield [server]
        await server.down()


@pytest.mark.parametrize("auth", [TlsClientAuth.NONE, TlsClientAuth.REQUIRE])
async def test_over_tls(autojump_clock: MockClock, tmp_path: Path, auth: TlsClientAuth) -> None:
    """With a name server that takes nothing else, and one that wants a certificate."""
    async with one_name_server(secured(tmp_path, auth)) as (server,):
        async with registering([server], speaking_tls(tmp_path)) as broker:
            await trio.sleep(100)
            found = await server.brokers()
            (state,) = broker.name_servers.states()
        left = await server.brokers()

    assert ([NAME], []) == (found, left)
    assert 4 == state.registrations


async def test_certificates_that_are_not_trusted(autojump_clock: MockClock, tmp_path: Path) -> None:
    """The broker tells its name to no server that it does not know; a file put right counts."""
    options = secured(tmp_path)
    trusted = tmp_path / "strange.pem"
    async with (
        one_name_server(options) as (server,),
        registering(
            [server], speaking_tls(tmp_path, tls_client_trust_cert_path=str(trusted))
        ) as broker,
    ):
        await trio.sleep(10)
        (state,) = broker.name_servers.states()
        error, before = state.error, await server.brokers()
        trusted.write_text("nothing")
        await trio.sleep(10)
        unreadable = state.error
        AUTHORITY.cert_pem.write_to_path(trusted)
        await trio.sleep(PAUSE_MAX)

        assert [True] == are_registered(broker)
    assert ("no TLS: CERTIFICATE_VERIFY_FAILED", []) == (error, before)
    assert (unreadable or "").startswith(f"no TLS: trusted certificates {trusted}: ")


async def test_a_plain_broker_and_tls(autojump_clock: MockClock, tmp_path: Path) -> None:
    """A name server that takes TLS alone has the reason in its log; the other way round as well."""
    options = secured(tmp_path)
    with capture_logs() as logs:
        async with one_name_server(options) as servers, registering(servers) as broker:
            await trio.sleep(10)
            assert [False] == are_registered(broker)
        async with (
            one_name_server(BROKER) as servers,
            registering(servers, speaking_tls(tmp_path)) as broker,
        ):
            await trio.sleep(10)
            assert [False] == are_registered(broker)
    events = {one["event"] for one in logs}

    assert "plain connection refused: tls_server_mode is enforcing" in events
    assert "TLS refused: tls_server_cert_path names no certificate" in events
    assert "no TLS: closed" in {one.get("reason") for one in logs}


@pytest.mark.parametrize(
    ("name", "text", "error"),
    [
        ("tls_client_trust_cert_path", None, "trusted certificates .*none.pem: No such file"),
        ("tls_client_cert_path", None, "certificate .*none.pem with key .*none.pem: No such file"),
        ("tls_client_cert_path", "x", "certificate .*none.pem with key .*none.pem: expected PEM"),
    ],
)
async def test_files_that_cannot_be_used(
    tmp_path: Path, name: str, text: str | None, error: str
) -> None:
    """They are told at the start."""
    secured(tmp_path)
    path = tmp_path / "none.pem"
    if text is not None:
        path.write_text(text)
    with pytest.raises(TlsError, match=error):
        open_broker(VirtualClock(), options=speaking_tls(tmp_path, **{name: str(path)}))


def test_a_key_without_a_certificate() -> None:
    """Said when the configuration is read."""
    with pytest.raises(ValueError, match="tls_client_cert_path: expected a certificate"):
        attrs.evolve(BROKER, tls_client_key_path="k.pem")
