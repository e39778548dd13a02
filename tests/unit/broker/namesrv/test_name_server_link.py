"""Tests of registering with name servers, against scripted ones on streams in memory."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

import attrs
import pytest
import trio
import trio.testing
from structlog.testing import capture_logs

from broker_rig import ADDRESS, BROKER
from timermq.broker.namesrv.name_server_link import NameServerLinks, open_tcp
from timermq.broker.namesrv.own_broker import OwnBroker
from timermq.broker.topic_config import TopicConfig, TopicConfigTable
from timermq.remoting import Command, FrameConnection, connection
from timermq.remoting.registration import (
    Registration,
    body_crc32,
    decode_registration,
    encode_registration,
)


@attrs.define(eq=False)
class NameServer:
    """Keeps what it was told, and answers as the test wants."""

    nursery: trio.Nursery
    address: str = "ns:9876"
    code: int | None = 0
    """Of answers; None: it is silent."""
    is_there: bool = True
    failure: Exception | None = None
    """What opening a connection ends with."""
    route: bytes = b""
    """Of the topic of the broker's name."""
    seen: list[tuple[float, Command]] = attrs.Factory(list[tuple[float, Command]])
    streams: list[trio.abc.Stream] = attrs.Factory(list[trio.abc.Stream])
    tries: list[float] = attrs.Factory(list[float])
    hosts: set[str] = attrs.Factory(set[str])

    async def open(self, host: str, port: int) -> trio.abc.Stream:
        """What the link opens its connections with."""
        await trio.lowlevel.checkpoint()
        self.hosts.add(host)
        assert port == 9876
        self.tries.append(trio.current_time())
        if not self.is_there:
            raise OSError("nothing listens there")
        if self.failure is not None:
            raise self.failure
        ours, theirs = trio.testing.memory_stream_pair()
        self.streams.append(ours)
        self.nursery.start_soon(self._serve, ours)
        return theirs

    async def _serve(self, stream: trio.abc.Stream) -> None:
        frames = FrameConnection()
        with contextlib.suppress(trio.ClosedResourceError):
            while data := await stream.receive_some():
                frames.receive_data(bytes(data))
                for command in frames.events():
                    self.seen.append((trio.current_time(), command))
                    if self.code is not None:
                        body = self.route if command.code == 105 else b""
                        answer = command.answer(self.code, body=body)
                        await stream.send_all(frames.encode(answer))

    def times(self) -> list[int]:
        """When the broker registered, seconds."""
        return [round(time) for time, one in self.seen if one.code == 103]

    def codes(self) -> list[int]:
        """Codes of what was told."""
        return [command.code for _, command in self.seen]

    def registration(self) -> Registration:
        """What the broker registered last, with its checksum compared."""
        command = [one for _, one in self.seen if one.code == 103][-1]
        assert command.ext["bodyCrc32"] == str(body_crc32(command.body))
        return decode_registration(command.body, "broker-a", compressed=False)


@attrs.frozen(eq=False)
class Scene:
    """A broker's topics, and its registration with one name server."""

    server: NameServer
    topics: TopicConfigTable
    links: NameServerLinks
    rivals: list[str]
    """Other masters of the broker's name that it has seen."""

    def make(self, *names: str) -> None:
        """Make topics of these names at the broker."""
        for name in names:
            self.topics.put(TopicConfig(topic_name=name))


def test_what_the_file_keeps_of_other_versions_is_not_registered() -> None:
    """Name servers do not know it, and its keys may be numbers and objects, which JSON has not."""
    topics = TopicConfigTable(BROKER, now_ms=lambda: 1_700_000_000_000, level_max=18)
    topics.put(TopicConfig(topic_name="T", rest={"later": {7: 1, (("a", 1),): 2}}))
    own = OwnBroker(options=BROKER, topics=topics, address=ADDRESS)
    body = encode_registration(
        own.version(), [one.to_json() for one in own.registered_topics().values()]
    )

    assert "T" in decode_registration(body, "broker-a", compressed=False).topics
    assert b"later" not in body


@asynccontextmanager
async def scene(
    *, code: int | None = 0, is_there: bool = True, address: str = "ns:9876"
) -> AsyncGenerator[Scene, None]:
    """A broker that registers with one name server for the length of a block."""
    async with trio.open_nursery() as nursery:
        server = NameServer(nursery, address=address, code=code, is_there=is_there)
        topics = TopicConfigTable(BROKER, now_ms=lambda: 1_700_000_000_000, level_max=18)
        own = OwnBroker(options=BROKER, topics=topics, address=ADDRESS)
        rivals: list[str] = []
        own.on_rival = rivals.append
        links = NameServerLinks([server.address], own, server.open)
        topics.on_change(links.changed)
        nursery.start_soon(links.run)
        yield Scene(server, topics, links, rivals)
        nursery.cancel_scope.cancel()


async def test_registering(autojump_clock: trio.testing.MockClock) -> None:
    """At once and every 30 seconds on one connection, with all topics, never exactly one."""
    async with scene() as found:
        found.make("T")
        await trio.sleep(100)
        first = found.server.seen[0][1]

        assert found.server.times() == [0, 30, 60, 90]
        assert len(found.server.streams) == 1
        assert first.ext == {
            "bodyCrc32": first.ext["bodyCrc32"],
            "brokerAddr": ADDRESS,
            "brokerId": "0",
            "brokerName": "broker-a",
            "clusterName": "DefaultCluster",
            "compressed": "false",
            "enableActingMaster": "false",
            "haServerAddr": "",
        }
        assert first.version == 479
        registered = found.server.registration()
        assert registered.version.counter == 1
        assert registered.topics["T"].write_queue_nums == 8
        assert len(registered.topics) > 1
        (state,) = found.links.states()
        assert (state.is_registered, state.registrations, state.error) == (True, 4, None)


async def test_an_address_of_ipv6(autojump_clock: trio.testing.MockClock) -> None:
    """Its brackets are no part of the host."""
    async with scene(address="[::1]:9876") as found:
        await trio.sleep(1)

        assert found.server.hosts == {"::1"}
        assert found.links.states()[0].is_registered


async def test_a_change_is_told_at_once(autojump_clock: trio.testing.MockClock) -> None:
    """A crowd of changes in one registration."""
    async with scene() as found:
        await trio.sleep(10)
        found.make("T")
        await trio.sleep(0.1)

        assert found.server.times() == [0, 10]
        assert "T" in found.server.registration().topics
        for number in range(50):
            found.make(f"T{number}")
            await trio.sleep(0.01)
        await trio.sleep(2)

        assert "T49" in found.server.registration().topics
        assert len(found.server.seen) <= 4


async def test_a_change_is_told_alone(autojump_clock: trio.testing.MockClock) -> None:
    """What an operator has set in the name server for other topics holds on; 30 s later all."""
    async with scene() as found:
        found.make("A", "B")
        await trio.sleep(10)
        found.make("T")
        found.topics.put(TopicConfig(topic_name="B", write_queue_nums=4))
        await trio.sleep(2)
        alone = found.server.registration()
        await trio.sleep(30)

        assert alone.topics.keys() == {"B", "T"}
        assert alone.version.counter == found.server.registration().version.counter
        assert found.server.registration().topics.keys() > {"A", "B", "T"}
        assert found.server.times() == [0, 10, 40]


async def test_a_topic_that_goes_is_followed_by_a_whole_registration(
    autojump_clock: trio.testing.MockClock,
) -> None:
    """As every registration was: name servers may be set up to forget what is not in it."""
    async with scene() as found:
        found.make("A", "B")
        await trio.sleep(10)
        found.topics.delete("B")
        await trio.sleep(2)

        assert "A" in found.server.registration().topics
        assert "B" not in found.server.registration().topics


async def test_a_connection_that_breaks_is_made_again(
    autojump_clock: trio.testing.MockClock,
) -> None:
    """After a second, with a whole registration, however often it happens."""
    async with scene() as found:
        await trio.sleep(10)
        for _ in range(2):
            await found.server.streams[-1].aclose()
            await trio.sleep(5)

        assert found.server.times() == [0, 11, 16]
        assert len(found.server.registration().topics) > 1


async def test_a_name_server_that_is_not_there(autojump_clock: trio.testing.MockClock) -> None:
    """It is tried with longer and longer pauses, up to 30 seconds, until it is there."""
    async with scene(is_there=False) as found:
        await trio.sleep(100)
        (state,) = found.links.states()

        assert [round(time) for time in found.server.tries] == [0, 1, 3, 7, 15, 31, 61, 91]
        assert (state.is_registered, state.error) == (False, "nothing listens there")
        found.server.is_there = True
        await trio.sleep(30)
        assert state.is_registered
        assert state.error is None


@pytest.mark.parametrize(
    ("code", "tries", "error"),
    [(1, [0, 1, 3, 7], "refused with 1: None"), (None, [0, 25], "no answer within 24 s")],
)
async def test_a_name_server_that_refuses_or_is_silent(
    autojump_clock: trio.testing.MockClock, code: int | None, tries: list[int], error: str
) -> None:
    """It is retried on a new connection."""
    async with scene(code=code) as found:
        await trio.sleep(10 if code is not None else 30)
        (state,) = found.links.states()

        assert [round(time) for time in found.server.tries] == tries
        assert state.error == error


async def test_more_topics_than_a_frame_holds(
    autojump_clock: trio.testing.MockClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The broker serves on, and registers once there are fewer.

    The frame is made small: 43,000 topics with long names, which fill a real one, take too long.
    """
    monkeypatch.setattr(connection, "FRAME_SIZE_MAX", 20_000)
    async with scene() as found:
        await trio.sleep(10)
        (state,) = found.links.states()
        assert state.is_registered
        with capture_logs() as logs:
            found.make(*(f"{number:0127}" for number in range(100)))
            await trio.sleep(20)

        assert not state.is_registered
        assert "expected a header" in str(state.error)
        # Once for the topics alone, once for all of them: as often as there is something new.
        assert ["not registered"] * 2 == [one["event"] for one in logs]
        assert logs[-1]["reason"] == state.error
        assert [None] * 2 == [one["exc_info"] for one in logs]
        monkeypatch.undo()
        await trio.sleep(30)
        assert state.is_registered
        assert len(found.server.registration().topics) > 100


async def test_a_host_that_can_be_none() -> None:
    """The resolver does not even ask for it."""
    tried = trio.Event()

    async def open_stream(host: str, port: int) -> trio.abc.Stream:
        try:
            return await open_tcp(host, port)
        finally:
            tried.set()

    topics = TopicConfigTable(BROKER, now_ms=lambda: 1_700_000_000_000, level_max=18)
    own = OwnBroker(options=BROKER, topics=topics, address=ADDRESS)
    links = NameServerLinks(["ns..local:9876"], own, open_stream)
    (state,) = links.states()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(links.run)
        await tried.wait()
        await trio.testing.wait_all_tasks_blocked()
        nursery.cancel_scope.cancel()

    assert "label empty or too long" in str(state.error)


@pytest.mark.parametrize(
    ("failure", "is_told"),
    [(trio.ClosedResourceError("closed"), False), (ZeroDivisionError("a mistake"), True)],
)
async def test_whatever_goes_wrong_with_a_name_server_is_tried_again(
    autojump_clock: trio.testing.MockClock, failure: Exception, is_told: bool
) -> None:
    """A mistake of ours too: it is logged once, with its place."""
    async with scene() as found:
        found.server.failure = failure
        with capture_logs() as logs:
            await trio.sleep(10)
        (state,) = found.links.states()

        assert [round(time) for time in found.server.tries] == [0, 1, 3, 7]
        assert (state.is_registered, state.error) == (False, str(failure))
        (told,) = logs
        assert (told["event"], told["exc_info"] is not None) == ("not registered", is_told)
        found.server.failure = None
        await trio.sleep(10)
        assert state.is_registered


async def test_an_answer_that_is_none(autojump_clock: trio.testing.MockClock) -> None:
    """What is no frame breaks the connection, not the broker."""
    async with scene(code=None) as found:
        await trio.sleep(0.1)
        await found.server.streams[0].send_all(b"\xff" * 100)
        found.server.code = 0
        await trio.sleep(5)

        assert found.links.states()[0].is_registered


async def test_goodbye(autojump_clock: trio.testing.MockClock) -> None:
    """The broker unregisters and does not register again; silence delays no request for long."""
    async with scene() as found:
        await trio.sleep(1)
        await found.links.say_goodbye()
        await trio.sleep(100)

        assert [one for one in found.server.codes() if one != 105] == [103, 104]
        assert found.server.seen[-1][1].ext["brokerName"] == "broker-a"
    async with scene() as found:
        await trio.sleep(1)
        found.server.code = None
        before = trio.current_time()
        await found.links.say_goodbye()

        assert trio.current_time() - before <= 2
    async with scene(is_there=False) as found:
        await trio.sleep(1)
        await found.links.say_goodbye()


async def test_a_goodbye_that_fails_does_not_hold_up_the_end(
    autojump_clock: trio.testing.MockClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever it is, as when a registration is being sent just then."""
    async with scene() as found:
        await trio.sleep(1)

        def fail(_frames: FrameConnection, _command: Command) -> bytes:
            raise trio.BusyResourceError("another task is using this stream")

        monkeypatch.setattr(FrameConnection, "encode", fail)
        with capture_logs() as logs:
            await found.links.say_goodbye()

    assert [one["event"] for one in logs] == ["goodbye not heard"]


async def test_a_broker_of_the_same_name_is_told_once(
    autojump_clock: trio.testing.MockClock,
) -> None:
    """RocketMQ's name server keeps the one that came last; both would lose messages from sight."""
    own, other = (
        b'{"brokerDatas":[{"brokerAddrs":{"0":"%s"},"brokerName":"broker-a"}],"queueDatas":'
        b'[{"brokerName":"broker-a","perm":7,"readQueueNums":1,"writeQueueNums":1}]}' % address
        for address in (ADDRESS.encode(), b"10.0.0.2:10911")
    )
    async with scene() as found:
        with capture_logs() as logs:
            for route in (b"", b"[", b"{}", own):
                found.server.route = route
                await trio.sleep(30)
            (state,) = found.links.states()
            namesakes = [state.namesake]
            found.server.route = other
            await trio.sleep(100)
            namesakes.append(state.namesake)

        assert namesakes == [None, "10.0.0.2:10911"]
        assert set(found.rivals) == {"10.0.0.2:10911"}
        assert state.is_registered
        (told,) = [one for one in logs if one["log_level"] == "error"]
        assert (told["other"], told["address"]) == ("10.0.0.2:10911", ADDRESS)


def test_a_broker_registers_with_each_address_once() -> None:
    """Of a list with repetitions."""
    options = attrs.evolve(BROKER, namesrv_addr="a:1;b:2;a:1")

    assert options.namesrv_addresses == ["a:1", "b:2"]
    assert not options.serves_namesrv
    assert attrs.evolve(options, namesrv_listen_enable=True).serves_namesrv


@pytest.mark.parametrize("text", ["", "a", "a:1;", "a:1;;b:2", "a:x", "a b:1"])
def test_lists_of_addresses_that_are_none(text: str) -> None:
    """Said when the configuration is read."""
    with pytest.raises(ValueError, match="namesrv_addr: expected HOST:PORT"):
        attrs.evolve(BROKER, namesrv_addr=text)
