"""Tests of pulls: the decision table, the checks in order, and holding."""

import attrs
import pytest
import trio
from trio.testing import MockClock

from broker_rig import PROPERTIES, RecordingSession, Rig, pull_ext, running_broker, send_ext
from timermq.broker.options import BrokerOptions
from timermq.remoting import Coding, LanguageCode
from timermq.remoting.bodies import ConsumerData, HeartbeatData, SubscriptionData
from timermq.remoting.send_batch import SendItem, encode_items
from timermq.timerstore.record import decode_record

TAG_A = PROPERTIES + "TAGS\x01TagA\x02"
TAG_B = PROPERTIES + "TAGS\x01TagB\x02"


def heartbeat(sub_string: str = "TagA", version: int = 5, model: str = "CLUSTERING") -> bytes:
    """A consumer of T in group G."""
    subscription = SubscriptionData(topic="T", sub_string=sub_string, sub_version=version)
    consumer = ConsumerData(group_name="G", message_model=model, subscriptions=[subscription])
    return HeartbeatData(client_id="c1", consumers=[consumer]).encode()


async def test_messages_are_answered_with_their_bytes() -> None:
    """The body holds the records as the store has them, and the fields say where to go on."""
    rig = Rig()
    rig.send("T", b"one")
    rig.send("T", b"two")
    answer = rig.call(11, pull_ext("T"))

    assert answer.code == 0
    assert answer.ext == {
        "suggestWhichBrokerId": "0",
        "nextBeginOffset": "2",
        "minOffset": "0",
        "maxOffset": "2",
    }
    size = int.from_bytes(answer.body[:4], "big")
    assert decode_record(answer.body[:size]).body == b"one"
    assert decode_record(answer.body[size:]).body == b"two"


@pytest.mark.parametrize(
    ("offset", "code", "next_offset"),
    [("2", 19, "2"), ("3", 21, "2"), ("-1", 21, "0")],
)
async def test_offsets_outside(offset: str, code: int, next_offset: str) -> None:
    """At the end there is nothing yet (19); beyond and before it the offset is moved (21)."""
    rig = Rig()
    rig.send("T")
    rig.send("T")
    answer = rig.call(11, pull_ext("T", queueOffset=offset))

    assert (answer.code, answer.ext["nextBeginOffset"]) == (code, next_offset)


@pytest.mark.parametrize(("offset", "code"), [("0", 19), ("7", 21)])
async def test_a_queue_without_messages(offset: str, code: int) -> None:
    """Nothing is there yet for offset 0, and any other offset is moved to 0."""
    rig = Rig()
    rig.send("T")
    answer = rig.call(11, pull_ext("T", queueId="1", queueOffset=offset))

    assert (answer.code, answer.ext["nextBeginOffset"]) == (code, "0")


async def test_tags_of_the_request() -> None:
    """With its flag set the expression of the request counts; what does not match is passed by."""
    rig = Rig()
    rig.send("T", b"a", TAG_A)
    rig.send("T", b"b", TAG_B)
    some = rig.call(361, pull_ext("T", subscription="TagB"))
    none = rig.call(11, pull_ext("T", subscription="TagC"))

    assert decode_record(some.body).body == b"b"
    assert some.ext["nextBeginOffset"] == "2"
    assert (none.code, none.ext["nextBeginOffset"], none.body) == (20, "2", b"")


async def test_tags_of_the_heartbeat() -> None:
    """Without the flag the group's subscription counts."""
    rig = Rig()
    rig.send("T", b"b", TAG_B)
    rig.send("T", b"a", TAG_A)
    rig.call(34, body=heartbeat())
    answer = rig.call(11, pull_ext("T", sysFlag="0", subVersion="5"))

    assert decode_record(answer.body).body == b"a"


async def test_registrations_are_needed_without_an_expression() -> None:
    """An unknown group or topic is 24, a subscription older than the pull's 25."""
    rig = Rig()
    rig.send("T")
    stranger = rig.call(11, pull_ext("T", sysFlag="0"))
    rig.call(34, body=heartbeat())
    rig.send("U")
    no_topic = rig.call(11, pull_ext("U", sysFlag="0"))
    newer = rig.call(11, pull_ext("T", sysFlag="0", subVersion="6"))

    assert (stranger.code, stranger.remark) == (
        24,
        "GROUP_NOT_ONLINE: no consumer of group G is registered",
    )
    assert (no_topic.code, no_topic.remark) == (
        24,
        "SUBSCRIPTION_NOT_EXIST: group G has no subscription of U",
    )
    assert newer.code == 25


async def test_sql_of_the_request_and_of_the_heartbeat(autojump_clock: MockClock) -> None:
    """Properties choose; the heartbeat of the group counts where the pull says nothing.

    The clock stands: a pull that filters for long ends before it has looked at all.
    """
    rig = Rig()
    for number in range(4):
        rig.send("T", b"%d" % number, f"{PROPERTIES}n\x01{number}\x02")
    stated = rig.call(11, pull_ext("T", subscription="n = 2", expressionType="SQL92"))
    subscription = SubscriptionData(topic="T", sub_string="n > 2", expression_type="SQL92")
    consumer = ConsumerData(group_name="G", subscriptions=[subscription])
    rig.call(34, body=HeartbeatData(client_id="c1", consumers=[consumer]).encode())
    registered = rig.call(11, pull_ext("T", sysFlag="0", subscription=""))
    nothing = rig.call(11, pull_ext("T", subscription="m = 2", expressionType="SQL92"))

    assert decode_record(stated.body).body == b"2"
    assert decode_record(registered.body).body == b"3"
    assert stated.ext["nextBeginOffset"] == registered.ext["nextBeginOffset"] == "4"
    assert (nothing.code, nothing.ext["nextBeginOffset"]) == (20, "4")


async def test_sql_switched_off() -> None:
    """Then pulls and checks are refused with 1, as by a Java broker."""
    rig = Rig(options=BrokerOptions(enable_property_filter=False))
    rig.send("T")
    answer = rig.call(11, pull_ext("T", subscription="a = 1", expressionType="SQL92"))

    assert answer.code == 1
    assert answer.remark is not None
    assert answer.remark.startswith("FILTER_TYPE: ")


@pytest.mark.parametrize(
    ("ext", "code", "rule"),
    [
        ({"topic": "none"}, 17, "TOPIC_NOT_EXIST"),
        ({"topic": "../T"}, 17, "TOPIC_NOT_EXIST"),
        ({"queueId": "4"}, 29, "QUEUE_ID"),
        ({"queueId": "-1"}, 29, "QUEUE_ID"),
        ({"consumerGroup": "a/b"}, 29, "GROUP_NAME"),
        ({"topic": "rmq_sys_SYNC_BROKER_MEMBER_broker-a"}, 16, "TOPIC_NOT_READABLE"),
        ({"subscription": "||"}, 23, "FILTER_EXPRESSION"),
        ({"expressionType": "SQL92", "subscription": "a >"}, 23, "FILTER_EXPRESSION"),
        ({"expressionType": "XPATH"}, 1, "FILTER_TYPE"),
        ({"queueOffset": "x"}, 1, "FIELD"),
        ({"queueOffset": "99999999999999999999"}, 1, "FIELD"),
    ],
)
async def test_errors(ext: dict[str, str], code: int, rule: str) -> None:
    """Each check has its code, and the remark names the rule."""
    rig = Rig()
    rig.send("T")
    answer = rig.call(11, {**pull_ext("T"), **ext})

    assert answer.code == code
    assert answer.remark is not None
    assert answer.remark.startswith(f"{rule}: ")


async def test_permissions() -> None:
    """A broker that lets nothing out says so (16), and so does one without new groups (26)."""
    closed = Rig(options=BrokerOptions(broker_permission=2))
    strict = Rig(options=BrokerOptions(auto_create_subscription_group=False))

    assert closed.call(11, pull_ext("TBW102")).code == 16
    assert strict.call(11, pull_ext("TBW102")).code == 26


async def test_offsets_are_committed_with_a_pull() -> None:
    """Only with the flag, and never a negative one."""
    rig = Rig()
    rig.send("T")
    offsets = rig.broker.tables.offsets
    rig.call(11, pull_ext("T", commitOffset="1"))
    assert offsets.query(group="G", topic="T", queue_id=0) is None
    rig.call(11, pull_ext("T", sysFlag="5", commitOffset="1"))

    assert offsets.query(group="G", topic="T", queue_id=0) == 1
    rig.call(11, pull_ext("T", sysFlag="5", commitOffset="-1"))
    assert offsets.query(group="G", topic="T", queue_id=0) == 1


async def test_a_held_pull_is_answered_when_a_message_arrives(autojump_clock: MockClock) -> None:
    """The consumer has it the moment it is stored; an unwanted tag does not wake it."""
    async with running_broker() as running:
        consumer, producer = running.connect(), running.connect()
        await producer.call(10, send_ext("T"), b"first")
        start = trio.current_time()
        wanted = pull_ext("T", sysFlag="6", queueOffset="1", subscription="TagA")
        with trio.move_on_after(3):
            await consumer.call(11, wanted)
            raise AssertionError("an empty queue was answered")
        await producer.call(10, send_ext("T", TAG_B), b"b")
        with trio.move_on_after(3):
            await consumer.receive()
            raise AssertionError("an unwanted tag was answered")
        await producer.call(10, send_ext("T", TAG_A), b"a")
        answer = await consumer.receive()

    assert answer is not None
    assert answer.code == 0
    assert answer.ext["nextBeginOffset"] == "3"
    assert decode_record(answer.body).body == b"a"
    assert trio.current_time() == start + 6


async def test_sql_wakes_a_held_pull_only_for_what_it_wants(autojump_clock: MockClock) -> None:
    """What does not match is passed by while the pull goes on waiting."""
    async with running_broker() as running:
        consumer, producer = running.connect(), running.connect()
        await producer.call(10, send_ext("T"), b"first")
        wanted = pull_ext(
            "T", sysFlag="6", queueOffset="1", subscription="n = 2", expressionType="SQL92"
        )
        async with trio.open_nursery() as nursery:

            async def send_later() -> None:
                for number in range(4):
                    await trio.sleep(2)
                    await producer.call(10, send_ext("T", f"{PROPERTIES}n\x01{number}\x02"), b"x")

            nursery.start_soon(send_later)
            start = trio.current_time()
            answer = await consumer.call(11, wanted)
            assert trio.current_time() == start + 6

    assert decode_record(answer.body).properties_dict()["n"] == "2"
    assert answer.ext["nextBeginOffset"] == "4"


async def test_a_pull_is_never_left_unanswered(autojump_clock: MockClock) -> None:
    """When its time is up, or twenty seconds are, it is told to ask again."""
    async with running_broker() as running:
        consumer, producer = running.connect(), running.connect()
        await producer.call(10, send_ext("T"), b"x")
        start = trio.current_time()
        wanted = pull_ext("T", sysFlag="6", queueOffset="1", subscription="TagA")
        short = await consumer.call(11, wanted)
        assert 14.8 < trio.current_time() - start <= 15
        await producer.call(10, send_ext("T", TAG_B), b"x")
        start = trio.current_time()
        long = await consumer.call(
            11, {**wanted, "queueOffset": "1", "suspendTimeoutMillis": "999999"}
        )

    assert (short.code, short.ext["nextBeginOffset"]) == (19, "1")
    assert (long.code, long.ext["nextBeginOffset"]) == (20, "2")
    assert trio.current_time() - start < 0.1


async def test_a_held_pull_moves_past_what_does_not_match(autojump_clock: MockClock) -> None:
    """When its time is up the client goes on behind the messages it does not want."""
    async with running_broker() as running:
        consumer, producer = running.connect(), running.connect()
        await producer.call(10, send_ext("T"), b"x")
        async with trio.open_nursery() as nursery:

            async def send_later() -> None:
                await trio.sleep(5)
                await producer.call(10, send_ext("T", TAG_B), b"x")

            nursery.start_soon(send_later)
            answer = await consumer.call(
                11, pull_ext("T", sysFlag="6", queueOffset="1", subscription="TagA")
            )

    assert (answer.code, answer.ext["nextBeginOffset"]) == (20, "2")


@pytest.mark.parametrize(("kind", "expression"), [("TAG", "t299"), ("SQL92", "TAGS = 't299'")])
async def test_a_burst_is_looked_through_at_once(
    autojump_clock: MockClock, kind: str, expression: str
) -> None:
    """More than one run looks at arrives in one piece: what matches at its end does not wait.

    A run ends at the latest with a file of the queue, here of 100 messages.
    """
    items = [SendItem("T", 0, 0, b"TAGS\x01t%d\x02" % number, b"x") for number in range(300)]
    async with running_broker() as running:
        consumer, producer = running.connect(), running.connect()
        await producer.call(10, send_ext("T"), b"first")
        wanted = pull_ext("T", sysFlag="6", subscription=expression, expressionType=kind)
        offset, codes = "1", list[int]()
        start = trio.current_time()
        async with trio.open_nursery() as nursery:

            async def send_later() -> None:
                await trio.sleep(2)
                await producer.call(9001, body=encode_items(items), coding=Coding.CBOR)

            nursery.start_soon(send_later)
            while codes[-1:] != [0]:
                answer = await consumer.call(11, {**wanted, "queueOffset": offset})
                codes.append(answer.code)
                offset = answer.ext["nextBeginOffset"]

        assert trio.current_time() == start + 2

    assert codes == [20, 20, 20, 0]
    assert offset == "301"


async def test_a_held_pull_follows_its_group_s_subscription(autojump_clock: MockClock) -> None:
    """What came while another expression counted is looked at again: the group wants it now."""
    async with running_broker() as running:
        consumer, producer = running.connect(), running.connect()
        await producer.call(10, send_ext("T"), b"x")
        await consumer.call(34, body=heartbeat("TagA", version=5))
        await consumer.receive()  # its group has changed: it is there
        wanted = pull_ext("T", sysFlag="2", queueOffset="1", subscription="", subVersion="5")
        async with trio.open_nursery() as nursery:

            async def change_later() -> None:
                await trio.sleep(2)
                await producer.call(10, send_ext("T", TAG_B), b"b")
                await trio.sleep(2)
                await producer.call(34, body=heartbeat("TagB", version=6))

            nursery.start_soon(change_later)
            answer = await consumer.call(11, wanted)
            while answer.code == 40:
                received = await consumer.receive()
                assert received is not None
                answer = received

    assert answer.code == 0
    assert decode_record(answer.body).body == b"b"


async def test_errors_towards_cpp_are_held_back(autojump_clock: MockClock) -> None:
    """C++ asks again without a pause: its errors wait a second, and 21 does not."""
    async with running_broker() as running:
        consumer = running.connect()
        start = trio.current_time()
        answer = await consumer.call(11, pull_ext("none"), language=LanguageCode.CPP)
        assert 0.9 <= trio.current_time() - start <= 1
        other = await consumer.call(11, pull_ext("none"))

    assert (answer.code, other.code) == (17, 17)


async def test_a_topic_that_goes_away_wakes_no_consumer_into_an_error() -> None:
    """A held pull whose topic is deleted is answered with that when it runs again."""
    rig = Rig()
    rig.send("T")
    assert rig.handle(rig.command(11, pull_ext("T", sysFlag="6", queueOffset="1"))) == []
    rig.broker.tables.topics.delete("T")
    (pull,) = rig.broker.tables.long_polling.pulls()

    assert rig.broker.processors.pull.run_again(pull).code == 17


@pytest.mark.parametrize(
    ("change", "rule"),
    [
        ("group", "GROUP_NOT_ENABLED"),
        ("group of the topic", "GROUP_FORBIDDEN"),
        ("broker", "BROKER_NOT_READABLE"),
    ],
)
async def test_what_is_forbidden_meanwhile_a_held_pull_may_not_either(
    change: str, rule: str
) -> None:
    """It is run again through all checks, as RocketMQ does."""
    rig, peer = Rig(), RecordingSession()
    rig.send("T")
    held = rig.command(11, pull_ext("T", sysFlag="6", queueOffset="1"))
    assert rig.handle(held, peer=peer) == []
    (pull,) = rig.broker.tables.long_polling.pulls()
    groups = rig.broker.tables.groups
    if change == "group of the topic":
        groups.set_readable(pull.group, "T", readable=False)
    elif change == "group":
        groups.put(attrs.evolve(groups.find(pull.group), consume_enable=False))
    else:
        rig.broker.options.broker_permission = 2
    rig.send("T")
    answer = rig.broker.processors.pull.run_again(pull)

    assert (answer.code, (answer.remark or "").split(":")[0]) == (16, rule)
    assert answer.body == b""


async def test_too_many_held_pulls_are_busy() -> None:
    """A pull without room is answered with SYSTEM_BUSY: clients then wait before they ask again."""
    rig = Rig(options=BrokerOptions(held_pulls_max=1))
    rig.send("T")
    wanted = pull_ext("T", sysFlag="6", queueOffset="1")
    rig.handle(rig.command(11, wanted))
    (answer,) = rig.handle(rig.command(11, wanted), peer=RecordingSession())

    assert (answer.code, answer.remark) == (
        2,
        "HELD_PULLS_MAX: [OVERLOAD] 1 pulls are held, no room for another",
    )
