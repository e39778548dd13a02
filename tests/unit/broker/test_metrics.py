"""Tests of the page of metrics: what it says, and that it stays small."""

from __future__ import annotations

from collections.abc import Mapping

import attrs
import trio
from prometheus_client.parser import text_string_to_metric_families
from trio.testing import MockClock

from broker_rig import BROKER, RunningBroker, open_broker, pull_ext, running_broker, send_ext
from fakes import VirtualClock
from timermq.broker.broker import Broker
from timermq.broker.metrics.metrics_page import FRESH
from timermq.pipeline import WatchedClock
from timermq.pipeline.clock import trio_time_ms
from timermq.pipeline.undeliverable import Reason, Undeliverable
from timermq.timerstore.message import Message
from timermq.timerstore.record import encode_record
from transaction_rig import COMMIT, END_TRANSACTION, ROLLBACK, end_ext, half_properties

COMMON = {"cluster", "node_type", "node_id"}
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
        commit = {"topic": "T", "queueId": "0", "consumerGroup": "G", "commitOffset": "0"}
        await peer.call(15, commit)
        delivered = await samples(running)
        assert delivered["rocketmq_messages_in_total", labels_in("T")] == 1
        lag = "consumer_group=G,is_retry=false,is_system=false,topic=T"
        assert delivered["rocketmq_consumer_lag_messages", lag] == 1
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
            "consumer_group=G,is_retry=false,is_system=false,topic=T": 2,
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

        client = "language=JAVA,version=479"
        assert page["rocketmq_producer_connections", client] == 1
        member = f"consume_mode=CONSUME_PASSIVELY,consumer_group=G,is_system=false,{client}"
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

        given = "consumer_group=G,is_retry=false,is_system=false,topic=T"
        assert len(pulled.body) > 1_100
        assert page["rocketmq_throughput_out_total", given] == len(pulled.body)


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
            commit = {"topic": "T", "queueId": "0", "consumerGroup": "G", "commitOffset": offset}
            await peer.call(15, commit)
            await trio.sleep(FRESH)
            page = await samples(running)
            lag = "consumer_group=G,is_retry=false,is_system=false,topic=T"
            assert page["rocketmq_consumer_lag_messages", lag] == 0


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


async def test_what_is_set_aside_is_counted(autojump_clock: MockClock) -> None:
    """The gauge falls with every message that is retried or dropped; the counter stays."""
    async with running_broker() as running:
        service = running.broker.timer_store

        async def counts() -> tuple[float, ...]:
            await trio.sleep(FRESH)
            page = await samples(running)
            names = ("quarantined_messages", "set_aside_total", "missing_total")
            return tuple(page[f"timermq_{name}", ""] for name in names)

        assert await counts() == (0, 0, 0)
        faults = [fault(origin_py, Reason.NO_MOMENT) for origin_py in (4_096, 8_192, 12_288)]
        faults.append(fault(16_384, Reason.GONE))
        assert service.quarantine.set_aside(faults, running.clock.now_ms()) is None
        assert await counts() == (4, 4, 1)
        service.release.retry(4_096, by="test")
        assert await counts() == (3, 4, 1)
        service.release.drop(8_192, by="test")
        assert await counts() == (2, 4, 1)
        service.release.drop(8_192, by="test")
        assert await counts() == (2, 4, 1)
        again = [fault(8_192, Reason.NO_MOMENT)]
        assert service.quarantine.set_aside(again, running.clock.now_ms()) is None
        assert await counts() == (2, 4, 1), "what was set aside once is not again"
