"""Tests of coming in with an account and over TLS, against a real broker."""

import ssl
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path

import attrs
import pytest
import trio
import trustme
from trio.testing import MockClock

from broker_rig import BROKER, open_broker
from fakes import VirtualClock
from signed import RULES, SECRET, write_rules
from timermq.broker.broker import Broker
from timermq.broker.options import BrokerOptions, TlsMode
from timermq.client import (
    BrokerRefusedError,
    ConnectionLostError,
    Consumer,
    Credentials,
    Producer,
    open_watch,
    over_tls,
)
from timermq.client.link import Links
from timermq.remoting import Command, LanguageCode, WatchView
from timermq.remoting.signature import SigningKey, signed_content

AUTHORITY = trustme.CA()
ADMIN = Credentials("the-admin", SECRET)


@asynccontextmanager
async def serving(options: BrokerOptions) -> AsyncGenerator[tuple[Broker, str]]:
    """A broker on a port of its own, and its address."""
    (listener,) = await trio.open_tcp_listeners(0, host="127.0.0.1")
    port = listener.socket.getsockname()[1]
    broker = open_broker(
        VirtualClock(), options=options, listeners=(listener,), address=f"127.0.0.1:{port}"
    )
    async with trio.open_nursery() as nursery:
        await nursery.start(broker.run)
        yield broker, f"127.0.0.1:{port}"
        broker.request_stop()


def secured(directory: Path) -> BrokerOptions:
    """A broker that wants an account, and TLS."""
    issued = AUTHORITY.issue_cert("127.0.0.1")
    issued.private_key_and_cert_chain_pem.write_to_path(directory / "both.pem")
    return attrs.evolve(
        BROKER,
        acl_enable=True,
        acl_file=write_rules(directory, RULES),
        tls_server_mode=TlsMode.ENFORCING,
        tls_server_cert_path=str(directory / "both.pem"),
    )


def trusting(authority: trustme.CA = AUTHORITY) -> ssl.SSLContext:
    """The context of a client that trusts this authority."""
    context = ssl.create_default_context()
    authority.configure_trust(context)  # pyright: ignore[reportUnknownMemberType] - theirs
    return context


def test_credentials_sign_what_goes_out() -> None:
    """Every parameter and the body, with the token of an issuer; the request itself stays."""
    command = Command(10, ext={"topic": "T"}, body=b"x", language=LanguageCode.PYTHON)
    signed = Credentials("key", "secret", "token").sign(command)

    assert command.ext == {"topic": "T"}
    assert signed.ext.keys() == {"topic", "AccessKey", "SecurityToken", "Signature"}
    assert signed.ext["Signature"] == SigningKey("secret").sign(b"keytokenTx")
    assert signed.ext["Signature"] == SigningKey("secret").sign(
        signed_content(signed.ext, b"x", command.version)
    )


def test_credentials_show_no_secret() -> None:
    """Neither by ``repr`` nor by ``str``."""
    credentials = Credentials("key", "hidden-secret", "hidden-token")

    assert repr(credentials) == str(credentials) == "Credentials(access_key='key')"


async def test_producer_and_consumer_come_in(tmp_path: Path) -> None:
    """With an account each, over TLS, to a broker that takes nothing else."""
    async with serving(secured(tmp_path)) as (broker, namesrv):
        async with Producer(
            namesrv, credentials=Credentials("producer", SECRET), tls=trusting()
        ) as producer:
            receipt = await producer.send("T", b"hello")
            with pytest.raises(BrokerRefusedError) as caught:
                await producer.send("U", b"hello")
        assert caught.value.code == 16
        async with Consumer(
            namesrv,
            group="G",
            topics={"T": "*"},
            start_from="first",
            credentials=Credentials("consumer", SECRET),
            tls=trusting(),
        ) as consumer:
            with trio.fail_after(20):
                message = await anext(consumer)
        access = broker.statistics().access

        assert (message.message_id, message.body) == (receipt.message_id, b"hello")
        assert access is not None
        assert access.failed_logins == 0


async def test_a_watch_comes_in(tmp_path: Path) -> None:
    """An administrator may look on, and another account is refused."""
    async with serving(secured(tmp_path)) as (_, address):
        secure = over_tls(trio.open_tcp_stream, trusting())
        async with open_watch(address, WatchView(), credentials=ADMIN, open_stream=secure) as watch:
            assert (await watch.receive()).broker == "broker-a"
        with pytest.raises(BrokerRefusedError):
            async with open_watch(
                address,
                WatchView(),
                credentials=Credentials("powerless", SECRET),
                open_stream=secure,
            ) as watch:
                await watch.receive()


async def links_fail(address: str, context: ssl.SSLContext | None) -> str:
    """Why a link to a broker cannot be had."""
    async with trio.open_nursery() as nursery:
        links = Links(nursery, lambda _, __: None, over_tls(trio.open_tcp_stream, context))
        with pytest.raises(ConnectionLostError) as caught:
            await links.call(address, Command(206))
        nursery.cancel_scope.cancel()
    return str(caught.value)


async def test_a_broker_that_is_another_is_not_spoken_to(tmp_path: Path) -> None:
    """The reason is said, in one line."""
    async with serving(secured(tmp_path)) as (_, address):
        stranger = await links_fail(address, trusting(trustme.CA()))
        plain = await links_fail(address, None)

        assert "cannot connect: no TLS: the certificate is not accepted: " in stranger
        assert "closed by the server" in plain or "connection lost" in plain


async def test_a_broker_without_tls_is_told(tmp_path: Path) -> None:
    """The error says that the server closed the connection."""
    async with serving(BROKER) as (_, address):
        text = await links_fail(address, trusting())

        assert "TLS: the server closed the connection" in text


async def test_a_handshake_that_is_cut_off_leaves_no_stream(autojump_clock: MockClock) -> None:
    """The time to connect holds for it too."""
    server, client = trio.testing.memory_stream_pair()

    async def open_stream(_host: str, _port: int) -> trio.abc.Stream:
        await trio.lowlevel.checkpoint()
        return client

    with pytest.raises(trio.TooSlowError), trio.fail_after(3):
        await over_tls(open_stream, trusting())("h", 1)
    while await server.receive_some():
        pass  # what it had begun to say
    with pytest.raises(trio.ClosedResourceError):
        await client.send_all(b"x")
