"""The records of one message, read as the steps of its life."""

from __future__ import annotations

import attrs
import pytest

from broker_rig import STORE, Rig
from timermq.pipeline.quarantine.quarantine_record import State, mark_message
from timermq.pipeline.records.deduplication import origin_of
from timermq.pipeline.records.timer_record import TIMER_TOPIC, timer_tail
from timermq.timerstore.message import Message
from unit.broker.pending.lives import (
    NOW_MS,
    explain,
    later,
    level,
    quarantined,
    retry_elsewhere,
    words,
)


async def test_a_move_that_a_power_cut_cut_short() -> None:
    """Its delete alone takes nothing back, and is told as what it is."""
    rig = Rig()
    rig.send("T", properties=later(5))
    (record,) = rig.records(TIMER_TOPIC)
    torn = "TIMER_DEL_UNIQKEY\x01T+K1\x02UNIQ_KEY\x01K1\x02"
    torn += f"TIMER_DEL_ORDER\x01{record.phy_offset}\x02TIMER_DEL_FOR\x01{record.phy_offset}\x02"
    tail = timer_tail(deliver_ms=NOW_MS + 4001, out_ms=NOW_MS + 4000, topic="T", queue_id=0)
    rig.broker.store.put([Message(TIMER_TOPIC, 0, b"0", torn.encode() + tail)])

    life = explain(rig, "K1")
    assert (life["now"], words(life)) == ("waiting", ["stored", "torn"])


async def test_an_entry_that_outlived_its_record() -> None:
    """It was written once more, and the log cleaned; the time of its quarantine is kept."""
    rig = Rig(store_options=attrs.evolve(STORE, mapped_file_size_commit_log=1 << 17))
    rig.send("T", properties=later(5))
    quarantined(rig, TIMER_TOPIC)
    for number in range(4):
        rig.send("X", b"z" * 40_000, properties=f"UNIQ_KEY\x01Z{number}\x02")
    rig.clock.time_ms += rig.broker.store.options.file_reserved_time_hours * 3_600_000 * 3 // 4
    quarantine = rig.broker.timer_store.quarantine
    assert quarantine.renew(rig.clock.now_ms()) == 1
    first_py = quarantine.first_py()
    assert first_py is not None
    rig.broker.store.commit_log.delete_before(first_py)

    life = explain(rig, "K1")
    assert (life["now"], words(life)) == ("quarantined", ["set_aside"])
    assert life["steps"][0]["at_ms"] == NOW_MS


async def test_a_retry_to_another_topic() -> None:
    """The record behind the mark says where it went."""
    rig = Rig()
    rig.send("T", properties=later(5))
    rig.clock.time_ms += 6_000
    retry_elsewhere(rig, quarantined(rig, TIMER_TOPIC))

    life = explain(rig, "K1")
    assert life["now"] == "delivered"
    assert words(life) == ["stored", "set_aside", "retried", "delivered"]
    assert [step["topic"] for step in life["steps"]] == ["T", "T", "Other", "Other"]


@pytest.mark.parametrize(
    "roll",
    ["TIMER_ROLL_TIMES\x011\x02TIMER_DEQUEUE_MS\x016\x02", "TIMER_ROLL_LABEL\x01R\x02"],
    ids=["wheel", "RocksDB"],
)
async def test_a_roll_of_rocketmqs(roll: str) -> None:
    """The record before waits no more: the message has arrived when its last record has."""
    rig = Rig()
    text = f"{later(5)}REAL_TOPIC\x01T\x02REAL_QID\x010\x02TIMER_OUT_MS\x01{NOW_MS + 4000}\x02"
    _, rolled = rig.broker.store.put(
        [Message(TIMER_TOPIC, 0, b"x", (text + more).encode()) for more in ("", roll)]
    )
    before = explain(rig, "K1")
    origin = origin_of(rolled.phy_offset)
    rig.broker.store.put([Message("T", 0, b"x", later(5).encode(), prepared_offset=origin)])
    after = explain(rig, "K1")

    assert (before["now"], words(before)) == ("waiting", ["stored", "rolled"])
    assert (after["now"], words(after)) == ("delivered", ["stored", "rolled", "delivered"])


async def test_classic_levels() -> None:
    """One waits until it is quarantined, delivered, or taken further; each of several by itself."""
    rig = Rig()
    rig.broker.store.put([level("T")])
    life = explain(rig, "K1")
    assert (life["now"], life["deliver_ms"]) == ("waiting", NOW_MS + 10_000)
    entry = quarantined(rig, "SCHEDULE_TOPIC_XXXX", 2)
    assert explain(rig, "K1")["now"] == "quarantined"
    retry_elsewhere(rig, entry)
    assert explain(rig, "K1")["now"] == "delivered"

    rig = Rig()
    rig.broker.store.put([level("%RETRY%G1"), level("%RETRY%G2")])
    # What RocketMQ delivers keeps the properties.
    rig.broker.store.put([Message("%RETRY%G2", 0, b"x", level("%RETRY%G2").properties, born_ms=5)])
    life = explain(rig, "K1")
    assert (life["now"], words(life)) == ("waiting", ["level", "level", "delivered"])
    rig.broker.store.put([Message("%RETRY%G1", 0, b"x", level("%RETRY%G1").properties, born_ms=5)])
    assert explain(rig, "K1")["now"] == "delivered"


async def test_a_dead_letter_without_a_try() -> None:
    """Nothing but the groups of its topic lead there."""
    rig = Rig()
    rig.send("T", properties="UNIQ_KEY\x01K1\x02")
    rig.broker.tables.offsets.commit(group="G", topic="T", queue_id=0, offset=1)
    (record,) = rig.records("T")
    back = {"offset": str(record.phy_offset), "group": "G", "delayLevel": "0", "originTopic": "T"}
    answer = rig.call(36, {**back, "originMsgId": "", "maxReconsumeTimes": "0"})
    assert answer.code == 0, answer.remark

    life = explain(rig, "K1", "T")
    assert (life["now"], words(life)) == ("dead_letter", ["sent", "dead_letter"])


async def test_a_retry_that_a_power_cut_cut_short() -> None:
    """Its mark alone counts for nothing."""
    rig = Rig()
    rig.send("T", properties=later(5))
    quarantine = rig.broker.timer_store.quarantine
    entry = quarantine.entry(quarantined(rig, TIMER_TOPIC))
    assert entry is not None
    rig.broker.store.put([mark_message(entry, State.RETRIED, "me")])

    life = explain(rig, "K1")
    assert (life["now"], words(life)) == ("quarantined", ["stored", "set_aside", "torn"])


async def test_a_mark_that_ends_nothing() -> None:
    """Nothing writes one; it is passed over, as any record of the topic that says nothing."""
    rig = Rig()
    rig.send("T", properties=later(5))
    entry = rig.broker.timer_store.quarantine.entry(quarantined(rig, TIMER_TOPIC))
    assert entry is not None
    rig.broker.store.put([mark_message(entry, State.ACTIVE, "me")])

    life = explain(rig, "K1")
    assert (life["now"], words(life)) == ("quarantined", ["stored", "set_aside"])


async def test_what_was_sent_without_a_delay_is_found_by_its_topic() -> None:
    """Its key alone leads nowhere."""
    rig = Rig()
    rig.send("T", properties="UNIQ_KEY\x01K0\x02")

    assert explain(rig, "K0") == {
        "now": "not_found",
        "deliver_ms": None,
        "steps": [],
        "is_whole": True,
    }
    life = explain(rig, "K0", "T")
    assert (life["now"], words(life)) == ("delivered", ["sent"])
    assert (life["steps"][0]["queue_offset"], life["steps"][0]["lateness_ms"]) == (0, None)


async def test_a_retry_before_the_moment_waits_again() -> None:
    """The record behind the mark is one of the wheel: the topic is that which it asks for."""
    rig = Rig()
    rig.send("T", properties=later(5))
    retry_elsewhere(rig, quarantined(rig, TIMER_TOPIC))

    life = explain(rig, "K1")
    assert (life["now"], life["deliver_ms"]) == ("waiting", NOW_MS + 5_000)
    assert words(life) == ["stored", "set_aside", "retried", "stored"]
    assert [step["topic"] for step in life["steps"][2:]] == ["Other", "Other"]
