"""Tests of topics as an operator deletes them."""

from __future__ import annotations

import json
from typing import Any

import pytest
import trio
import trio.testing

from broker_rig import Rig, as_object, pull_ext, running_broker, send_ext
from timermq.remoting import Command
from timermq.simulator.disks.memory_disk import MemoryDisk
from timermq.timerstore.config_file import load_json
from timermq.timerstore.disk import File


class HoldingDisk(MemoryDisk):
    """A disk that ends the sync of a queue when the test says so."""

    def __init__(self) -> None:
        super().__init__()
        self.syncs_queue = trio.Event()
        self.may_go_on = trio.Event()

    async def sync(self, *files: File) -> None:
        """Sync the files; of a queue not before the test says so."""
        if any("/consumequeue/" in file.path for file in files):
            self.syncs_queue.set()
            await self.may_go_on.wait()
        await super().sync(*files)


def saved_topics(disk: MemoryDisk) -> dict[str, Any]:
    """The table as it stands on the disk."""
    return as_object(as_object(load_json(disk, "/store/config/topics.json"))["topicConfigTable"])


def listed(*topics: str) -> bytes:
    """The body of a request that deletes these."""
    return json.dumps({"topicList": topics}).encode()


async def test_a_deleted_topic_is_counted_no_more(
    autojump_clock: trio.testing.MockClock,
) -> None:
    """What groups got of it is forgotten with it; what the broker gave in all stays."""
    async with running_broker() as running:
        peer, rates = running.connect(), running.broker.tables.rates
        for topic in ("T", "other"):
            await peer.call(10, send_ext(topic), b"hello")
            await peer.call(11, pull_ext(topic))
        await peer.call(215, {"topic": "T"})

        assert list(rates.got_by_group) == [("other", "G")]
        assert rates.totals().got == 2


async def test_a_topic_made_again_is_forbidden_to_no_group(
    autojump_clock: trio.testing.MockClock,
) -> None:
    """What a group may not read ends with the topic; other topics stay forbidden."""
    async with running_broker() as running:
        peer, groups = running.connect(), running.broker.tables.groups
        for topic in ("T", "other"):
            await peer.call(10, send_ext(topic), b"hello")
            await peer.call(11, pull_ext(topic))
            await peer.call(353, {"group": "G", "topic": topic, "readable": "false"})
        await peer.call(215, {"topic": "T"})

        assert groups.forbidden() == {"G": {"other": 4}}


async def test_a_deleted_topic_is_gone_for_good(autojump_clock: trio.testing.MockClock) -> None:
    """Queues, configuration and offsets, in memory and on the disk, when the answer comes."""
    disk = MemoryDisk()
    async with running_broker(disk=disk) as running:
        peer = running.connect()
        await peer.call(10, send_ext("T"), b"hello")
        await peer.call(10, send_ext("other"), b"hello")
        for topic in ("T", "other"):
            commit = {"topic": topic, "queueId": "0", "consumerGroup": "G", "commitOffset": "1"}
            await peer.call(15, commit)

        assert (await peer.call(215, {"topic": "T"})).code == 0
        assert "T" not in saved_topics(disk)
        offsets = as_object(load_json(disk, "/store/config/consumerOffset.json"))
        assert list(as_object(offsets["offsetTable"])) == ["other@G"]
        assert (await peer.call(11, pull_ext("T"))).code == 17
        assert (await peer.call(11, pull_ext("other"))).code == 0
        assert (await peer.call(215, {"topic": "T"})).code == 0
    async with running_broker(disk=disk) as running:
        assert running.broker.tables.topics.get("T") is None
        assert running.broker.store.queue("T", 0) is None
        assert running.broker.store.queue("other", 0) is not None


async def test_who_waits_for_a_deleted_topic_is_told(
    autojump_clock: trio.testing.MockClock,
) -> None:
    """Else it would go on behind the first messages of a topic that is made again."""
    async with running_broker() as running:
        admin, consumer = running.connect(), running.connect()
        await admin.call(10, send_ext("T"), b"hello")
        wanted = pull_ext("T", sysFlag="6", queueOffset="1", suspendTimeoutMillis="15000")
        await consumer.send(Command(11, opaque=7, ext=wanted))
        await trio.sleep(1)
        begun = trio.current_time()
        await admin.call(215, {"topic": "T"})
        answer = await consumer.receive()

        assert answer is not None
        assert (answer.opaque, answer.code) == (7, 17)
        assert trio.current_time() < begun + 5


async def test_a_topic_made_again_begins_with_its_first_message(
    autojump_clock: trio.testing.MockClock,
) -> None:
    """Groups do not go on behind what was deleted."""
    async with running_broker() as running:
        peer = running.connect()
        await peer.call(10, send_ext("T"), b"old")
        commit = {"topic": "T", "queueId": "0", "consumerGroup": "G", "commitOffset": "1"}
        await peer.call(15, commit)
        await peer.call(215, {"topic": "T"})
        await peer.call(10, send_ext("T"), b"new")
        where = {"topic": "T", "queueId": "0", "consumerGroup": "G"}

        assert (await peer.call(14, where)).ext == {"offset": "0"}
        assert b"new" in (await peer.call(11, pull_ext("T"))).body


async def test_a_topic_that_messages_wait_for_is_not_deleted(
    autojump_clock: trio.testing.MockClock,
) -> None:
    """Once they have arrived it is; others are deleted meanwhile."""
    async with running_broker() as running:
        peer = running.connect()
        properties = "UNIQ_KEY\x01K1\x02TIMER_DELAY_MS\x0160000\x02"
        await peer.call(10, send_ext("T", properties), b"later")
        await peer.call(10, send_ext("other"), b"now")
        refused = await peer.call(215, {"topic": "T"})

        assert refused.code == 1
        assert (refused.remark or "").startswith(
            "TOPIC_HAS_TIMERS: a message of T is pending until "
        )
        assert (await peer.call(215, {"topic": "other"})).code == 0
        await trio.sleep(61)

        assert b"later" in (await peer.call(11, pull_ext("T"))).body
        assert (await peer.call(215, {"topic": "T"})).code == 0


async def test_what_arrives_brings_its_topic_back(autojump_clock: trio.testing.MockClock) -> None:
    """A message that was on its way at the deletion is not lost."""
    async with running_broker() as running:
        peer = running.connect()
        properties = "UNIQ_KEY\x01K1\x02TIMER_DELAY_MS\x0160000\x02"
        await peer.call(10, send_ext("T", properties), b"later")
        running.broker.tables.topics.delete("T")
        await trio.sleep(61)

        assert b"later" in (await peer.call(11, pull_ext("T"))).body


@pytest.mark.parametrize("topic", ["TBW102", "SCHEDULE_TOPIC_XXXX", "broker-a", "rmq_sys_x", "a/b"])
async def test_what_cannot_be_deleted(topic: str) -> None:
    """The broker's own topics, and what is no name."""
    assert Rig().call(215, {"topic": topic}).code == 29


async def test_queues_of_no_topic_are_cleaned(autojump_clock: trio.testing.MockClock) -> None:
    """What the quarantine holds stays."""
    async with running_broker() as running:
        peer = running.connect()
        await peer.call(10, send_ext("T"), b"hello")
        await peer.call(10, send_ext("other"), b"hello")
        running.broker.tables.topics.delete("T")

        assert (await peer.call(316)).code == 0
        assert running.broker.store.queue("T", 0) is None
        assert running.broker.store.queue("other", 0) is not None


async def test_a_topic_that_is_made_again_meanwhile_is_not_cleaned(
    autojump_clock: trio.testing.MockClock,
) -> None:
    """The clean-up waits for its turn at the files; what a producer is told to be stored stays."""
    disk = HoldingDisk()
    async with running_broker(disk=disk) as running:
        admin, producer = running.connect(), running.connect()
        await producer.call(10, send_ext("T"), b"old")
        await disk.syncs_queue.wait()
        running.broker.tables.topics.delete("T")
        await admin.send(Command(316, opaque=7))
        await trio.testing.wait_all_tasks_blocked()
        assert (await producer.call(10, send_ext("T"), b"new")).code == 0
        disk.may_go_on.set()
        assert await admin.receive() is not None

        assert b"new" in (await producer.call(11, pull_ext("T"))).body


async def test_several_topics_or_none(autojump_clock: trio.testing.MockClock) -> None:
    """One that messages wait for, or that is the broker's own, keeps the others."""
    disk = MemoryDisk()
    async with running_broker(disk=disk) as running:
        peer, topics = running.connect(), running.broker.tables.topics
        for topic in ("A", "B"):
            await peer.call(10, send_ext(topic), b"hello")
        properties = "UNIQ_KEY\x01K1\x02TIMER_DELAY_MS\x0160000\x02"
        await peer.call(10, send_ext("C", properties), b"later")
        refused = [await peer.call(5002, body=listed("A", "B", one)) for one in ("C", "TBW102")]

        assert [(answer.remark or "").partition(":")[0] for answer in refused] == [
            "TOPIC_HAS_TIMERS",
            "TOPIC_SYSTEM",
        ]
        assert topics.get("A") is not None
        assert (await peer.call(5002, body=listed("A", "B", "A", "none"))).code == 0
        assert [topics.get(one) is None for one in "ABC"] == [True, True, False]
        assert saved_topics(disk).keys().isdisjoint("AB")
        assert running.broker.store.queue("A", 0) is None


@pytest.mark.parametrize("body", [b"", b"[]", b"{}", b'{"topicList":[]}', b'{"topicList":[1]}'])
async def test_a_list_that_names_no_topic(body: bytes) -> None:
    """It is refused as a body."""
    answer = Rig().call(5002, body=body)

    assert (answer.code, (answer.remark or "").partition(":")[0]) == (1, "BODY")


async def test_too_many_long_requests_are_refused() -> None:
    """The rig has no room for any."""
    answer = Rig().call(215, {"topic": "T"})

    assert (answer.code, (answer.remark or "").partition(":")[0]) == (2, "CONNECTION_TASKS_MAX")
