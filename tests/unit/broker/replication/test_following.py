"""A follower: it has what its master has, goes on after every break, and leads without a gap."""

from __future__ import annotations

from typing import Any

import attrs
import pytest
import trio
from trio.testing import MockClock

from broker_rig import STORE, RunningBroker, send_ext
from pair_rig import FOLLOWER, FOLLOWS, MASTER, bodies, log_bytes, pair
from timermq.broker.broker import Broker
from timermq.pipeline.recovery.shown_slots import LOOK_MS
from timermq.simulator.disks.memory_disk import MemoryDisk


async def send(running: RunningBroker, *sent: str, delay_ms: int = 0, topic: str = "T") -> None:
    """Send messages, now or after a delay each; each has to be taken."""
    peer = running.connect()
    for body in sent:
        properties = f"UNIQ_KEY\x01{body}\x02"
        if delay_ms:
            properties += f"TIMER_DELAY_MS\x01{delay_ms}\x02"
        answer = await peer.call(10, send_ext(topic, properties), body.encode())
        assert answer.code == 0, answer.remark


def error_of(broker: Broker) -> str | None:
    """The name of what is wrong with a follower's link."""
    error = broker.tables.follow_state.error
    return None if error is None else error.name


async def test_log_and_tables_are_the_masters(autojump_clock: MockClock) -> None:
    """Byte for byte, what was there and what comes; topics, groups and offsets too."""
    async with pair() as two:
        master = await two.start_master()
        await send(master, *"abc")
        await send(master, "later", delay_ms=3_000)
        follower = await two.start_follower()
        await two.level()
        await send(master, *"def")
        peer = master.connect()
        commit = {"topic": "T", "queueId": "0", "consumerGroup": "G", "commitOffset": "4"}
        await peer.call(15, commit)
        await trio.sleep(15)
        await two.level()

        mine, theirs = master.broker, follower.broker
        assert log_bytes(theirs.store) == log_bytes(mine.store)
        assert await bodies(follower) == [b"a", b"b", b"c", b"d", b"e", b"f", b"later"]
        assert theirs.tables.topics.to_json() == mine.tables.topics.to_json()
        assert theirs.tables.groups.to_json() == mine.tables.groups.to_json()
        assert theirs.tables.offsets.query(group="G", topic="T", queue_id=0) == 4
        assert theirs.tables.follow_state.is_linked
        assert theirs.tables.follow_state.behind == 0


async def test_a_follower_that_leads_misses_and_repeats_nothing(
    autojump_clock: MockClock,
) -> None:
    """The master dies in the middle of its deliveries; each message arrives once."""
    async with pair() as two:
        master = await two.start_master()
        follower = await two.start_follower()
        for number in range(30):
            await send(master, f"m{number}", delay_ms=1_000 + 700 * number)
        await trio.sleep(11)
        await two.level()
        await two.kill_master()
        before = set(await bodies(follower))
        await trio.sleep(5)
        assert set(await bodies(follower)) == before

        await follower.broker.lead()
        await send(follower, "new", delay_ms=500)
        await trio.sleep(30)
        found = await bodies(follower)
        assert sorted(found) == sorted([b"new", *(b"m%d" % number for number in range(30))])
        assert 5 < len(before) < 25


async def test_slots_are_passed_as_the_master_delivers(autojump_clock: MockClock) -> None:
    """So a promotion after a long time reads little of the log, and counts stay right."""
    async with pair() as two:
        master = await two.start_master()
        follower = await two.start_follower()
        for number in range(60):
            await send(master, f"m{number}", delay_ms=1_500)
            await trio.sleep(2)
        await send(master, "pending", delay_ms=600_000)
        await trio.sleep(10)

        ours, theirs = follower.broker.timer_store, master.broker.timer_store
        end = follower.broker.store.commit_log.max_offset
        assert theirs.state.commit_read_ms - ours.state.commit_read_ms <= 15_000
        assert end - ours.state.scan_py < end // 4
        assert ours.statistics().pending_by_topic == theirs.statistics().pending_by_topic
        await two.kill_master()
        await follower.broker.lead()
        await trio.sleep(2)
        assert ours.statistics().pending == 1
        await trio.sleep(700)
        assert len(await bodies(follower)) == 61


async def test_nothing_is_pending_when_all_is_delivered(autojump_clock: MockClock) -> None:
    """At once, and when the master dies with that: its last answers were of the time before."""
    async with pair() as two:
        master = await two.start_master()
        follower = await two.start_follower()
        for number in range(20):
            await send(master, f"m{number}", delay_ms=20_000)
        await trio.sleep(10)
        ours, theirs = follower.broker.timer_store, master.broker.timer_store
        assert (ours.statistics().pending, ours.statistics().pending_by_topic["T"]) == (20, 20)
        for _ in range(300):
            if theirs.statistics().pending == 0:
                break
            await trio.sleep(0.1)
        await two.level()
        await two.kill_master()
        await trio.sleep(LOOK_MS / 1000)

        assert ours.state.read_ms < theirs.state.read_ms
        assert (ours.statistics().pending, ours.statistics().pending_by_topic["T"]) == (0, 0)
        assert not len(ours.live())
        await trio.sleep(60)
        assert (ours.statistics().pending, ours.statistics().pending_by_topic["T"]) == (0, 0)


async def test_a_storm_of_short_timers_comes_once(autojump_clock: MockClock) -> None:
    """What is due when it is linked stands in slots that are passed meanwhile."""
    async with pair() as two:
        master = await two.start_master()
        follower = await two.start_follower()
        for number in range(400):
            await send(master, f"m{number}", delay_ms=1 + 37 * number % 2_500)
            await trio.sleep(0.05)
        await two.level()
        await two.kill_master()
        await follower.broker.lead()
        await trio.sleep(30)
        found = await bodies(follower)
        assert len(found) == len(set(found)) == 400


async def test_it_goes_on_after_every_break(autojump_clock: MockClock) -> None:
    """Master killed, follower killed, link cut: both have the same in the end."""
    async with pair() as two:
        await two.start_master()
        await two.start_follower()
        for number in range(6):
            assert two.master is not None
            await send(two.master, *(f"{number}-{n}" for n in range(20)), delay_ms=1_000)
            if number % 3 == 0:
                await two.kill_follower()
                await trio.sleep(1)
                await two.start_follower()
            elif number % 3 == 1:
                await two.kill_master()
                await trio.sleep(3)
                assert two.follower is not None
                assert error_of(two.follower.broker) is not None
                await two.start_master()
            else:
                await two.linked()
                await two.links[-1].aclose()
        assert two.follower is not None
        assert two.master is not None
        await trio.sleep(60)
        await two.level()
        assert two.follower.broker.tables.follow_state.error is None
        assert log_bytes(two.follower.broker.store) == log_bytes(two.master.broker.store)
        assert len(await bodies(two.follower)) == 120


async def test_a_follower_registers_beside_its_master(autojump_clock: MockClock) -> None:
    """The master's name server gives both; the follower's own names the master as such, too."""
    async with pair() as two:
        master = await two.start_master()
        follower = await two.start_follower()
        await trio.sleep(5)
        for running in (master, follower):
            answer = await running.connect().call(901, {"brokerName": "broker-a"})
            assert f'{{0:"{MASTER}",1:"{FOLLOWER}"}}'.encode() in answer.body


@pytest.mark.parametrize(
    ("settings", "name"),
    [({"broker_name": "other"}, "BROKER_NAME"), ({}, "SEGMENT_SIZE")],
)
async def test_a_master_that_does_not_fit_is_named(
    autojump_clock: MockClock, settings: dict[str, Any], name: str
) -> None:
    """Nothing is copied of it."""
    async with pair() as two:
        await send(await two.start_master(), *"abc")
        store = attrs.evolve(STORE, mapped_file_size_commit_log=1 << (20 if settings else 21))
        follower = await two.start_follower(attrs.evolve(FOLLOWS, **settings), store)
        await trio.sleep(60)

        assert error_of(follower.broker) == name
        assert follower.broker.store.commit_log.max_offset == 0


async def test_a_log_that_went_another_way_is_not_gone_on_with(autojump_clock: MockClock) -> None:
    """Longer than the master's, or of its length and with another record at its end."""
    async with pair() as two:
        master = await two.start_master()
        follower = await two.start_follower()
        await send(master, *"abc")
        await two.level()
        await follower.broker.lead()
        await send(follower, "d")
        await follower.broker.follow()
        await trio.sleep(20)
        assert error_of(follower.broker) == "SLAVE_AHEAD"

        await send(master, "e", "f")
        end = follower.broker.store.commit_log.max_offset
        await trio.sleep(60)
        assert error_of(follower.broker) == "SLAVE_DIVERGED"
        assert follower.broker.store.commit_log.max_offset == end
        assert await bodies(follower) == [b"a", b"b", b"c", b"d"]


async def test_what_the_master_has_cleaned_meanwhile_is_missed(autojump_clock: MockClock) -> None:
    """A follower that was away too long says so; an empty one has all that is left."""
    store = attrs.evolve(STORE, mapped_file_size_commit_log=4_096, max_message_size=1_024)
    async with pair(store_options=store) as two:
        master = await two.start_master()
        await two.start_follower()
        await send(master, *"abc")
        await two.level()
        await two.kill_follower()
        for number in range(60):
            await send(master, f"{number}")
        log = master.broker.store.commit_log
        log.delete_before(log.max_offset)
        assert log.min_offset > 0
        follower = await two.start_follower()
        await trio.sleep(20)
        assert error_of(follower.broker) == "SLAVE_BEHIND"

        await two.kill_follower()
        two.follower_disk = MemoryDisk(now_ms=two.clock.now_ms)
        follower = await two.start_follower()
        await two.level()
        assert log_bytes(follower.broker.store) == log_bytes(master.broker.store)


async def test_segments_go_when_the_masters_have_gone(autojump_clock: MockClock) -> None:
    """Not by age: the master decides what is kept."""
    store = attrs.evolve(STORE, mapped_file_size_commit_log=4_096, max_message_size=1_024)
    async with pair(store_options=store) as two:
        master = await two.start_master()
        follower = await two.start_follower()
        for number in range(100):
            await send(master, f"{number}")
            await trio.sleep(0.5)
        mine, theirs = master.broker.store.commit_log, follower.broker.store.commit_log
        mine.delete_before(8_192)
        await trio.sleep(30)
        assert theirs.min_offset == mine.min_offset == 8_192
        assert log_bytes(follower.broker.store) == log_bytes(master.broker.store)


async def test_garbage_is_not_taken_for_a_log(autojump_clock: MockClock) -> None:
    """A link on which bytes change ends; the next one goes on where the log is whole.

    They change from the start of a record on: nothing guards the properties of one, but TLS.
    """
    async with pair() as two:
        master = await two.start_master()
        await send(master, *(f"{number}" for number in range(50)))
        queue = master.broker.store.queue("T", 0)
        assert queue is not None
        starts = queue.units(0, 50)["phy_offset"].tolist()
        # Behind the head of a frame, which begins at the byte at 1 and then where the log ends.
        left = [11 + starts[7], 12 + starts[20] - starts[7], 12 + starts[33] - starts[20]]
        two.cut = lambda stream: ChangedStream(stream, left.pop(0)) if left else stream
        follower = await two.start_follower()
        await two.level()
        assert follower.broker.tables.follow_state.links == 4
        assert log_bytes(follower.broker.store) == log_bytes(master.broker.store)


@attrs.define(eq=False)
class ChangedStream(trio.abc.Stream):
    """A stream on which all bytes from one on come as others."""

    stream: trio.abc.Stream
    left: int
    """Bytes until then."""

    async def receive_some(self, max_bytes: int | None = None) -> bytes | bytearray:
        """Bytes as they come, or changed."""
        data = bytearray(await self.stream.receive_some(max_bytes))
        for at in range(max(self.left, 0), len(data)):
            data[at] ^= 0x55
        self.left -= len(data)
        return data

    async def send_all(self, data: bytes | bytearray | memoryview) -> None:
        """Pass it on as it is."""
        await self.stream.send_all(data)

    async def wait_send_all_might_not_block(self) -> None:
        """Pass it on as it is."""
        await self.stream.wait_send_all_might_not_block()

    async def aclose(self) -> None:
        """Pass it on as it is."""
        await self.stream.aclose()
