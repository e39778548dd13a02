"""Tests of the page of metrics: what it says, and that it stays small."""

from __future__ import annotations

from collections.abc import Mapping

import attrs
import trio
from prometheus_client.parser import text_string_to_metric_families
from trio.testing import MockClock

from broker_rig import (
    BROKER,
    Peer,
    RunningBroker,
    open_broker,
    pull_ext,
    running_broker,
    send_ext,
    split_records,
)
from fakes import VirtualClock
from timermq.broker.broker import Broker
from timermq.broker.metrics.metrics_page import FRESH
from timermq.pipeline.clock.clock import WatchedClock, trio_time_ms
from timermq.pipeline.records.undeliverable import Reason, Undeliverable
from timermq.timerstore.message import Message
from timermq.timerstore.record import Record, decode_record, encode_record
from transaction_rig import COMMIT, END_TRANSACTION, ROLLBACK, end_ext, half_properties

COMMON = {"cluster", "node_type", "node_id", "storage_type", "storage_medium", "protocol_type"}
SENT_MS = 5_000


async def samples(running: RunningBroker) -> dict[tuple[str, str], float]:
    """The page of a broker that runs."""
    return await samples_of(running.broker)


async def samples_of(broker: Broker) -> dict[tuple[str, str], float]:
    """The page as a scraper reads it: name and its own labels to value."""
    page = (await broker.metrics_page.text()).decode()
    return {
        (
            sample.name,
            ",".join(f"{k}={v}" for k, v in sorted(sample.labels.items()) if k not in COMMON),
        ): sample.value
        for family in text_string_to_metric_families(page)
        for sample in family.samples
    }


G_ON_T = "consumer_group=G,is_retry=false,is_system=false,topic=T"
"""Labels of group G on topic T."""


async def commit(peer: Peer, offset: str) -> None:
    """Group G has consumed queue 0 of topic T up to an offset."""
    await peer.call(
        15, {"topic": "T", "queueId": "0", "consumerGroup": "G", "commitOffset": offset}
    )


def labels_in(topic: str) -> str:
    """Of what came to a topic that declares nothing."""
    return f"is_system=false,message_type=unspecified,topic={topic}"


def came_in(page: Mapping[tuple[str, str], float]) -> dict[str, float]:
    """What came to each topic that is named."""
    return {
        labels.rpartition("topic=")[2]: value
        for (name, labels), value in page.items()
        if name == "rocketmq_messages_in_total"
    }


async def test_one_message_is_seen_all_the_way(autojump_clock: MockClock) -> None:
    """What waits, what was delivered and how late, and what a group has still to consume."""
    async with running_broker() as running:
        peer = running.connect()
        await peer.call(10, send_ext("T", f"TIMER_DELAY_MS\x01{SENT_MS}\x02"), b"x")
        await trio.sleep(FRESH)
        waiting = await samples(running)
        assert waiting["rocketmq_timing_messages", "topic=T"] == 1
        assert waiting["rocketmq_timer_dequeue_lag", ""] == 1
        assert waiting["rocketmq_timer_message_snapshot", "timer_bound_s=5"] == 1
        assert waiting["rocketmq_timer_message_snapshot", "timer_bound_s=60"] == 0

        await trio.sleep(SENT_MS / 1000)
        await commit(peer, "0")
        delivered = await samples(running)
        assert delivered["rocketmq_messages_in_total", labels_in("T")] == 1
        assert delivered["rocketmq_consumer_lag_messages", G_ON_T] == 1
        assert delivered["timermq_lateness_seconds_count", ""] == 1
        assert delivered["timermq_lateness_seconds_bucket", "le=0.001"] == 1
        assert delivered["timermq_early_total", ""] == 0
        assert delivered["rocketmq_timer_dequeue_total", ""] == 1
        assert delivered["timermq_requests_total", "request_code=10"] == 1


async def test_what_a_group_was_given(autojump_clock: MockClock) -> None:
    """Messages that pulls brought count by topic and group; retries can be told apart."""
    async with running_broker() as running:
        peer = running.connect()
        for topic in ("T", "T", "%RETRY%G"):
            await peer.call(10, send_ext(topic), b"x")
        for topic in ("T", "%RETRY%G"):
            await peer.call(11, pull_ext(topic))
        page = await samples(running)
        found = {
            labels: value
            for (name, labels), value in page.items()
            if name == "rocketmq_messages_out_total"
        }

        assert found == {
            G_ON_T: 2,
            "consumer_group=G,is_retry=true,is_system=false,topic=%RETRY%G": 1,
        }


async def test_what_a_group_gave_up(autojump_clock: MockClock) -> None:
    """Dead letters are counted by group, by whichever request they came."""
    async with running_broker() as running:
        peer = running.connect()
        await peer.call(10, send_ext("T"), b"x")
        await peer.call(36, {"group": "G", "offset": "0", "delayLevel": "-1"})
        await peer.call(10, send_ext("%RETRY%G", reconsumeTimes="17"), b"x")
        page = await samples(running)

        given_up = "consumer_group=G,is_system=false"
        assert page["rocketmq_send_to_dlq_messages_total", given_up] == 2


async def test_who_is_connected_is_counted_by_language(autojump_clock: MockClock) -> None:
    """A producer of three groups is one connection; a consumer counts in its group."""
    async with running_broker() as running:
        peer = running.connect()
        heartbeat = (
            b'{"clientID":"c","producerDataSet":[{"groupName":"P1"},{"groupName":"P2"}],'
            b'"consumerDataSet":[{"groupName":"G","consumeType":"CONSUME_PASSIVELY",'
            b'"messageModel":"CLUSTERING","consumeFromWhere":"CONSUME_FROM_FIRST_OFFSET",'
            b'"subscriptionDataSet":[]}]}'
        )
        await peer.call(34, body=heartbeat)
        page = await samples(running)

        client = "language=java,version=v5_3_3"
        assert page["rocketmq_producer_connections", client] == 1
        member = f"consume_mode=push,consumer_group=G,is_system=false,{client}"
        assert page["rocketmq_consumer_connections", member] == 1


async def test_what_is_beyond_the_limit_is_added_up(autojump_clock: MockClock) -> None:
    """A thousand topics make no page of a thousand lines, and no message is left out."""
    async with running_broker(options=attrs.evolve(BROKER, metrics_series_max=2)) as running:
        peer = running.connect()
        for topic, count in (("A", 1), ("B", 3), ("C", 2), ("D", 1)):
            for _ in range(count):
                await peer.call(10, send_ext(topic), b"x")
        page = await samples(running)

        assert came_in(page) == {"B": 3, "C": 2}
        assert page["timermq_unnamed", "counter=rocketmq_messages_in_total"] == 2
        assert page["timermq_unnamed", "counter=rocketmq_messages_out_total"] == 0


async def test_no_counter_falls_when_a_topic_is_deleted(autojump_clock: MockClock) -> None:
    """A fall is a restart for who reads, and what is left would be counted once more."""
    async with running_broker(options=attrs.evolve(BROKER, metrics_series_max=1)) as running:
        peer = running.connect()
        for topic, count in (("A", 3), ("B", 2), ("C", 1)):
            for _ in range(count):
                await peer.call(10, send_ext(topic), b"x")
        before = await samples(running)
        await peer.call(215, {"topic": "A"})
        await trio.sleep(FRESH)
        after = await samples(running)
        falls = {key[0] for key, value in before.items() if after.get(key, value) < value}

        assert (came_in(before), came_in(after)) == ({"A": 3}, {"B": 2})
        assert [name for name in falls if name.endswith(("_total", "_bucket", "_count"))] == []
        assert "timermq_unnamed" in falls


async def test_rocketmqs_own_topics_can_be_left_out(autojump_clock: MockClock) -> None:
    """By the label that RocketMQ's dashboards ask for; and by what a topic declares."""
    async with running_broker() as running:
        peer = running.connect()
        for topic in ("D", "BenchmarkTest"):
            await peer.call(10, send_ext(topic), b"x")
        topics = running.broker.tables.topics
        topics.put(attrs.evolve(topics.existing("D"), attributes={"message.type": "DELAY"}))
        for group in ("G", "CID_RMQ_SYS_G"):
            await peer.call(11, {**pull_ext("D"), "consumerGroup": group})
        page = await samples(running)
        systems = {
            labels
            for (name, labels) in page
            if name in ("rocketmq_messages_in_total", "rocketmq_messages_out_total")
        }

        assert systems == {
            "is_system=false,message_type=delay,topic=D",
            "is_system=true,message_type=unspecified,topic=BenchmarkTest",
            "consumer_group=G,is_retry=false,is_system=false,topic=D",
            "consumer_group=CID_RMQ_SYS_G,is_retry=false,is_system=true,topic=D",
        }


async def test_bytes_that_a_group_was_given(autojump_clock: MockClock) -> None:
    """As long as the records are that its pulls brought."""
    async with running_broker() as running:
        peer = running.connect()
        for body in (b"x" * 100, b"y" * 1_000):
            await peer.call(10, send_ext("T"), body)
        pulled = await peer.call(11, pull_ext("T"))
        page = await samples(running)

        assert len(pulled.body) > 1_100
        assert page["rocketmq_throughput_out_total", G_ON_T] == len(pulled.body)


async def test_a_page_is_given_again_for_a_second(autojump_clock: MockClock) -> None:
    """Who asks at once again costs nothing; a second later the page is new."""
    async with running_broker() as running:
        peer = running.connect()
        before = (await samples(running))["timermq_sends_total", ""]
        await peer.call(10, send_ext("T"), b"x")
        again = (await samples(running))["timermq_sends_total", ""]
        await trio.sleep(FRESH)
        later = (await samples(running))["timermq_sends_total", ""]

        assert (before, again, later) == (0, 0, 1)


async def test_a_consumer_that_has_all_has_no_lag(autojump_clock: MockClock) -> None:
    """A commit beyond the end, of a queue that was made anew, counts as none."""
    async with running_broker() as running:
        peer = running.connect()
        await peer.call(10, send_ext("T"), b"x")
        await peer.call(11, pull_ext("T"))
        for offset in ("1", "7"):
            await commit(peer, offset)
            await trio.sleep(FRESH)
            page = await samples(running)
            assert page["rocketmq_consumer_lag_messages", G_ON_T] == 0


async def test_transactions_are_counted(autojump_clock: MockClock) -> None:
    """Those that are open, and how the others ended."""
    async with running_broker() as running:
        peer = running.connect()
        halves = [
            await peer.call(10, send_ext("T", half_properties(key), sysFlag="4"), b"x")
            for key in ("K0", "K1", "K2")
        ]
        await peer.call(END_TRANSACTION, end_ext(halves[0], COMMIT))
        await peer.call(END_TRANSACTION, end_ext(halves[1], ROLLBACK))
        await trio.sleep(40)
        page = await samples(running)

        assert page["rocketmq_half_messages", ""] == 1
        assert page["rocketmq_commit_messages_total", ""] == 1
        assert page["rocketmq_rollback_messages_total", ""] == 1
        assert page["timermq_transaction_checks_total", ""] == 1
        assert page["timermq_transactions_discarded_total", ""] == 0


async def test_a_clock_that_is_not_trusted_is_seen(autojump_clock: MockClock) -> None:
    """While it is UNSAFE the gauge is 0, with how far it is off; accepted, it is trusted again."""
    wall = VirtualClock()
    broker = open_broker(wall, steady_ms=trio_time_ms)

    async def clock_page() -> dict[str, float]:
        await trio.sleep(FRESH)
        page = await samples_of(broker)
        return {
            "safe": page["timermq_clock_safe", ""],
            "off": page["timermq_clock_off_seconds", ""],
            "forward": page["timermq_clock_steps_total", "direction=forward"],
            "backward": page["timermq_clock_steps_total", "direction=backward"],
        }

    safe = await clock_page()
    wall.step(86_400_000)
    ahead = await clock_page()
    clock = broker.timer_store.clock
    assert isinstance(clock, WatchedClock)
    clock.accept()
    accepted = await clock_page()
    wall.step(-5_000)
    back = await clock_page()

    assert safe == {"safe": 1, "off": 0, "forward": 0, "backward": 0}
    assert ahead == {"safe": 0, "off": 86_400, "forward": 1, "backward": 0}
    assert accepted == {"safe": 1, "off": 0, "forward": 1, "backward": 0}
    assert back == {"safe": 1, "off": 0, "forward": 1, "backward": 1}


def fault(origin_py: int, reason: Reason, topic: str = "T") -> Undeliverable:
    """A record of the timer topic that cannot be delivered."""
    properties = f"UNIQ_KEY\x01K{origin_py}\x02REAL_TOPIC\x01{topic}\x02REAL_QID\x010\x02"
    record = encode_record(
        Message("rmq_sys_wheel_timer", 0, b"x", properties.encode()),
        queue_offset=0,
        phy_offset=origin_py,
        store_ms=0,
        store_host=bytes(8),
    )
    return Undeliverable(
        offset_py=origin_py, size_py=len(record), record=record, reason=reason, text="a test"
    )


async def test_quarantined_messages_are_counted(autojump_clock: MockClock) -> None:
    """The gauge falls with every message that is retried or dropped; the counter stays."""
    async with running_broker() as running:
        service = running.broker.timer_store

        async def counts() -> tuple[float, ...]:
            await trio.sleep(FRESH)
            page = await samples(running)
            names = ("quarantined_messages", "quarantined_total", "missing_total")
            return tuple(page[f"timermq_{name}", ""] for name in names)

        assert await counts() == (0, 0, 0)
        faults = [fault(origin_py, Reason.NO_MOMENT) for origin_py in (4_096, 8_192, 12_288)]
        faults.append(fault(16_384, Reason.GONE))
        assert service.quarantine.add(faults, running.clock.now_ms()) is None
        assert await counts() == (4, 4, 1)
        service.release.retry(4_096, by="test")
        assert await counts() == (3, 4, 1)
        service.release.drop(8_192, by="test")
        assert await counts() == (2, 4, 1)
        service.release.drop(8_192, by="test")
        assert await counts() == (2, 4, 1)
        again = [fault(8_192, Reason.NO_MOMENT)]
        assert service.quarantine.add(again, running.clock.now_ms()) is None
        assert await counts() == (2, 4, 1), "a message is put there once"


async def test_how_far_followers_are(autojump_clock: MockClock) -> None:
    """Each that is linked, by host and id; one that says no id by its address."""
    async with running_broker() as running:
        followers, store = running.broker.tables.followers, running.broker.store
        store.put([Message("T", 0, b"x")])
        end = store.commit_log.max_offset
        followers.add("10.0.0.2:50001", 3, end, lambda _: None)
        followers.add("10.0.0.3:50002", None, 0, lambda _: None)
        await trio.sleep(7 + FRESH)
        page = await samples(running)

        assert page["timermq_replicas_in_sync", ""] == 2
        assert page["timermq_follower_behind_bytes", "follower=10.0.0.2#3"] == 0
        assert page["timermq_follower_behind_bytes", "follower=10.0.0.3:50002"] == end
        assert page["timermq_follower_silent_seconds", "follower=10.0.0.2#3"] == 0
        assert page["timermq_follower_silent_seconds", "follower=10.0.0.3:50002"] >= 7
        assert page["timermq_followers_refused_total", ""] == 0


async def test_how_far_a_group_is(autojump_clock: MockClock) -> None:
    """What it has not committed, was given of that, and was not given yet, each with its age."""
    async with running_broker() as running:
        peer = running.connect()
        for _ in range(5):
            await peer.call(10, send_ext("T"), b"x")
            await trio.sleep(1)
        await peer.call(11, pull_ext("T", maxMsgNums="3"))
        await commit(peer, "1")
        page = await samples(running)

        assert page["rocketmq_consumer_lag_messages", G_ON_T] == 4
        assert page["rocketmq_consumer_inflight_messages", G_ON_T] == 2
        assert page["rocketmq_consumer_ready_messages", G_ON_T] == 2
        assert page["rocketmq_consumer_lag_latency_milliseconds", G_ON_T] == 4_000
        assert page["rocketmq_consumer_queueing_latency_milliseconds", G_ON_T] == 2_000


async def test_what_a_filter_leaves_out_is_no_backlog(autojump_clock: MockClock) -> None:
    """A group that was sent on past messages of other tags is given nothing more of them."""
    async with running_broker() as running:
        peer = running.connect()
        await peer.call(10, send_ext("T", "TAGS\x01a\x02"), b"x")
        await peer.call(11, pull_ext("T", subscription="a"))
        for _ in range(10):
            await peer.call(10, send_ext("T", "TAGS\x01b\x02"), b"x")
        await trio.sleep(5)
        before = await progress(running)
        await peer.call(11, pull_ext("T", subscription="a", queueOffset="1"))
        await trio.sleep(FRESH)

        assert before == (10, 5_000)
        assert await progress(running) == (0, 0)
        await commit(peer, "1")
        await trio.sleep(FRESH)
        page = await samples(running)
        assert page["rocketmq_consumer_inflight_messages", G_ON_T] == 0


async def test_a_group_that_skips(autojump_clock: MockClock) -> None:
    """To an offset of its own, or to one that an operator has reset it to."""
    async with running_broker() as running:
        peer = running.connect()
        for _ in range(10):
            await peer.call(10, send_ext("T"), b"x")
        await peer.call(11, pull_ext("T", maxMsgNums="3"))
        await trio.sleep(FRESH)
        first = await progress(running)
        await peer.call(11, pull_ext("T", queueOffset="10"))
        await trio.sleep(FRESH)
        skipped = await progress(running)
        running.broker.tables.resets.assign(group="G", topic="T", queue_id=0, offset=4)
        await peer.call(11, pull_ext("T", queueOffset="10"))
        await trio.sleep(FRESH)

        assert (first[0], skipped, (await progress(running))[0]) == (7, (0, 0), 6)


async def progress(running: RunningBroker) -> tuple[float, float]:
    """What group G was not given of topic T yet, and the age of the oldest of it."""
    page = await samples(running)
    return (
        page["rocketmq_consumer_ready_messages", G_ON_T],
        page["rocketmq_consumer_queueing_latency_milliseconds", G_ON_T],
    )


async def test_sizes_of_what_came(autojump_clock: MockClock) -> None:
    """Bytes and buckets of the records of each topic, also of a topic that is made again."""
    async with running_broker() as running:
        peer = running.connect()
        page = await samples(running)
        assert ("rocketmq_message_size_count", labels_in("T")) not in page
        for size in (10, 2_000, 5_000):
            await peer.call(10, send_ext("T"), bytes(size))
        await trio.sleep(FRESH)
        page = await samples(running)
        total = sum(one.size for one in _records(running.broker, "T"))

        assert page["rocketmq_throughput_in_total", labels_in("T")] == total
        buckets = {
            labels.partition(",message_type")[0].rpartition("le=")[2]: value
            for (name, labels), value in page.items()
            if name == "rocketmq_message_size_bucket" and "topic=T" in labels.split(",")
        }
        assert buckets == {
            "1024.0": 1, "4096.0": 2, "524288.0": 3, "1048576.0": 3,
            "2097152.0": 3, "4194304.0": 3, "+Inf": 3,
        }  # fmt: skip
        assert page["rocketmq_message_size_sum", labels_in("T")] == total
        await peer.call(215, {"topic": "T"})
        await trio.sleep(FRESH)
        assert ("rocketmq_throughput_in_total", labels_in("T")) not in await samples(running)
        await peer.call(10, send_ext("T"), bytes(10))
        await trio.sleep(FRESH)
        page = await samples(running)
        assert page["rocketmq_message_size_count", labels_in("T")] == 1


async def test_delays_that_were_asked_for(autojump_clock: MockClock) -> None:
    """By topic; deletes are none, and what went at once is none."""
    async with running_broker() as running:
        peer = running.connect()
        await samples(running)
        for topic, seconds in (("T", 30), ("T", 300), ("U", 4_000)):
            await peer.call(10, send_ext(topic, f"TIMER_DELAY_SEC\x01{seconds}\x02"), b"x")
        await peer.call(10, send_ext("T"), b"x")
        await trio.sleep(FRESH + 1)
        page = await samples(running)
        name = "rocketmq_delay_message_latency_seconds"
        counts = {
            topic: [
                page[f"{name}_bucket", f"le={bound},topic={topic}"]
                for bound in ("60.0", "600.0", "3600.0", "43200.0", "86400.0", "259200.0", "+Inf")
            ]
            for topic in ("T", "U")
        }

        assert counts == {"T": [1, 2, 2, 2, 2, 2, 2], "U": [0, 0, 0, 1, 1, 1, 1]}
        assert 3_998 <= page[f"{name}_sum", "topic=U"] <= 4_000


async def test_how_long_rare_things_take(autojump_clock: MockClock) -> None:
    """Topics and groups that an administrator makes; transactions until they are committed."""
    async with running_broker() as running:
        peer = running.connect()
        topic = {"readQueueNums": "1", "writeQueueNums": "1", "perm": "6", "defaultTopic": "TBW102"}
        await peer.call(17, {"topic": "Made", "topicFilterType": "SINGLE_TAG", **topic})
        await peer.call(200, body=b'{"groupName":"MadeGroup"}')
        born_ms = running.clock.now_ms() - 90_000
        ext = send_ext("T", half_properties("K0"), sysFlag="4", bornTimestamp=str(born_ms))
        half = await peer.call(10, ext, b"x")
        await peer.call(END_TRANSACTION, end_ext(half, COMMIT))
        page = await samples(running)
        made = "rocketmq_topic_create_execution_time_milliseconds_count"
        group = "rocketmq_consumer_group_create_execution_time_milliseconds_count"
        latency = "rocketmq_finish_message_latency_milliseconds"

        assert page[made, "invocation_status=success,is_system=false"] == 1
        assert page[group, "invocation_status=success"] == 1
        assert page[f"{latency}_bucket", "le=60.0"] == 0
        assert page[f"{latency}_bucket", "le=600.0"] == 1
        assert page[f"{latency}_sum", ""] == 90


async def test_a_scrape_of_a_crowd_gives_others_their_turn(autojump_clock: MockClock) -> None:
    """Ages of many groups are looked up in pieces, and of those with the most alone."""
    options = attrs.evolve(BROKER, metrics_series_max=100)
    async with running_broker(options=options) as running:
        peer = running.connect()
        await peer.call(10, send_ext("T"), b"x")
        offsets = running.broker.tables.offsets
        for number in range(300):
            offsets.commit(group=f"G{number}", topic="T", queue_id=0, offset=0)
        turns = 0

        async def count_turns() -> None:
            nonlocal turns
            while True:
                await trio.lowlevel.checkpoint()
                turns += 1

        running.nursery.start_soon(count_turns)
        page = await samples(running)
        ages = [name for name, _ in page if name == "rocketmq_consumer_lag_latency_milliseconds"]

        assert len(ages) == 100
        assert turns > 10


def _records(broker: Broker, topic: str) -> list[Record]:
    result = broker.store.get(topic, 0, 0, count_max=32, bytes_max=1 << 20)
    return [decode_record(data) for run in result.records for data in split_records(run)]
