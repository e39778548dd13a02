"""Tests of recalls: the checks in order, the delete message, and what is in vain."""

import attrs
import pytest
from trio.testing import MockClock

from broker_rig import BROKER, STORE, TIMER, Rig, running_broker, send_ext
from timermq.pipeline.admission.recall_handle import encode_handle
from timermq.remoting import Command
from timermq.timerstore.store_options import FlushDiskType

LATER = "UNIQ_KEY\x01K1\x02TIMER_DELIVER_MS\x011700000005300\x02"
SLOT_MS = 1_700_000_005_000


def recall(rig: Rig, handle: str, **ext: str) -> Command:
    """The answer to a recall."""
    return rig.call(370, {"producerGroup": "PID", "topic": "T", "recallHandle": handle, **ext})


async def test_a_recall_stores_a_delete_message() -> None:
    """It waits for the same slot and names its target by topic and key."""
    rig = Rig()
    handle = rig.send("T", properties=LATER).ext["recallHandle"]
    answer = recall(rig, handle)

    assert (answer.code, answer.ext) == (0, {"msgId": "K1", "MSG_REGION": "DefaultRegion"})
    delete = rig.records("rmq_sys_wheel_timer")[1]
    assert delete.body == b"0"
    assert delete.properties_dict() == {
        "TIMER_DEL_UNIQKEY": "T+K1",
        "UNIQ_KEY": "K1",
        "TAGS": "_RECALL_TAG_",
        "TIMER_DEL_ORDER": "0",
        "TIMER_DELIVER_MS": str(SLOT_MS + 1),
        "REAL_TOPIC": "T",
        "REAL_QID": "0",
        "TIMER_OUT_MS": str(SLOT_MS),
    }


async def test_a_second_recall_is_as_good_as_the_first() -> None:
    """The target still waits until its slot is read; an illegal group is just not written down."""
    rig = Rig()
    handle = rig.send("T", properties=LATER).ext["recallHandle"]

    assert recall(rig, handle).code == 0
    assert recall(rig, handle, producerGroup="a\x01b").code == 0


@pytest.mark.parametrize(
    ("handle", "code", "rule"),
    [
        ("", 604, "RECALL_HANDLE"),
        ("no handle", 604, "RECALL_HANDLE"),
        (encode_handle("T", "broker-a", SLOT_MS + 1, "K\x01x\x02y"), 604, "RECALL_HANDLE"),
        (encode_handle("U", "broker-a", SLOT_MS + 1, "K1"), 604, "RECALL_TOPIC"),
        (encode_handle("T", "broker-b", SLOT_MS + 1, "K1"), 604, "RECALL_BROKER"),
        (encode_handle("T", "broker-a", 1_700_000_000_000, "K2"), 604, "RECALL_TOO_LATE"),
        (encode_handle("T", "broker-a", 1_700_086_400_001, "K1"), 604, "RECALL_TIME"),
        (encode_handle("T", "broker-a", SLOT_MS + 1, "K2"), 604, "RECALL_NOT_FOUND"),
        (encode_handle("T", "broker-a", SLOT_MS + 1, "K0"), 604, "RECALL_TOO_LATE"),
    ],
)
async def test_handles_that_do_not_fit(handle: str, code: int, rule: str) -> None:
    """Each is an illegal operation (604), and the remark names the rule."""
    rig = Rig()
    rig.send("T", properties="UNIQ_KEY\x01K0\x02")
    rig.send("T", properties=LATER)
    answer = recall(rig, handle)

    assert answer.code == code
    assert answer.remark is not None
    assert answer.remark.startswith(f"{rule}: ")
    assert len(rig.records("rmq_sys_wheel_timer")) == 1


@pytest.mark.parametrize("timestamp_ms", [1_700_000_000_000, SLOT_MS + 1001])
async def test_the_key_finds_the_message_and_not_the_moment(timestamp_ms: int) -> None:
    """A message may have been moved since its handle was given out."""
    rig = Rig()
    rig.send("T", properties=LATER)

    assert recall(rig, encode_handle("T", "broker-a", timestamp_ms, "K1")).code == 0


async def test_a_message_at_the_maximum_delay_can_be_recalled() -> None:
    """What a send may ask for can be cancelled at once, to the last millisecond."""
    rig = Rig()
    rig.clock.time_ms += 1  # then the moment begins a slot, and the handle says exactly the moment
    latest_ms = rig.clock.now_ms() + TIMER.timer_max_delay_sec * 1000
    properties = f"UNIQ_KEY\x01K1\x02TIMER_DELIVER_MS\x01{latest_ms}\x02"
    handle = rig.send("T", properties=properties).ext["recallHandle"]
    answer = recall(rig, handle)

    assert (answer.code, answer.remark) == (0, None)


async def test_checks_before_the_handle() -> None:
    """Switched off is 16, not yet accepting and not writeable 14, an unknown topic 17."""
    handle = encode_handle("T", "broker-a", SLOT_MS + 1, "K1")
    off = Rig(options=attrs.evolve(BROKER, recall_message_enable=False))
    early = Rig(
        options=attrs.evolve(BROKER, start_accept_send_request_time_stamp=1_700_000_000_001)
    )
    closed = Rig(
        options=attrs.evolve(
            BROKER, broker_permission=4, allow_recall_when_broker_not_writeable=False
        )
    )

    assert [recall(rig, handle).code for rig in (off, early, closed, Rig())] == [16, 14, 14, 17]


async def test_without_an_index_every_recall_is_taken() -> None:
    """Then it is not known what waits, and the answer is RocketMQ's: the delete is stored."""
    rig = Rig(store_options=attrs.evolve(STORE, message_index_enable=False))
    rig.send("T")

    assert recall(rig, encode_handle("T", "broker-a", SLOT_MS + 1, "K1")).code == 0


async def test_a_delete_that_is_refused() -> None:
    """A delete that is not stored is a system error (1), with the reason."""
    rig = Rig(
        store_options=attrs.evolve(STORE, message_index_enable=False),
        timer_options=attrs.evolve(TIMER, timer_wheel_enable=False),
    )
    rig.send("T")
    answer = recall(rig, encode_handle("T", "broker-a", SLOT_MS + 1, "K1"))

    assert (answer.code, answer.remark) == (
        1,
        "RECALL_NOT_STORED: TIMER_WHEEL_DISABLED: timerWheelEnable is false on this broker",
    )


async def test_sync_flush_waits(autojump_clock: MockClock) -> None:
    """With SYNC_FLUSH a recall is answered when a power cut does not undo it."""
    sync = attrs.evolve(STORE, flush_disk_type=FlushDiskType.SYNC_FLUSH)
    async with running_broker(store_options=sync) as running:
        peer = running.connect()
        sent = await peer.call(10, send_ext("T", LATER), b"x")
        handle = sent.ext["recallHandle"]
        answer = await peer.call(370, {"topic": "T", "recallHandle": handle})
        log = running.broker.store.commit_log

        assert answer.code == 0
        assert log.flushed_where == log.max_offset
