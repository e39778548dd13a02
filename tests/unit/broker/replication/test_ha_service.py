"""The links of followers as they are served, over streams in memory and trio's virtual time."""

from __future__ import annotations

import re
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any

import attrs
import pytest
import trio
import trio.testing
from structlog.testing import capture_logs
from trio.testing import MockClock, wait_all_tasks_blocked

from broker_rig import BROKER, open_broker
from fakes import VirtualClock
from timermq.broker.options import BrokerOptions
from timermq.broker.replication.followers import Followers
from timermq.broker.replication.greeting import (
    MAGIC,
    Greeting,
    GreetingReader,
    Refusal,
    encode_greeting,
)
from timermq.broker.replication.ha_frames import (
    EpochTransfer,
    EpochTransferReader,
    Transfer,
    TransferReader,
    encode_epoch_report,
    encode_report,
)
from timermq.broker.replication.ha_service import HaService
from timermq.broker.replication.master_link import MasterIdentity
from timermq.broker.sockets import KernelSockets
from timermq.timerstore.message import Message
from timermq.timerstore.message_store import MessageStore

HELLO = Greeting(broker_name="broker-a", broker_id=1, segment_size=1 << 20, nonce="n")
GREETING = encode_greeting(HELLO)

SOON = 1.0
"""Seconds within which a frame has come, of virtual time."""


@attrs.define
class Slave:
    """The other end of a link, of one of RocketMQ's slaves."""

    stream: trio.abc.Stream
    reader: TransferReader | EpochTransferReader = attrs.Factory(TransferReader)

    async def report(self, offset: int) -> None:
        """Say how far the log is."""
        is_ours = isinstance(self.reader, EpochTransferReader)
        await self.stream.send_all((encode_epoch_report if is_ours else encode_report)(offset))

    async def frames(self, seconds: float = SOON) -> list[Transfer | EpochTransfer]:
        """What comes within so many seconds."""
        found: list[Transfer | EpochTransfer] = []
        with trio.move_on_after(seconds):
            while True:
                data = await self.stream.receive_some()
                assert data, "the master has closed the link"
                for one in self.reader.feed(bytes(data)):
                    assert isinstance(one, Transfer | EpochTransfer)
                    found.append(one)
        return found

    async def is_closed(self) -> bool:
        """Whether the master ends the link, within a minute; what it says before is passed over."""
        with trio.move_on_after(60):
            try:
                while await self.stream.receive_some():
                    pass
            except trio.BrokenResourceError:
                pass
            return True
        return False


@attrs.define
class Served:
    """A service, its store, and a way to link."""

    service: HaService
    store: MessageStore
    nursery: trio.Nursery

    @property
    def followers(self) -> Followers:
        """The followers that are linked."""
        return self.service.followers

    def put(self, body: bytes = b"x") -> int:
        """Store a message; the end of the log."""
        (result,) = self.store.put([Message("T", 0, body)])
        return result.end

    def link(self, host: str = "127.0.0.1", port: int = 1) -> Slave:
        """A new link to the service."""
        ours, theirs = trio.testing.memory_stream_pair()
        self.nursery.start_soon(self.service.serve, theirs, (host, port))
        return Slave(ours)


@asynccontextmanager
async def served(
    options: BrokerOptions = BROKER, *, is_master: bool = True
) -> AsyncGenerator[Served]:
    """A service over a store in memory."""
    store = open_broker(VirtualClock()).store
    options = attrs.evolve(options)
    followers = Followers(options, store.commit_log, trio.current_time)
    service = HaService(
        options,
        MasterIdentity(broker_name="broker-a"),
        store,
        followers,
        KernelSockets(),
        is_master=lambda: is_master,
    )
    async with trio.open_nursery() as nursery:
        await nursery.start(service.run, None)
        yield Served(service, store, nursery)
        nursery.cancel_scope.cancel()


async def test_a_slave_gets_the_log_and_what_it_grows_by(autojump_clock: MockClock) -> None:
    """At once when something is stored, and a heartbeat when nothing is."""
    async with served() as found:
        end = found.put()
        slave = found.link()
        await slave.report(0)
        (first,) = await slave.frames()
        assert (first.offset, first.body) == (0, found.store.commit_log.read(0, end))
        await slave.report(end)
        grown = found.put(b"y" * 20_000)
        (second,) = await slave.frames()
        assert (second.offset, len(second.body)) == (end, grown - end)
        await slave.report(grown)
        beats = await slave.frames(11)

        assert [(one.offset, one.body) for one in beats] == [(grown, b"")] * 2
        (row,) = found.followers.rows()
        assert (row.acknowledged, row.behind, row.is_in_sync) == (grown, 0, True)


async def test_frames_are_as_large_as_the_setting(autojump_clock: MockClock) -> None:
    """And together they are the log."""
    options = attrs.evolve(BROKER, ha_transfer_batch_size=1_024)
    async with served(options) as found:
        end = found.put(b"z" * 10_000)
        slave = found.link()
        await slave.report(0)
        frames = await slave.frames()

        assert max(len(one.body) for one in frames) == 1_024
        assert b"".join(one.body for one in frames) == found.store.commit_log.read(0, end)


async def test_a_link_ends_as_its_follower_is_silent(autojump_clock: MockClock) -> None:
    """It reads and never acknowledges: after ha_housekeeping_interval_ms it is closed."""
    async with served() as found:
        found.put()
        slave = found.link()
        await slave.report(0)
        assert len(await slave.frames(19)) == 4
        assert len(found.followers) == 1

        assert await slave.is_closed()
        assert len(found.followers) == 0


def greeting(**changed: Any) -> bytes:  # noqa: ANN401 - passed on
    """The first bytes of a follower of ours, with something that is not right."""
    return encode_greeting(attrs.evolve(HELLO, **changed))


@pytest.mark.parametrize(
    ("said", "rule", "reason"),
    [
        (b"GET / HTTP/1.1\r\n\r\n", "HA_AHEAD", "expected a log that ends at .*, found one"),
        (b"\xff" * 8, "HA_FRAME", "expected .*, found"),
        (MAGIC + b"\x00\x00\x00\x02{]", "HA_FRAME", "expected .*"),
        (encode_report(1 << 40), "HA_AHEAD", f"found one that ends at {1 << 40}"),
        (encode_report(0) + encode_report(1 << 40), "HA_REPORT", f"expected .* found {1 << 40}"),
        (greeting(segment_size=7), "HA_SEGMENT_SIZE", "expected segments of .*, found 7"),
        (greeting(broker_name="b"), "HA_BROKER_NAME", "expected 'broker-a' .*, found 'b'"),
        (greeting(broker_id=0), "HA_BROKER_ID", "above 0, which is the master's, found 0"),
        (greeting() + encode_epoch_report(0), "HA_BROKER_ID", "found 1, with which .* follows"),
        (b"", "HA_SILENT", "expected a report within 20 s, found none"),
    ],
)
async def test_a_bad_peer_harms_no_other(
    autojump_clock: MockClock, said: bytes, rule: str, reason: str
) -> None:
    """Its mistake is told once a minute, by rule and values; a follower gets all meanwhile."""
    async with served() as found:
        good = found.link()
        await good.stream.send_all(GREETING)
        GreetingReader().feed(bytes(await good.stream.receive_some()))
        good.reader = EpochTransferReader()
        async with trio.open_nursery() as nursery:
            got = bytearray()

            async def follow() -> None:
                await good.report(0)
                while True:
                    got.extend(b"".join(one.body for one in await good.frames()))
                    await good.report(len(got))

            nursery.start_soon(follow)
            await trio.sleep(5)
            with capture_logs() as logs:
                for number in range(4):
                    if number == 3:
                        await trio.sleep(60)
                    bad = found.link(port=10 + number)
                    await bad.stream.send_all(said)
                    found.put()
                    assert await bad.is_closed()
            await trio.sleep(5)
            nursery.cancel_scope.cancel()

        told = [one for one in logs if one["event"] == "follower refused"]
        assert {(one["rule"], one["log_level"]) for one in told} == {(rule, "warning")}
        assert all(re.search(reason, one["reason"]) for one in told)
        assert (found.service.refused, [one["count"] for one in told]) == (4, [1, 3])
        log = found.store.commit_log
        assert bytes(got) == log.read(0, log.max_offset)
        assert [(one.broker_id, one.is_in_sync) for one in found.followers.rows()] == [(1, True)]


async def test_one_that_reads_and_acknowledges_nothing(autojump_clock: MockClock) -> None:
    """It is not in sync, nothing waits for it, and what is kept for it has a bound."""
    options = attrs.evolve(BROKER, in_sync_replicas=2, ha_pinned_size_max=1_000)
    async with served(options) as found:
        found.followers.is_sync = True
        end = found.put(b"x" * 10_000)
        lazy, good = found.link(port=1), found.link(port=2)
        for _ in range(10):
            for one, offset in ((lazy, 0), (good, end)):
                await one.report(offset)
                await one.frames()
            await trio.sleep(5)

        rows = {row.address: row for row in found.followers.rows()}
        assert [rows[f"127.0.0.1:{port}"].is_in_sync for port in (1, 2)] == [False, True]
        assert rows["127.0.0.1:1"].silent_ms > 50_000
        assert (found.followers.confirm_offset(), found.followers.reached()) == (end, end)
        assert found.followers.needed_from() == end - 1_000


@attrs.define(eq=False)
class Clogged(trio.abc.Stream):
    """The master's end of a link on which nothing more goes in the middle of a body."""

    stream: trio.abc.Stream

    async def send_all(self, data: bytes | bytearray | memoryview) -> None:
        """Send all, or a part and then nothing."""
        if len(data) < 10_000:
            await self.stream.send_all(data)
        else:
            await self.stream.send_all(data[:100])
            await trio.sleep_forever()

    async def wait_send_all_might_not_block(self) -> None:
        """Room is as in the stream itself."""
        await self.stream.wait_send_all_might_not_block()

    async def receive_some(self, max_bytes: int | None = None) -> bytes | bytearray:
        """What arrives, as in the stream itself."""
        return await self.stream.receive_some(max_bytes)

    async def aclose(self) -> None:
        """The stream is closed with it."""
        await self.stream.aclose()


async def test_no_refusal_ends_a_frame_that_was_begun(autojump_clock: MockClock) -> None:
    """Its bytes would be taken for those of the log."""
    async with served() as found:
        found.put(b"y" * 50_000)
        ours, theirs = trio.testing.memory_stream_pair()
        clogged = Clogged(theirs)
        found.nursery.start_soon(found.service.serve, clogged, ("127.0.0.1", 1))
        slave = Slave(ours, EpochTransferReader())
        await slave.stream.send_all(GREETING)
        GreetingReader().feed(bytes(await slave.stream.receive_some()))
        await slave.report(0)
        received = bytearray()
        with trio.fail_after(60):
            while data := await slave.stream.receive_some():
                received += data

        assert received.endswith(b"y")
        assert MAGIC not in received


async def test_more_links_than_may_be_are_closed(autojump_clock: MockClock) -> None:
    """Room comes back when one ends."""
    async with served(attrs.evolve(BROKER, ha_followers_max=1)) as found:
        first = found.link()
        await first.report(0)
        assert await found.link(port=2).is_closed()
        await first.stream.aclose()
        await wait_all_tasks_blocked()
        second = found.link(port=3)
        await second.report(0)
        await wait_all_tasks_blocked()

        assert [row.address for row in found.followers.rows()] == ["127.0.0.1:3"]


@pytest.mark.parametrize(
    ("host", "is_taken"), [("127.0.0.1", True), ("::1", True), ("10.0.0.1", False)]
)
async def test_without_tls_this_machine_alone(
    autojump_clock: MockClock, host: str, is_taken: bool
) -> None:
    """Unless the setting says that others may, as RocketMQ's slaves need it."""
    for may in (False, True):
        async with served(attrs.evolve(BROKER, ha_plain_enable=may)) as found:
            slave = found.link(host)
            await slave.report(0)
            await wait_all_tasks_blocked()

            assert len(found.followers) == int(is_taken or may)


async def test_a_follower_of_ours_is_told_why_it_is_refused(autojump_clock: MockClock) -> None:
    """By the name of the rule, so that its operator need not look here."""
    async with served(is_master=False) as found:
        slave = found.link()
        await slave.stream.send_all(GREETING)
        said = GreetingReader().feed(bytes(await slave.stream.receive_some()))

        assert isinstance(said, Refusal)
        assert said.name == "HA_NOT_MASTER"
        assert await slave.is_closed()


async def test_a_follower_of_ours_learns_the_confirm_offset(autojump_clock: MockClock) -> None:
    """Soon after it has moved, also where nothing else is to be sent."""
    async with served() as found:
        slave = found.link()
        await slave.stream.send_all(GREETING)
        GreetingReader().feed(bytes(await slave.stream.receive_some()))
        slave.reader = EpochTransferReader()
        await slave.report(0)
        await slave.frames(0.5)
        end = found.put()
        (frame,) = await slave.frames(0.5)
        await slave.report(end)
        told = await slave.frames(0.5)

        assert isinstance(frame, EpochTransfer)
        assert frame.confirm_offset == 0
        assert [
            (one.body, one.confirm_offset) for one in told if isinstance(one, EpochTransfer)
        ] == [(b"", end)]


async def test_the_wait_for_followers_at_a_stop(autojump_clock: MockClock) -> None:
    """It is over when all that are linked have everything; at once without any."""
    async with served() as found:
        await found.service.drain()
        end = found.put()
        slave = found.link()
        await slave.report(0)
        await wait_all_tasks_blocked()
        with trio.move_on_after(5) as waiting:
            await found.service.drain()
        assert waiting.cancelled_caught
        await slave.report(end)
        await found.service.drain()


async def test_links_end_when_the_broker_leads_no_more(autojump_clock: MockClock) -> None:
    """The follower looks for another master then."""
    async with served() as found:
        slave = found.link()
        await slave.report(0)
        await wait_all_tasks_blocked()
        found.service.end_links("demoted")

        assert await slave.is_closed()
        assert len(found.followers) == 0
