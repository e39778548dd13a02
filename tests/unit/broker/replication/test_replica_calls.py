"""Requests to other replicas: to a broker that runs, and to what is none."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

import pytest
import trio
import trio.testing

from broker_rig import RunningBroker, running_broker, send_ext
from timermq.broker.replication.log_digest import log_digest
from timermq.broker.replication.replica_calls import (
    NoReplicaError,
    ReplicaCalls,
    ReplicaRefusedError,
)
from timermq.pipeline.records.deduplication import without_origin

AT = "10.0.0.1:10911"


@asynccontextmanager
async def asked() -> AsyncGenerator[tuple[ReplicaCalls, RunningBroker]]:
    """Requests to a broker that has one message; each has a connection of its own."""
    async with running_broker() as running:
        peer = running.connect()
        assert (await peer.call(10, send_ext("T"), b"hello")).code == 0

        async def open_stream(host: str, port: int) -> trio.abc.Stream:
            assert (host, port) == ("10.0.0.1", 10_911)
            return running.connect().stream

        yield ReplicaCalls(open_stream), running


async def test_what_a_replica_tells(autojump_clock: trio.testing.MockClock) -> None:
    """Its epochs and its log, the digest of bytes, a record."""
    async with asked() as (calls, running):
        log = running.broker.store.commit_log
        report = await calls.epochs(AT)
        size = log.max_offset
        digest = await calls.digest(AT, 0, size)
        beyond = await calls.digest(AT, 0, size + 1)
        record = await calls.record(AT, 0)
        missing = await calls.record(AT, 1)

        assert (report.is_master, report.max_offset) == (True, size)
        assert (digest, beyond) == (log_digest(log, 0, size), None)
        assert (record, missing) == (without_origin(log.read(0, size)), None)


async def test_what_a_replica_refuses(autojump_clock: trio.testing.MockClock) -> None:
    """The error has its code, and its words."""
    async with asked() as (calls, _):
        with pytest.raises(ReplicaRefusedError, match="NOT_A_FOLLOWER") as caught:
            await calls.promote(AT, offset=0, epoch=1)
        with pytest.raises(ReplicaRefusedError, match="LOWER_EPOCH"):
            await calls.tell(AT, master="10.0.0.2:10911", epoch=-1)

    assert caught.value.code == 604


async def test_brokers_of_a_name(autojump_clock: trio.testing.MockClock) -> None:
    """As a name server has them; of another name there are none."""
    async with asked() as (calls, running):
        found = await calls.brokers(AT, "broker-a")
        others = await calls.brokers(AT, "broker-b")

    assert (found, others) == ({running.broker.endpoint.address: 0}, {})


@pytest.mark.parametrize("sent", [b"", b"HTTP/1.1 400 Bad Request\r\n\r\n", bytes(64)])
async def test_what_is_no_replica(sent: bytes, autojump_clock: trio.testing.MockClock) -> None:
    """A port that closes, or speaks otherwise, is told by its address."""

    async def open_stream(_host: str, _port: int) -> trio.abc.Stream:
        ours, theirs = trio.testing.memory_stream_pair()
        await theirs.send_all(sent)
        await theirs.send_eof()
        return ours

    with pytest.raises(NoReplicaError, match=AT):
        await ReplicaCalls(open_stream).epochs(AT)


async def test_a_replica_that_is_not_there(autojump_clock: trio.testing.MockClock) -> None:
    """It refuses the connection, says nothing, or has no address that could be one."""

    async def refuse(_host: str, _port: int) -> trio.abc.Stream:
        raise ConnectionRefusedError(111, "Connection refused")

    async def stay_silent(_host: str, _port: int) -> trio.abc.Stream:
        return trio.testing.memory_stream_pair()[0]

    for address, open_stream, why in (
        (AT, refuse, "refused"),
        (AT, stay_silent, "no answer within 3 s"),
        ("nowhere", refuse, "nowhere"),
    ):
        with pytest.raises(NoReplicaError, match=why):
            await ReplicaCalls(open_stream).epochs(address)
