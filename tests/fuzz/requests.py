"""Frames as a whole broker gets them: each is answered or held, none shows a mistake of ours."""

from __future__ import annotations

import functools

import attrs
import cbor2
import trio
from structlog.testing import capture_logs

from broker_rig import TIMER, RecordingSession, Rig, commands_in, pull_ext, send_ext
from timermq.remoting import Coding, Command, FrameConnection
from timermq.remoting.bodies import ConsumerData, HeartbeatData, SubscriptionData
from timermq.remoting.bulk import AskStatus, CommitJob, DropParts, OpenJob, StageBlock
from timermq.remoting.bulk_block import BulkBlock, BulkColumn
from timermq.remoting.connection import Received, encode_frame, one_by_one
from timermq.remoting.errors import RemoteProtocolError
from timermq.remoting.lock_body import LockBatch, MessageQueue
from timermq.remoting.send_batch import SendItem, encode_items
from timermq.remoting.send_header import SendHeader
from timermq.timerstore.batch import BatchPart, join_batch

REQUESTS_PER_RIG = 2_000
"""Then a new broker: a full store would refuse all that follows."""


def seeds() -> list[bytes]:
    """A good request of each family, in each coding that clients use for it."""
    plain = SendHeader(
        topic="T", queue_id=0, properties=b"UNIQ_KEY\x01U\x02TIMER_DELAY_MS\x0150\x02"
    )
    batch = join_batch([BatchPart(0, b"x", b"KEYS\x01k\x02TIMER_DELAY_SEC\x011\x02")])
    heartbeat = HeartbeatData(
        client_id="c",
        consumers=[ConsumerData(group_name="G", subscriptions=[SubscriptionData(topic="T")])],
    )
    queue = MessageQueue(topic="T", broker_name="broker-a", queue_id=0)
    lock = LockBatch(client_id="c", consumer_group="G", mq_set=(queue,))
    lookup = {"topic": "T", "key": "k", "maxNum": "9", "beginTimestamp": "0", "endTimestamp": "9"}
    place = {"consumerGroup": "G", "topic": "T", "queueId": "0"}
    recall = {"topic": "T", "producerGroup": "P", "recallHandle": "djEgVCBicm9rZXItYSAxIEs="}
    job = {"job": "J"}
    ending = {"producerGroup": "P", "tranStateTableOffset": "0", "commitLogOffset": "0"}
    entry = cbor2.dumps({"id": 0})
    stage = StageBlock(job="J", part="p", block=0, is_last=True, topic="T")
    block = BulkBlock.of("T", BulkColumn.of([b"x"]), properties={"KEYS": BulkColumn.of([b"k"])})
    requests: list[tuple[int, dict[str, str], bytes]] = [
        (10, send_ext("T"), b"hello"),
        (310, plain.to_v2(), b"hello"),
        (320, SendHeader(topic="T", queue_id=0, batch=True).to_v2(), batch),
        (11, pull_ext("T"), b""),
        (14, place, b""),
        (15, {**place, "commitOffset": "-1"}, b""),
        (29, {**place, "timestamp": "9999999999999999999"}, b""),
        (30, place, b""),
        (34, {}, heartbeat.encode()),
        (36, {"group": "G", "offset": "0", "delayLevel": "3"}, b""),
        (38, {"consumerGroup": "G"}, b""),
        (41, {}, lock.encode()),
        (42, {}, lock.encode()),
        (12, lookup, b""),
        (33, {"offset": "-9223372036854775808"}, b""),
        (105, {"topic": "T"}, b""),
        (370, recall, b""),
        (37, {**ending, "commitOrRollback": "8", "msgId": "U", "transactionId": "U"}, b""),
        (9001, {}, encode_items([SendItem("T", -1, 0, b"DELAY\x013\x02", b"x")])),
        (9002, {}, cbor2.dumps({"limit": 3, "between": [0, 2**62]})),
        (9003, {}, b""),
        (9005, {"topic": "T", "key": "k", "deliverMs": "1700000005000"}, b""),
        (9006, {}, cbor2.dumps({"id": "K", "topic": "T"})),
        (9007, {"accept": "true"}, b""),
        (9010, {}, cbor2.dumps({"limit": 3, "after": -1})),
        (9011, {}, entry),
        (9012, {}, entry),
        (9013, {}, cbor2.dumps({"id": 0, "by": "somebody"})),
        (9020, job, OpenJob(owner="o", topics=("T",)).encode()),
        (9021, stage.to_ext(), block.encode()),
        (9022, job, CommitJob(parts=(("p", 1),)).encode()),
        (9023, job, AskStatus().encode()),
        (9024, job, DropParts(parts=("p",)).encode()),
    ]
    return [
        encode_frame(Command(code, opaque=1, ext=ext, body=body, coding=coding))
        for code, ext, body in requests
        for coding in ([Coding.CBOR] if code > 9000 else [Coding.JSON, Coding.ROCKETMQ])
    ]


def fuzz_one(data: bytes) -> None:
    """Any stream: as many answers as requests that want one, and no failure behind them."""
    frames = FrameConnection(frame_size_max=1 << 16, run_count_min=1)
    frames.receive_data(data)
    requests: list[Received] = []
    try:
        while frames.has_more:
            requests += frames.requests()
    except RemoteProtocolError as error:
        assert error.close
        if not requests:
            return
    with capture_logs() as logs:
        try:
            trio.run(_handle, requests)
        except AssertionError as error:
            error.add_note(f"log: {logs}; input: {data!r}")
            raise


async def _handle(requests: list[Received]) -> None:
    await trio.lowlevel.checkpoint()
    rig, peer = _rig(), RecordingSession()
    answers = commands_in(rig.broker.dispatcher.handle(peer.session, requests))
    held = peer.session.held_pulls
    rig.broker.dispatcher.close(peer.session)
    alone = one_by_one(requests)
    wanted = [one.opaque for one in alone if not one.is_oneway and not one.is_response]

    assert len(answers) + held == len(wanted)
    assert {one.opaque for one in answers} <= set(wanted)
    for answer in answers:
        assert not (answer.remark or "").startswith("SYSTEM_ERROR"), answer.remark
        assert all(isinstance(value, str) for value in answer.ext.values())
        assert encode_frame(answer)


def _rig() -> Rig:
    global _handled
    _handled += 1
    return _made(_handled // REQUESTS_PER_RIG)


@functools.lru_cache(1)
def _made(_number: int) -> Rig:
    # Few messages for one moment, so that inputs meet flow control too.
    rig = Rig(timer_options=attrs.evolve(TIMER, timer_congest_num_each_slot=3))
    rig.send("T")
    return rig


_handled = 0
