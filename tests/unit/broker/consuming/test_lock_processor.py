"""Tests of LOCK_BATCH_MQ and UNLOCK_BATCH_MQ as clients send them."""

import json

import pytest
import trio
from trio.testing import MockClock

from broker_rig import RecordingSession, Rig, running_broker, send_ext
from timermq.broker.options import BrokerOptions
from timermq.broker.topic_config import TopicConfig
from timermq.simulator.disks.memory_disk import MemoryDisk

Queue = dict[str, object]


def queue(queue_id: int, topic: str = "T", broker_name: str = "broker-a") -> Queue:
    """A queue as clients write it."""
    return {"brokerName": broker_name, "queueId": queue_id, "topic": topic}


def body(client_id: str, *queues: Queue, group: str = "G") -> bytes:
    """The body of either request, as Java writes it."""
    fields = {
        "clientId": client_id,
        "consumerGroup": group,
        "mqSet": queues,
        "onlyThisBroker": False,
    }
    return json.dumps(fields).encode()


@pytest.fixture
def rig() -> Rig:
    """A broker with a topic T of four queues."""
    made = Rig()
    made.broker.tables.topics.put(TopicConfig(topic_name="T", read_queue_nums=4))
    return made


async def test_the_answer_lists_what_the_caller_holds(rig: Rig) -> None:
    """A second client gets only what the first one does not hold."""
    first = rig.call(41, body=body("a", queue(0), queue(1)))
    second = rig.call(41, body=body("b", queue(1), queue(2)))

    assert first.code == 0
    assert json.loads(first.body) == {"lockOKMQSet": [queue(0), queue(1)]}
    assert json.loads(second.body) == {"lockOKMQSet": [queue(2)]}


async def test_a_queue_given_back_is_free(rig: Rig) -> None:
    """42 is answered with success, and the queue is the next caller's."""
    rig.call(41, body=body("a", queue(0)))

    assert rig.call(42, body=body("b", queue(0))).code == 0
    assert json.loads(rig.call(41, body=body("b", queue(0))).body) == {"lockOKMQSet": []}
    assert rig.call(42, body=body("a", queue(0))).code == 0
    assert json.loads(rig.call(41, body=body("b", queue(0))).body) == {"lockOKMQSet": [queue(0)]}


async def test_a_client_that_is_gone_keeps_its_locks(rig: Rig) -> None:
    """Its connection's end does not tell that it has stopped consuming: only time does."""
    peer = RecordingSession()
    rig.call(41, body=body("a", queue(0)), peer=peer)
    rig.broker.dispatcher.close(peer.session)

    assert json.loads(rig.call(41, body=body("b", queue(0))).body) == {"lockOKMQSet": []}


async def test_a_restart_keeps_locks(autojump_clock: MockClock) -> None:
    """The client that reconnects first does not get queues of others still at work."""
    disk = MemoryDisk()
    async with running_broker(disk=disk) as running:
        peer = running.connect()
        await peer.call(10, send_ext("T"), b"x")
        await peer.call(41, body=body("a", queue(0)))
    async with running_broker(disk=disk) as running:
        peer = running.connect()
        early = await peer.call(41, body=body("b", queue(0), queue(1)))
        await trio.sleep(61)
        late = await peer.call(41, body=body("b", queue(0), queue(1)))

    assert json.loads(early.body) == {"lockOKMQSet": [queue(1)]}
    assert json.loads(late.body) == {"lockOKMQSet": [queue(0), queue(1)]}


async def test_queues_of_others_are_locked_by_no_client(rig: Rig) -> None:
    """Unknown topics, queues that a topic lacks and queues of other brokers are left out."""
    strange = [queue(8), queue(0, "unknown"), queue(0, broker_name="broker-b")]

    assert json.loads(rig.call(41, body=body("a", *strange)).body) == {"lockOKMQSet": []}
    assert len(rig.broker.tables.locks) == 0


@pytest.mark.parametrize(
    "bad",
    [
        b"",
        b"[]",
        body(""),
        body("x" * 513),
        body("a", queue(-1)),
        body("a", queue(1 << 31)),
        b'{"clientId":"a","consumerGroup":"G","mqSet":[{"topic":"T"}]}',
        body("a", *[queue(0)] * 10_001),
    ],
)
async def test_malformed_requests(rig: Rig, bad: bytes) -> None:
    """They are refused with the place of the fault, and lock nothing."""
    for code in (41, 42):
        answer = rig.call(code, body=bad)
        assert answer.code == 1
        assert answer.remark is not None
        assert answer.remark.startswith("BODY: lock: ")
    assert len(rig.broker.tables.locks) == 0


async def test_an_unknown_group() -> None:
    """It is made, or refused with 26 where groups do not come to be by themselves."""
    rig = Rig(options=BrokerOptions(auto_create_subscription_group=False))

    assert rig.call(41, body=body("a", queue(0))).code == 26
