"""Tests of sends: one put for a chunk, the answers, and what a refusing store means."""

import errno

import attrs
import pytest
import trio
from trio.testing import MockClock

from broker_rig import ID_PREFIX, STORE, TIMER, Rig, running_broker, send_ext
from timermq.broker.sending.send_request import RESPONSE_CODES
from timermq.pipeline.admission.recall_handle import decode_handle
from timermq.simulator.disks.memory_disk import MemoryDisk
from timermq.timerstore.errors import StoreFailedError
from timermq.timerstore.put_status import PutStatus
from timermq.timerstore.store_options import FlushDiskType

SYNC = attrs.evolve(STORE, flush_disk_type=FlushDiskType.SYNC_FLUSH)


async def test_all_sends_of_a_chunk_are_one_put() -> None:
    """Their records have one store time and follow each other; each send has its answer."""
    rig = Rig()
    commands = [rig.command(10, send_ext("T"), b"%d" % n) for n in range(3)]
    answers = rig.handle(*commands)

    assert [one.opaque for one in answers] == [one.opaque for one in commands]
    assert [one.ext["queueOffset"] for one in answers] == ["0", "1", "2"]
    records = rig.records("T")
    assert [one.ext["msgId"] for one in answers] == [one.offset_message_id for one in records]
    assert answers[0].ext == {
        "msgId": f"{ID_PREFIX}0000000000000000",
        "queueId": "0",
        "queueOffset": "0",
        "transactionId": "K1",
        "MSG_REGION": "DefaultRegion",
        "TRACE_ON": "true",
    }


async def test_a_refused_send_does_not_stop_the_others() -> None:
    """In one chunk some succeed and some do not."""
    rig = Rig()
    answers = rig.handle(
        rig.command(10, send_ext("T"), b"x"),
        rig.command(10, send_ext("a/b"), b"x"),
        rig.command(10, send_ext("T"), b"y"),
    )

    assert {one.opaque: one.code for one in answers} == {1: 0, 2: 29, 3: 0}
    assert len(rig.records("T")) == 2


async def test_one_way_sends_are_never_answered() -> None:
    """Stored or refused, no producer waits."""
    rig = Rig()

    assert rig.handle(rig.command(10, send_ext("T"), b"x", flag=2)) == []
    assert rig.handle(rig.command(10, send_ext("a/b"), b"x", flag=2)) == []
    assert len(rig.records("T")) == 1


async def test_a_timer_message_has_a_recall_handle() -> None:
    """The handle names topic, broker, slot and key; its time falls into the message's slot."""
    rig = Rig()
    answer = rig.send("T", properties="UNIQ_KEY\x01K1\x02TIMER_DELIVER_MS\x011700000005300\x02")
    handle = decode_handle(answer.ext["recallHandle"])

    assert (handle.topic, handle.broker_name, handle.unique_key) == ("T", "broker-a", "K1")
    assert handle.timestamp_ms == 1_700_000_005_001
    assert answer.ext["queueOffset"] == "0"
    assert rig.records("T") == []


@pytest.mark.parametrize(
    ("topic", "properties"),
    [
        ("T", "UNIQ_KEY\x01K\x02DELAY\x013\x02"),
        ("T", "UNIQ_KEY\x01K\x02TIMER_DELAY_MS\x010\x02"),
        ("%RETRY%g", "UNIQ_KEY\x01K\x02TIMER_DELAY_MS\x015000\x02"),
        ("T", "UNIQ_KEY\x01K\x02"),
    ],
)
async def test_other_messages_have_none(topic: str, properties: str) -> None:
    """Levels, messages that are due and retries cannot be recalled by handle."""
    answer = Rig().send(topic, properties=properties)

    assert answer.code == 0
    assert "recallHandle" not in answer.ext


async def test_a_crowded_moment_is_busy() -> None:
    """The code of all flow control, on which clients try another broker."""
    rig = Rig(timer_options=attrs.evolve(TIMER, timer_congest_num_each_slot=1))
    text = f"TIMER_DELIVER_MS\x01{rig.clock.now_ms() + 5_300}\x02"
    answers = [rig.send("T", properties=f"UNIQ_KEY\x01K{n}\x02{text}") for n in range(3)]
    slot_ms = rig.clock.now_ms() + 5_000

    assert [0, 0, 2] == [one.code for one in answers]
    assert f"TIMER_FLOW_CONTROL: the slot of {slot_ms} is over 1 messages" == answers[2].remark


async def test_a_disabled_wheel_says_so() -> None:
    """The code is that of any system error; the remark tells."""
    rig = Rig(timer_options=attrs.evolve(TIMER, timer_wheel_enable=False))
    answer = rig.send("T", properties="TIMER_DELAY_MS\x015000\x02")

    assert (answer.code, answer.remark) == (
        1,
        "TIMER_WHEEL_DISABLED: timerWheelEnable is false on this broker",
    )


async def test_a_level_with_a_disabled_wheel() -> None:
    """It is taken and waits for its moment: levels do not need RocketMQ's wheel either."""
    rig = Rig(timer_options=attrs.evolve(TIMER, timer_wheel_enable=False))
    answer = rig.send("T", properties="DELAY\x013\x02")
    (waiting,) = rig.records("rmq_sys_wheel_timer")

    assert answer.code == 0
    assert waiting.properties_dict()["TIMER_DELIVER_MS"] == str(rig.clock.now_ms() + 10_000)


async def test_a_closed_store_is_not_available() -> None:
    """Sends are refused with SERVICE_NOT_AVAILABLE (14) and the reason."""
    rig = Rig()
    await rig.broker.store.aclose()
    answer = rig.send("T")

    assert (answer.code, answer.remark) == (14, "SERVICE_NOT_AVAILABLE: store is closed")


async def test_a_full_disk_is_not_available() -> None:
    """Nothing of the chunk is stored, and each producer hears it (14)."""
    rig = Rig()
    disk = rig.broker.store.disk
    assert isinstance(disk, MemoryDisk)
    disk.total = 1
    answers = rig.handle(*[rig.command(10, send_ext("T"), b"x") for _ in range(2)])

    assert [one.code for one in answers] == [14, 14]
    assert answers[0].remark is not None
    assert str(errno.ENOSPC) in answers[0].remark
    assert rig.records("T") == []


def test_every_status_has_a_code() -> None:
    """No outcome of a put is without an answer."""
    assert set(RESPONSE_CODES) == set(PutStatus)


async def test_sync_flush_answers_after_the_flush(autojump_clock: MockClock) -> None:
    """With SYNC_FLUSH success means that a power cut does not take the message."""
    disk = MemoryDisk()
    async with running_broker(disk=disk, store_options=SYNC) as running:
        peer = running.connect()
        answer = await peer.call(10, send_ext("T"), b"x")

        assert answer.code == 0
        assert running.broker.store.commit_log.flushed_where == (
            running.broker.store.commit_log.max_offset
        )


async def test_a_producer_may_not_want_to_wait() -> None:
    """WAIT=false is answered at once; everything else waits for its flush."""
    rig = Rig(store_options=SYNC)

    assert rig.send("T", properties="UNIQ_KEY\x01K\x02WAIT\x01false\x02").code == 0
    assert rig.handle(rig.command(10, send_ext("T"), b"x")) == []
    assert rig.broker.tables.durable.waiting == 1


async def test_a_failed_flush_is_reported(autojump_clock: MockClock) -> None:
    """The message is in the log and not on the disk (10); the broker stops after it."""
    disk = MemoryDisk()

    async def send_twice() -> None:
        async with running_broker(disk=disk, store_options=SYNC) as running:
            peer = running.connect()
            await peer.call(10, send_ext("T"), b"x")
            disk.fail_syncs_of = lambda path: "commitlog" in path
            answer = await peer.call(10, send_ext("T"), b"y")
            assert answer.code == 10
            await trio.sleep(60)

    with pytest.RaisesGroup(StoreFailedError, flatten_subgroups=True):
        await send_twice()
