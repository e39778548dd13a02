"""The snapshot for watchers: read once, and made for each view once."""

from __future__ import annotations

import attrs
import pytest
import trio
from trio.testing import MockClock

from broker_rig import Rig, running_broker, send_ext
from fakes import START_MS
from timermq.broker.watching.watch_snapshot import SnapshotSource
from timermq.remoting.watch import TOPICS_MAX, Snapshot, WatchView


def source_of(rig: Rig) -> SnapshotSource:
    """The source of its snapshots."""
    return rig.broker.processors.watch.source


def seen(rig: Rig, view: WatchView | None = None) -> Snapshot:
    """A snapshot of the broker as it is now."""
    return source_of(rig).read().snapshot(view or WatchView())


async def test_buckets_begin_at_a_multiple_of_their_width(autojump_clock: MockClock) -> None:
    """So those of two snapshots in a row can be laid over each other."""
    rig = Rig()
    rig.clock.time_ms = START_MS + 1_234

    assert seen(rig, WatchView(width_ms=1_000)).from_ms == START_MS + 1_000
    assert seen(rig, WatchView(width_ms=60_000)).from_ms == START_MS // 60_000 * 60_000


async def test_time_that_the_broker_serves_counts_from_its_start(
    autojump_clock: MockClock,
) -> None:
    """Before that it is none."""
    rig = Rig()
    source = source_of(rig)
    await trio.sleep(5)
    assert source.read().uptime_ms == 0
    source.start()
    await trio.sleep(3)

    assert source.read().uptime_ms == pytest.approx(3_000)


async def test_a_view_is_encoded_once(autojump_clock: MockClock) -> None:
    """How often a watcher wants it makes no other view; its topic does."""
    snapshot = source_of(Rig()).read()
    body = snapshot.body(WatchView())

    assert snapshot.body(attrs.evolve(WatchView(), interval_ms=60_000)) is body
    assert snapshot.body(WatchView(topic="T")) is not body


async def test_without_access_control_nothing_is_said_of_logins(
    autojump_clock: MockClock,
) -> None:
    """The number of failures stays zero, and there is no time of one."""
    snapshot = seen(Rig())

    assert (snapshot.failed_logins, snapshot.missing_rights) == (0, 0)
    assert (snapshot.failed_login_ms, snapshot.door_problem) == (None, None)


async def test_the_topics_with_the_most_pending_messages_are_named(
    autojump_clock: MockClock,
) -> None:
    """The others are counted; a view may ask for names that contain a text."""
    async with running_broker() as running:
        peer = running.connect()
        deliver_ms = running.clock.now_ms() + 60_000
        for number in [*range(TOPICS_MAX + 1), 7]:
            properties = f"UNIQ_KEY\x01K\x02TIMER_DELIVER_MS\x01{deliver_ms}\x02"
            await peer.call(10, send_ext(f"T{number:02}", properties), b"x")
        await trio.sleep(2)
        snapshot = running.broker.processors.watch.source.read()
        everything, some = (snapshot.snapshot(WatchView(topic=text)) for text in (None, "T3"))

    assert (everything.topic_count, len(everything.topics)) == (TOPICS_MAX + 1, TOPICS_MAX)
    assert everything.topics[0] == ("T07", 2)
    assert dict(some.topics) == {"T30": 1, "T31": 1, "T32": 1}
    assert everything.pending == some.pending == TOPICS_MAX + 2
