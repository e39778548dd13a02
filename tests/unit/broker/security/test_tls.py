"""Tests of TLS beside plain connections on one port."""

import socket
import ssl
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import attrs
import pytest
import trio
import trio.testing
import trustme
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    Encoding,
    PrivateFormat,
    load_pem_private_key,
)
from structlog.testing import capture_logs
from trio.testing import MockClock

from broker_rig import BROKER, Peer, Rig, RunningBroker, pull_ext, running_broker, send_ext
from timermq.broker.broker import Broker
from timermq.broker.options import BrokerOptions, TlsClientAuth, TlsMode
from timermq.broker.security.tls import Tls, TlsError
from timermq.broker.sockets import KernelSockets
from timermq.remoting import Command

AUTHORITY = trustme.CA()
STRANGER = trustme.CA()
HOST = "broker.example"


@pytest.fixture
def options(tmp_path: Path) -> BrokerOptions:
    """A broker with a certificate."""
    return with_certificate(tmp_path)


def with_certificate(directory: Path, **more: str | TlsMode | TlsClientAuth) -> BrokerOptions:
    """Options with a new certificate for `HOST`."""
    write_certificate(directory)
    AUTHORITY.cert_pem.write_to_path(directory / "trust.pem")
    changed: dict[str, Any] = {
        "tls_server_cert_path": str(directory / "cert.pem"),
        "tls_server_key_path": str(directory / "key.pem"),
        **more,
    }
    return attrs.evolve(BROKER, **changed)


def write_certificate(directory: Path, name: str = HOST) -> None:
    """Put a new certificate and its key where the options look for them."""
    issued = AUTHORITY.issue_cert(name)
    issued.private_key_pem.write_to_path(directory / "key.pem")
    (directory / "cert.pem").write_bytes(b"".join(one.bytes() for one in issued.cert_chain_pems))


def client_context(
    trusted: trustme.CA = AUTHORITY, shows: trustme.LeafCert | None = None
) -> ssl.SSLContext:
    """What a client needs to speak to the broker."""
    context = ssl.create_default_context()
    trusted.configure_trust(context)  # pyright: ignore[reportUnknownMemberType] - theirs
    if shows is not None:
        shows.configure_cert(context)  # pyright: ignore[reportUnknownMemberType] - theirs
    return context


@attrs.define(eq=False)
class Served:
    """A broker that is reached over real sockets; they are closed at the end."""

    running: RunningBroker
    streams: list[trio.SocketStream] = attrs.Factory(list[trio.SocketStream])

    @property
    def broker(self) -> Broker:
        """The broker behind the connections."""
        return self.running.broker

    def connect(self) -> trio.SocketStream:
        """The client's end of a new connection."""
        ours, theirs = (
            trio.SocketStream(trio.socket.from_stdlib_socket(end)) for end in socket.socketpair()
        )
        self.running.nursery.start_soon(self.broker.server.serve, ours, ("10.0.0.9", 50_000))
        self.streams.append(theirs)
        return theirs

    def secure(
        self, context: ssl.SSLContext | None = None, host: str = HOST
    ) -> trio.SSLStream[trio.SocketStream]:
        """The client's end of a new connection that speaks TLS."""
        context = client_context() if context is None else context
        return trio.SSLStream(self.connect(), context, server_hostname=host, https_compatible=True)

    def secured(self, context: ssl.SSLContext | None = None, host: str = HOST) -> Peer:
        """A client that speaks TLS."""
        return Peer(self.secure(context, host))


@asynccontextmanager
async def served(options: BrokerOptions) -> AsyncGenerator[Served]:
    """A broker with these options."""
    async with running_broker(options=options) as running:
        one = Served(running)
        try:
            yield one
        finally:
            for stream in one.streams:
                stream.socket.close()


async def is_closed(stream: trio.abc.Stream) -> bool:
    """Whether the broker closes a connection without an answer."""
    try:
        return not await stream.receive_some(1)
    except trio.BrokenResourceError:
        return True


async def test_both_on_one_port(options: BrokerOptions) -> None:
    """The first byte says which it is."""
    async with served(options) as running:
        plain, secure = Peer(running.connect()), running.secured()

        assert (await secure.call(10, send_ext("T"), b"one")).code == 0
        assert (await plain.call(10, send_ext("T"), b"two")).code == 0
        assert running.broker.statistics().tls_refused == 0


async def test_large_messages(options: BrokerOptions) -> None:
    """More than any record of TLS or buffer of a socket holds, in both directions."""
    body = bytes(range(256)) * 200
    async with served(options) as running:
        secure = running.secured()
        for _ in range(20):
            assert (await secure.call(10, send_ext("T"), body)).code == 0
        answer = await secure.call(11, pull_ext("T"))

    assert (answer.code, answer.body.count(body) > 2) == (0, True)


async def test_tls_1_2_is_enough(options: BrokerOptions) -> None:
    """Old Java speaks it; older versions are not spoken."""
    context = client_context()
    context.maximum_version = ssl.TLSVersion.TLSv1_2
    async with served(options) as running:
        stream = running.secure(context)
        await Peer(stream).call(206)

        assert stream.version() == "TLSv1.2"


@pytest.mark.filterwarnings("ignore:ssl.TLSVersion.TLSv1_1:DeprecationWarning")
async def test_older_versions_are_not_spoken(options: BrokerOptions) -> None:
    """A client that knows TLS 1.1 at most gets no connection."""
    context = client_context()
    context.set_ciphers("DEFAULT:@SECLEVEL=0")
    context.minimum_version = context.maximum_version = ssl.TLSVersion.TLSv1_1
    async with served(options) as running:
        with pytest.raises(trio.BrokenResourceError):
            await running.secured(context).call(206)


async def test_a_client_finds_out_who_the_broker_is_not(options: BrokerOptions) -> None:
    """Another name and another authority end the handshake; others are served on."""
    async with served(options) as running:
        for secure in (
            running.secured(host="another.example"),
            running.secured(client_context(STRANGER)),
        ):
            with pytest.raises(trio.BrokenResourceError) as caught:
                await secure.call(206)
            assert isinstance(caught.value.__cause__, ssl.SSLCertVerificationError)
        assert (await running.secured().call(206)).code == 0


async def test_enforcing_closes_plain_connections(tmp_path: Path) -> None:
    """Without an answer, before anything is read as a request."""
    options = with_certificate(tmp_path, tls_server_mode=TlsMode.ENFORCING)
    with capture_logs() as logs:
        async with served(options) as running:
            plain = Peer(running.connect())
            await plain.send(Command(10, ext=send_ext("T"), body=b"x"))
            assert await is_closed(plain.stream)
            assert (await running.secured().call(206)).code == 0
            assert running.broker.statistics().tls_refused == 1
            assert 10 not in running.broker.dispatcher.requests

    (log,) = [log for log in logs if "refused" in log["event"]]
    assert log["event"] == "plain connection refused: tls_server_mode is enforcing"
    assert log["remote"] == "10.0.0.9:50000"


async def test_disabled_closes_tls(tmp_path: Path) -> None:
    """Disabled, a TLS handshake ends the connection, and plain connections are served."""
    options = with_certificate(tmp_path, tls_server_mode=TlsMode.DISABLED)
    with capture_logs() as logs:
        async with served(options) as running:
            with pytest.raises(trio.BrokenResourceError):
                await running.secured().call(206)
            assert (await Peer(running.connect()).call(206)).code == 0

    assert "TLS refused: tls_server_mode is disabled" in [log["event"] for log in logs]


async def test_without_a_certificate_tls_is_refused_and_said(autojump_clock: MockClock) -> None:
    """Once a minute, however many try."""
    with capture_logs() as logs:
        async with served(BROKER) as running:
            for pause in (0, 1, 60):
                await trio.sleep(pause)
                with pytest.raises(trio.BrokenResourceError):
                    await running.secured().call(206)

    told = [log for log in logs if log["event"].startswith("TLS refused")]
    assert [(log["event"], log["connections"]) for log in told] == [
        ("TLS refused: tls_server_cert_path names no certificate", 1),
        ("TLS refused: tls_server_cert_path names no certificate", 2),
    ]


async def test_without_files_no_task_looks_for_changes(autojump_clock: MockClock) -> None:
    """An idle broker without a certificate does not wake every second."""
    with trio.fail_after(0.5):
        await Tls(BROKER, KernelSockets()).run()


@pytest.mark.parametrize(
    ("auth", "good", "none", "foreign"),
    [
        (TlsClientAuth.NONE, True, True, True),
        (TlsClientAuth.OPTIONAL, True, True, False),
        (TlsClientAuth.REQUIRE, True, False, False),
    ],
)
@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3])
async def test_certificates_of_clients(
    tmp_path: Path,
    version: ssl.TLSVersion,
    auth: TlsClientAuth,
    good: bool,
    none: bool,
    foreign: bool,
) -> None:
    """Not asked for, looked at when shown, or needed."""
    options = with_certificate(
        tmp_path,
        tls_server_need_client_auth=auth,
        tls_server_trust_cert_path=str(tmp_path / "trust.pem"),
    )
    served_to: list[bool] = []
    async with served(options) as running:
        for shows in (
            AUTHORITY.issue_cert("client.example"),
            None,
            STRANGER.issue_cert("client.example"),
        ):
            context = client_context(shows=shows)
            context.maximum_version = version
            try:
                answer = await running.secured(context).call(206)
            except (trio.BrokenResourceError, AssertionError):
                served_to.append(False)
            else:
                served_to.append(answer.code == 0)

    assert served_to == [good, none, foreign]


async def test_what_only_looks_like_tls_is_closed(options: BrokerOptions) -> None:
    """Garbage behind the first byte ends that connection alone."""
    async with served(options) as running:
        for garbage in (b"\x16", b"\x16\x03\x01\x00\x05hello", b"\x16" * 1000):
            stream = running.connect()
            await stream.send_all(garbage)
            await stream.send_eof()
            # An alert of TLS may come first.
            while await stream.receive_some(100):
                pass
        assert (await running.secured().call(206)).code == 0
        assert running.broker.statistics().tls_refused == 3


async def test_a_handshake_that_is_not_finished_is_cut_off(
    options: BrokerOptions, autojump_clock: MockClock
) -> None:
    """After ten seconds; a connection that has said nothing may stay as long as any."""
    async with served(options) as running:
        begun, silent = running.connect(), running.connect()
        await begun.send_all(b"\x16\x03\x01")
        started = trio.current_time()

        assert await is_closed(begun)
        assert trio.current_time() - started == pytest.approx(10, abs=0.1)
        await trio.testing.wait_all_tasks_blocked()
        assert running.broker.server.connections == 1
        assert (await Peer(silent).call(206)).code == 0


async def test_a_connection_that_says_nothing_is_closed_when_idle(
    options: BrokerOptions, autojump_clock: MockClock
) -> None:
    """It has a short time to say what it wants."""
    async with served(options) as running:
        assert await is_closed(running.connect())
        assert 30 <= trio.current_time() <= 45


async def test_a_peer_that_closed_its_sending_side_gets_its_answer(
    options: BrokerOptions,
) -> None:
    """Over TLS as without; the farewell of TLS is not needed for it."""
    async with served(options) as running:
        stream = running.secure()
        secure = Peer(stream)
        assert (await secure.call(206)).code == 0
        await secure.send(Command(10, opaque=9, ext=send_ext("T"), body=b"x"))
        await stream.transport_stream.send_eof()
        answer = await secure.receive()

        assert answer is not None
        assert (answer.opaque, answer.code) == (9, 0)
        assert await secure.receive() is None


async def test_a_stop_ends_handshakes_and_silent_connections(
    options: BrokerOptions, autojump_clock: MockClock
) -> None:
    """A stop takes less than a second and waits for none of them."""
    async with served(options) as running:
        silent, begun = running.connect(), running.connect()
        await begun.send_all(b"\x16\x03")
        secure = running.secured()
        await secure.call(206)
        started = trio.current_time()
        await running.broker.server.stop()

        assert trio.current_time() - started < 1
        assert [await is_closed(one) for one in (silent, begun, secure.stream)] == [True] * 3


async def test_a_new_certificate_is_shown_to_new_connections(
    tmp_path: Path, options: BrokerOptions, autojump_clock: MockClock
) -> None:
    """Within seconds; connections that are there stay."""
    async with served(options) as running:
        old = running.secured()
        await old.call(206)
        write_certificate(tmp_path, "new.example")
        await trio.sleep(2)

        assert (await running.secured(host="new.example").call(206)).code == 0
        with pytest.raises(trio.BrokenResourceError):
            await running.secured().call(206)
        assert (await old.call(206)).code == 0


def test_a_bad_new_certificate_leaves_the_old_one(tmp_path: Path, options: BrokerOptions) -> None:
    """It is logged, and shown until it is corrected."""
    tls = Tls(options, KernelSockets())
    good = (tmp_path / "cert.pem").read_bytes()
    (tmp_path / "cert.pem").write_text("no certificate")
    with capture_logs() as logs:
        tls.reload()
        tls.reload()

    assert [log["log_level"] for log in logs] == ["error"]
    assert tls.problem is not None
    assert tls.problem.startswith(f"certificate {tmp_path}/cert.pem with key {tmp_path}/key.pem: ")
    (tmp_path / "cert.pem").write_bytes(good)
    tls.reload()
    assert tls.problem is None


def test_a_mistake_in_reading_certificates_leaves_the_old_ones(
    tmp_path: Path, options: BrokerOptions, monkeypatch: pytest.MonkeyPatch
) -> None:
    """None is known; it would end the broker."""
    tls = Tls(options, KernelSockets())

    def fail(_options: BrokerOptions) -> None:
        raise ZeroDivisionError

    monkeypatch.setattr("timermq.broker.security.tls._load_context", fail)
    (tmp_path / "cert.pem").write_text("another")
    tls.reload()

    assert tls.problem == "ZeroDivisionError"


def test_a_key_with_a_password(tmp_path: Path, options: BrokerOptions) -> None:
    """It is read from a file, with or without an end of line, and is never asked for."""
    key = load_pem_private_key((tmp_path / "key.pem").read_bytes(), None)
    encrypted = key.private_bytes(
        Encoding.PEM, PrivateFormat.PKCS8, BestAvailableEncryption(b"key-secret")
    )
    (tmp_path / "key.pem").write_bytes(encrypted)
    password = tmp_path / "password"
    with_password = attrs.evolve(options, tls_server_key_password_path=str(password))

    with pytest.raises(TlsError, match="the key has a password"):
        Tls(options, KernelSockets())
    for text, reason in (("wrong", "with key"), ("x" * 2000, "at most 1024 bytes")):
        password.write_text(text)
        with pytest.raises(TlsError, match=reason):
            Tls(with_password, KernelSockets())
    password.write_text("key-secret\n")
    assert Tls(with_password, KernelSockets()).problem is None


@pytest.mark.parametrize(
    ("changed", "reason"),
    [
        ({"tls_server_cert_path": "/none.pem"}, "certificate /none.pem with key .*: No such file"),
        ({"tls_server_key_path": "/none.pem"}, "with key /none.pem: No such file"),
        (
            {
                "tls_server_need_client_auth": TlsClientAuth.REQUIRE,
                "tls_server_trust_cert_path": "/none.pem",
            },
            "trusted certificates /none.pem: No such file",
        ),
    ],
)
def test_a_start_with_bad_files_fails(
    options: BrokerOptions, changed: dict[str, Any], reason: str
) -> None:
    """It is said which, and why."""
    with pytest.raises(TlsError, match=reason):
        Rig(options=attrs.evolve(options, **changed))


@pytest.mark.parametrize(
    ("changed", "reason"),
    [
        ({"tls_server_mode": TlsMode.ENFORCING}, "expected a certificate with tls_server_mode"),
        ({"tls_server_key_path": "k"}, "expected a certificate to the key"),
        ({"tls_server_need_client_auth": TlsClientAuth.REQUIRE}, "tls_server_trust_cert_path"),
    ],
)
def test_options_that_do_not_go_together(changed: dict[str, Any], reason: str) -> None:
    """A broker that could serve no client as it was meant does not start."""
    with pytest.raises(ValueError, match=reason):
        attrs.evolve(BROKER, **changed)
