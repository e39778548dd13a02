"""A lease in a real etcd: its answers, its users, its certificates."""

from __future__ import annotations

import functools
import ssl
from collections.abc import AsyncGenerator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path

import attrs
import pytest
import trustme

from etcd_peer import HOST, EtcdPeer, free_port, running_etcd
from timermq.broker.replication.etcd_lease import ABSENT, EtcdLease, EtcdUser
from timermq.broker.replication.json_posts import JsonPosts
from timermq.broker.replication.lease import LeaseError, LeaseRecord, Stored

pytestmark = [pytest.mark.interop]

REQUEST_MS = 6_000.0
RECORD = LeaseRecord(
    holder="a:1", instance="a/1", epoch=1, ttl_ms=10_000, in_sync=frozenset({1, 2})
)
NEXT = attrs.evolve(RECORD, renewals=1)


@pytest.fixture(scope="module")
def etcd(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EtcdPeer]:
    """An etcd that asks for nothing."""
    with running_etcd(tmp_path_factory.mktemp("etcd")) as peer:
        yield peer


@asynccontextmanager
async def lease_in(
    etcd: EtcdPeer, key: str, *others: JsonPosts, user: EtcdUser | None = None
) -> AsyncGenerator[EtcdLease]:
    """A lease by a connection of its own, which is closed at the end."""
    endpoints = [*others, JsonPosts(HOST, etcd.port)]
    lease = EtcdLease(endpoints, key, user=user, request_ms=REQUEST_MS)
    try:
        yield lease
    finally:
        await lease.aclose()


async def test_a_record_is_replaced_by_its_version(etcd: EtcdPeer) -> None:
    """One that is not the newest any more is refused, and the newest told."""
    async with lease_in(etcd, "replaced") as lease:
        assert await lease.read() == Stored(None, ABSENT)
        is_done, first = await lease.replace(RECORD, ABSENT)
        assert is_done
        assert await lease.read() == first

        assert await lease.replace(NEXT, ABSENT) == (False, first)
        is_done, second = await lease.replace(NEXT, first.version)
        assert is_done
        assert second.version != first.version
        assert await lease.replace(RECORD, first.version) == (False, Stored(NEXT, second.version))


async def test_a_deleted_key_refuses_its_old_version(etcd: EtcdPeer) -> None:
    """The one who renews learns that there is no lease any more."""
    async with lease_in(etcd, "deleted") as lease:
        _, first = await lease.replace(RECORD, ABSENT)
        etcd.ctl("del", "deleted")

        assert await lease.replace(NEXT, first.version) == (False, Stored(None, ABSENT))


async def test_a_key_of_another_program_is_refused(etcd: EtcdPeer) -> None:
    """Its value is neither read as a lease nor overwritten."""
    etcd.ctl("put", "foreign", "hello")
    async with lease_in(etcd, "foreign") as lease:
        with pytest.raises(LeaseError, match="expected a record of timermq"):
            await lease.read()
        with pytest.raises(LeaseError, match="expected a record of timermq"):
            await lease.replace(RECORD, ABSENT)


async def test_an_endpoint_that_is_away_is_passed_over(etcd: EtcdPeer) -> None:
    """The next one answers, and is asked first from then on."""
    async with lease_in(etcd, "passed", JsonPosts(HOST, free_port())) as lease:
        assert await lease.read() == Stored(None, ABSENT)


async def test_an_endpoint_that_says_nothing_is_given_up(etcd: EtcdPeer, tmp_path: Path) -> None:
    """It has its part of the time, and the next one the rest; then that one is asked first."""
    with running_etcd(tmp_path) as silent:
        silent.stop()
        async with lease_in(etcd, "silent", JsonPosts(HOST, silent.port)) as lease:
            assert (await lease.replace(RECORD, ABSENT))[0]
        silent.go_on()


async def test_all_endpoints_are_named_when_none_answers() -> None:
    """An operator sees which were asked."""
    ports = [free_port(), free_port()]
    lease = EtcdLease([JsonPosts(HOST, one) for one in ports], "none", request_ms=REQUEST_MS)

    with pytest.raises(LeaseError) as error:
        await lease.read()
    assert all(f"{HOST}:{one}" in str(error.value) for one in ports)


async def test_a_connection_that_ended_is_made_again(tmp_path: Path) -> None:
    """A lease outlives its etcd's restart, and finds its record."""
    with running_etcd(tmp_path) as own:
        async with lease_in(own, "again") as lease:
            _, first = await lease.replace(RECORD, ABSENT)
            own.kill()
            own.start()

            assert await lease.read() == first


async def test_a_user_is_asked_for_a_password(tmp_path: Path) -> None:
    """Without one nothing is read; a token that etcd has forgotten is replaced."""
    with running_etcd(tmp_path) as own:
        own.ctl("user", "add", "root:secret")
        own.ctl("user", "grant-role", "root", "root")
        own.ctl("auth", "enable")
        async with lease_in(own, "kept") as lease:
            with pytest.raises(LeaseError, match="user name is empty"):
                await lease.read()
        wrong = EtcdUser("root", lambda: "guessed")
        async with lease_in(own, "kept", user=wrong) as lease:
            with pytest.raises(LeaseError, match="invalid user ID or password"):
                await lease.read()
        async with lease_in(own, "kept", user=EtcdUser("root", lambda: "secret")) as lease:
            _, first = await lease.replace(RECORD, ABSENT)
            own.kill()
            own.start()  # it has forgotten its tokens
            assert await lease.read() == first


async def test_certificates_of_both_sides(tmp_path: Path) -> None:
    """Etcd takes clients with a certificate alone, and is known by its own."""
    authority, stranger = trustme.CA(), trustme.CA()
    issued = authority.issue_cert(HOST)
    issued.private_key_pem.write_to_path(tmp_path / "key.pem")
    (tmp_path / "cert.pem").write_bytes(b"".join(one.bytes() for one in issued.cert_chain_pems))
    authority.cert_pem.write_to_path(tmp_path / "trust.pem")

    def context(trusted: trustme.CA) -> ssl.SSLContext:
        made = ssl.create_default_context()
        trusted.configure_trust(made)  # pyright: ignore[reportUnknownMemberType] - theirs
        issued.configure_cert(made)  # pyright: ignore[reportUnknownMemberType] - theirs
        return made

    with running_etcd(tmp_path, certificates=tmp_path) as own:
        for trusted, is_known in ((authority, True), (stranger, False)):
            posts = JsonPosts(HOST, own.port, functools.partial(context, trusted))
            lease = EtcdLease([posts], "tls", request_ms=REQUEST_MS)
            if is_known:
                assert (await lease.replace(RECORD, ABSENT))[0]
            else:
                with pytest.raises(LeaseError, match=f"{HOST}:{own.port}"):
                    await lease.read()
            await lease.aclose()
