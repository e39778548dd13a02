"""Tests of snapshots for watchers."""

from __future__ import annotations

from itertools import pairwise

import attrs
import cbor2
import pytest
import trio
from trio.testing import MockClock

from broker_rig import (
    BROKER,
    ID_PREFIX,
    Peer,
    RecordingSession,
    Rig,
    RunningBroker,
    running_broker,
    send_ext,
)
from timermq.broker.watching import watch_processor
from timermq.remoting import Coding, Snapshot, WatchView

WATCH, UNWATCH = 9003, 9004


def later(key: str, deliver_ms: int) -> str:
    """Properties of a message that waits."""
    return f"UNIQ_KEY\x01{ID_PREFIX}{key}\x02TIMER_DELIVER_MS\x01{deliver_ms}\x02"


async def snapshot(peer: Peer) -> Snapshot:
    """The next one that is pushed."""
    command = await peer.receive()
    assert command is not None
    assert (WATCH, True) == (command.code, command.is_oneway)
    return Snapshot.decode(command.body)


async def watch(peer: Peer, view: WatchView | None = None) -> None:
    """Begin to watch with a view, the default one unless given."""
    answer = await peer.call(WATCH, body=(view or WatchView()).encode(), coding=Coding.CBOR)
    assert answer.code == 0, answer.remark


async def send_later(peer: Peer, running: RunningBroker, topic: str, delay_ms: int) -> None:
    """Send a message that waits for ``delay_ms`` from now."""
    deliver_ms = running.clock.now_ms() + delay_ms
    answer = await peer.call(10, send_ext(topic, later(f"{topic}{delay_ms}", deliver_ms)), b"x")
    assert answer.code == 0, answer.remark


async def test_snapshots_come_four_times_a_second(autojump_clock: MockClock) -> None:
    """The client asks once; the pictures show what waits, and that time goes by."""
    async with running_broker() as running:
        sender, peer = running.connect(), running.connect()
        for delay_ms in (5_000, 5_000, 62_000):
            await send_later(sender, running, "T", delay_ms)
        await send_later(sender, running, "Other", 7_000)
        await trio.sleep(1)
        await watch(peer, WatchView(count=60))
        first = await snapshot(peer)
        begun = trio.current_time()
        others = [await snapshot(peer) for _ in range(8)]

        assert 2.0 == pytest.approx(trio.current_time() - begun)
        assert 2_000 == others[-1].uptime_ms - first.uptime_ms
        assert 4 == first.pending
        assert 3 == sum(first.buckets)
        assert 60 == len(first.buckets)
        assert 2 == first.slots[0][1]
        assert (("T", 3), ("Other", 1)) == first.topics
        assert ("SAFE", 1_000, "127.0.0.1:10911") == (first.clock, first.width_ms, first.address)
        assert (4, 4, 4, 0) == (
            first.counters.sent,
            first.counters.timers,
            first.counters.enqueued,
            first.enqueue_lag,
        )
        assert first.memory_size > first.memory_own_size > 0


async def test_one_reading_serves_all(autojump_clock: MockClock) -> None:
    """Ten watchers cost one reading a tick; without a watcher there is none."""
    async with running_broker() as running:
        processor = running.broker.processors.watch
        await trio.sleep(60)
        assert 0 == processor.readings

        peers = [running.connect() for _ in range(10)]
        for peer in peers:
            await watch(peer, WatchView(count=peers.index(peer) + 1))
        for peer in peers:
            await snapshot(peer)
        readings = processor.readings
        for _ in range(4):
            assert 1 == len({(await snapshot(peer)).now_ms for peer in peers})

        assert 4 == processor.readings - readings


async def test_a_view_is_changed(autojump_clock: MockClock) -> None:
    """A further WATCH of the same connection replaces the first."""
    async with running_broker() as running:
        sender, peer = running.connect(), running.connect()
        await send_later(sender, running, "Orders", 5_000)
        await send_later(sender, running, "Reminders", 5_000)
        await watch(peer)
        await watch(peer, WatchView(width_ms=60_000, count=2, topic="Ord"))
        commands = [await peer.receive() for _ in range(3)]
        newest = await snapshot(peer)

        assert 1 == running.broker.processors.watch.watchers
        assert all(command is not None for command in commands)
        assert (60_000, 2, 0) == (newest.width_ms, len(newest.buckets), newest.from_ms % 60_000)
        assert ((("Orders", 1),), 1) == (newest.topics, newest.topic_count)


async def test_an_interval_is_kept(autojump_clock: MockClock) -> None:
    """Who asks for fewer gets fewer."""
    async with running_broker() as running:
        peer = running.connect()
        await watch(peer, WatchView(interval_ms=2_000))
        uptimes = [(await snapshot(peer)).uptime_ms for _ in range(4)]

        assert [2_000] * 3 == [new - old for old, new in pairwise(uptimes)]


async def test_unwatch(autojump_clock: MockClock) -> None:
    """After UNWATCH nothing comes, and the broker is not read any more; WATCH begins again."""
    async with running_broker() as running:
        peer, processor = running.connect(), running.broker.processors.watch
        await watch(peer)
        await snapshot(peer)
        answer = await peer.call(UNWATCH)
        readings = processor.readings
        with trio.move_on_after(30) as waiting:
            await peer.receive()

        assert (0, 0, True) == (answer.code, processor.watchers, waiting.cancelled_caught)
        assert readings == processor.readings

        await watch(peer)
        assert 256 == len((await snapshot(peer)).buckets)


async def test_a_watcher_that_leaves(autojump_clock: MockClock) -> None:
    """A connection that ends is forgotten, and the others go on."""
    async with running_broker() as running:
        leaver, stayer, processor = (
            running.connect(),
            running.connect(),
            running.broker.processors.watch,
        )
        await watch(leaver)
        await watch(stayer)
        await snapshot(stayer)
        await leaver.stream.aclose()
        for _ in range(3):
            await snapshot(stayer)
        assert 1 == processor.watchers

        await stayer.stream.aclose()
        await trio.sleep(1)
        assert 0 == processor.watchers
        readings = processor.readings
        await trio.sleep(60)

        assert readings == processor.readings


async def test_a_slow_watcher_gets_fewer_frames(autojump_clock: MockClock) -> None:
    """One that does not read delays no other, and behind one old frame it sees the present."""
    async with running_broker() as running:
        slow, quick = running.connect_lockstep(), running.connect()
        await watch(slow)
        await watch(quick)
        before = [await snapshot(quick) for _ in range(120)]
        now_ms = running.clock.now_ms()
        stale = await snapshot(slow)
        fresh = await snapshot(slow)

        assert 29_750 == before[-1].now_ms - before[0].now_ms
        assert stale.now_ms < now_ms - 29_000
        assert fresh.now_ms >= now_ms


def test_too_many_watchers() -> None:
    """One more is refused by name; a place that somebody left is free at once."""
    rig = Rig(options=attrs.evolve(BROKER, watchers_max=2))
    peers = [RecordingSession() for _ in range(3)]
    codes = [rig.call(WATCH, peer=peer).code for peer in peers[:2]]
    refused = rig.call(WATCH, peer=peers[2])

    assert [0, 0] == codes
    assert (2, "WATCHERS_MAX: [OVERLOAD] 2 connections watch this broker") == (
        refused.code,
        refused.remark,
    )
    assert 0 == rig.call(WATCH, peer=peers[0]).code

    rig.broker.dispatcher.close(peers[1].session)
    assert 0 == rig.call(WATCH, peer=peers[2]).code


def test_a_malformed_view() -> None:
    """It is refused, and there is no watcher."""
    rig = Rig()
    refused = rig.call(WATCH, body=cbor2.dumps({"count": 0}))

    assert (29, "WATCH_BODY: count: expected 1 to 512, found 0") == (refused.code, refused.remark)
    assert 0 == rig.broker.processors.watch.watchers


async def test_a_reading_that_fails(
    autojump_clock: MockClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The watchers are sent away, and the broker serves on."""
    async with running_broker() as running:
        peer = running.connect()
        source = running.broker.processors.watch.source

        def fail(_source: object) -> None:
            raise ValueError("a wheel without spokes")

        monkeypatch.setattr(type(source), "read", fail)
        await watch(peer)
        assert await peer.receive() is None

        monkeypatch.undo()
        again = running.connect()
        await watch(again)
        assert 256 == len((await snapshot(again)).buckets)


async def test_a_costly_reading_makes_the_next_wait(
    autojump_clock: MockClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Watching takes at most two per cent of the broker's time."""
    async with running_broker() as running:
        peer = running.connect()
        read = type(running.broker.processors.watch.source).read

        def costly(source: object) -> object:
            autojump_clock.jump(0.02)
            return read(source)  # type: ignore[arg-type]

        monkeypatch.setattr(type(running.broker.processors.watch.source), "read", costly)
        await watch(peer)
        uptimes = [(await snapshot(peer)).uptime_ms for _ in range(3)]

        assert [1_020] * 2 == [new - old for old, new in pairwise(uptimes)]


def test_ticks_are_bounded() -> None:
    """Four frames a second, for all watchers."""
    assert 0.25 == watch_processor.TICK
