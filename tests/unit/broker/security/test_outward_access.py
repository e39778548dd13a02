"""How a broker comes in at others: an account that is read again, and whom it speaks TLS to."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path

import attrs
import pytest
import trio
import trio.testing
import trustme
from structlog.testing import capture_logs
from trio.testing import MockClock

from broker_rig import BROKER, open_broker, send_ext
from fakes import VirtualClock
from pair_rig import FOLLOWS, pair
from signed import RULES, SECRET, write_rules
from timermq.broker.options import BrokerOptions, TlsMode
from timermq.broker.replication.follow_state import FollowError
from timermq.broker.replication.master_calls import MasterCalls
from timermq.broker.replication.replica_calls import NoReplicaError, ReplicaCalls
from timermq.broker.security.outward_access import OutwardAccess
from timermq.broker.security.tls import TlsError
from timermq.remoting import Command
from timermq.remoting.credentials import CredentialsError
from timermq.remoting.signature import ACCESS_KEY, SIGNATURE, SigningKey

AT = "10.0.0.1"


def write_account(path: Path, access_key: str = "the-admin", secret: str = SECRET) -> str:
    """The path of a file with an account."""
    path.write_text(f"accessKey: {access_key}\nsecretKey: {secret}\n")
    return str(path)


async def no_stream(_host: str, _port: int) -> trio.abc.Stream:
    """Refuse each connection, as a closed port does."""
    raise ConnectionRefusedError(111, "Connection refused")


def of(**settings: object) -> OutwardAccess:
    """The access of a broker with some settings, which connects to nothing."""
    return OutwardAccess(BrokerOptions(**settings), no_stream)  # type: ignore[arg-type]


def test_requests_are_signed_with_the_account(tmp_path: Path) -> None:
    """As a client of it would; without an account they stay as they are."""
    command = Command(26, ext={"a": "1"})
    signed = of(credentials_file=write_account(tmp_path / "tools.yml")).sign(command)

    assert signed.ext[ACCESS_KEY] == "the-admin"
    assert signed.ext[SIGNATURE] == SigningKey(SECRET).sign(b"the-admin1")
    assert of().sign(command) is command


def test_a_changed_account_counts_at_once(tmp_path: Path) -> None:
    """A file that holds none leaves the old account in force, and that is told once."""
    path = tmp_path / "tools.yml"
    access = of(credentials_file=write_account(path))
    write_account(path, "another-admin")
    assert access.sign(Command(26)).ext[ACCESS_KEY] == "another-admin"
    with capture_logs() as logs:
        path.write_text("hidden-secret")
        for _ in range(3):
            assert access.sign(Command(26)).ext[ACCESS_KEY] == "another-admin"

    (line,) = logs
    assert line["event"] == "account not read, the old one stays in force"
    assert str(path) in line["reason"]
    assert SECRET not in line["reason"]


@pytest.mark.parametrize("text", [None, "accessKey: a", "hidden-secret"])
def test_an_account_that_cannot_be_used(tmp_path: Path, text: str | None) -> None:
    """It is an error at the start, which names setting and file, and nothing of its content."""
    path = tmp_path / "tools.yml"
    if text is not None:
        path.write_text(text)
    with pytest.raises(CredentialsError, match=f"credentials_file {path}: ") as caught:
        of(credentials_file=str(path))

    assert SECRET not in str(caught.value)


def test_certificates_that_cannot_be_used(tmp_path: Path) -> None:
    """They are an error at the start, if a setting wants TLS towards replicas."""
    gone = str(tmp_path / "gone.pem")
    with pytest.raises(TlsError, match=r"trusted certificates .*gone.pem"):
        of(replica_tls_enable=True, tls_client_trust_cert_path=gone)
    of(tls_client_trust_cert_path=gone)


@pytest.mark.parametrize(
    ("settings", "replica", "name_server"),
    [
        ({}, False, False),
        ({"namesrv_tls_enable": True}, False, True),
        ({"replica_tls_enable": True}, True, True),
        ({"replica_tls_enable": True, "namesrv_addr": f"{AT}:9876"}, True, False),
    ],
)
async def test_who_is_spoken_tls_to(
    *, settings: dict[str, object], replica: bool, name_server: bool
) -> None:
    """A follower without name servers registers at its master, over TLS if that is asked so."""
    begun: list[bytes] = []

    async def open_stream(_host: str, _port: int) -> trio.abc.Stream:
        ours, theirs = trio.testing.memory_stream_pair()

        async def close() -> None:
            begun.append(bytes(await theirs.receive_some(1)))
            await theirs.aclose()

        nursery.start_soon(close)
        return ours

    access = OutwardAccess(BrokerOptions(**settings), open_stream)  # type: ignore[arg-type]
    async with trio.open_nursery() as nursery:
        for opened, is_secure in (
            (access.open_replica, replica),
            (access.open_name_server, name_server),
        ):
            begun.clear()
            if is_secure:
                with pytest.raises(ConnectionError, match="no TLS: "):
                    await opened(AT, 10_911)
                assert begun == [b"\x16"]
            else:
                await (await opened(AT, 10_911)).send_all(b"x")
                await trio.testing.wait_all_tasks_blocked()
                assert begun == [b"x"]


async def test_a_follower_of_a_master_with_accounts(
    autojump_clock: MockClock, tmp_path: Path
) -> None:
    """Without an account it does not follow, and says so; with an administrator's it does."""
    rules = write_rules(tmp_path, f"globalWhiteRemoteAddresses: [{AT}]\n{RULES}")
    guarded = attrs.evolve(BROKER, acl_enable=True, acl_file=rules)
    account = tmp_path / "tools.yml"
    async with pair() as two:
        master = await two.start_master(guarded)
        assert (await master.connect(AT).call(10, send_ext("T"), b"hello")).code == 0
        follower = await two.start_follower()
        state = follower.broker.tables.follow_state
        await trio.sleep(2)
        assert state.error is not None
        assert (state.error.name, state.is_linked) == ("ACCOUNT", False)
        assert "credentials_file" in state.error.text
        await two.kill_follower()

        powerless = write_account(account, "producer")
        follower = await two.start_follower(attrs.evolve(FOLLOWS, credentials_file=powerless))
        state = follower.broker.tables.follow_state
        await trio.sleep(2)
        assert state.error is not None
        assert state.error.name == "ACCOUNT"

        write_account(account)
        await two.linked()
        await two.level()
        assert follower.broker.tables.topics.to_json() == master.broker.tables.topics.to_json()


@asynccontextmanager
async def on_a_port(options: BrokerOptions) -> AsyncGenerator[int]:
    """A broker on a port of this machine, which it gives."""
    (listener,) = await trio.open_tcp_listeners(0, host="127.0.0.1")
    port = int(listener.socket.getsockname()[1])
    broker = open_broker(
        VirtualClock(), options=options, listeners=(listener,), address=f"127.0.0.1:{port}"
    )
    async with trio.open_nursery() as nursery:
        await nursery.start(broker.run)
        yield port
        broker.request_stop()


async def test_a_replica_that_takes_tls_alone(tmp_path: Path) -> None:
    """Its certificate is checked for the address; a follower without TLS is told of the setting."""
    authority = trustme.CA()
    certificate, trusted = tmp_path / "both.pem", tmp_path / "trust.pem"
    issued = authority.issue_cert("127.0.0.1")
    issued.private_key_and_cert_chain_pem.write_to_path(certificate)
    authority.cert_pem.write_to_path(trusted)
    guarded = attrs.evolve(
        BROKER, tls_server_cert_path=str(certificate), tls_server_mode=TlsMode.ENFORCING
    )
    over_tls = attrs.evolve(
        BROKER, replica_tls_enable=True, tls_client_trust_cert_path=str(trusted)
    )
    calls = ReplicaCalls.of(OutwardAccess(over_tls, trio.open_tcp_stream))
    plain = OutwardAccess(BROKER, trio.open_tcp_stream)
    async with on_a_port(guarded) as port:
        assert (await calls.epochs(f"127.0.0.1:{port}")).is_master
        async with await plain.open_replica("127.0.0.1", port) as stream:
            with pytest.raises(FollowError, match="replica_tls_enable"):
                await MasterCalls(stream, plain.sign).facts()
        trustme.CA().cert_pem.write_to_path(trusted)
        with pytest.raises(NoReplicaError, match="no TLS: CERTIFICATE_VERIFY_FAILED"):
            await calls.epochs(f"127.0.0.1:{port}")
