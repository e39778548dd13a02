"""Tests of EXPLAIN_MESSAGE: the steps of a message's life, and how it stands behind them."""

from __future__ import annotations

from typing import TypedDict, cast

import attrs
import cbor2
import pytest
import trio
from trio.testing import MockClock

from broker_rig import BROKER, STORE, TIMER, Peer, Rig, pull_ext, running_broker, send_ext
from simulation.staged_service import stored_delete
from timermq.broker.options import TransactionDelay
from timermq.broker.pending import message_life
from timermq.broker.pending.explain_processor import life_row
from timermq.broker.pending.life_step import GROUPS_MAX
from timermq.broker.pending.message_life import at_once
from timermq.pipeline.quarantine.quarantine_record import State, mark_message
from timermq.pipeline.records import key_records
from timermq.pipeline.records.timer_record import TIMER_TOPIC, timer_tail
from timermq.pipeline.records.undeliverable import Reason, Undeliverable
from timermq.timerstore.message import Message
from transaction_rig import COMMIT, ROLLBACK, end, half_properties, send_half

EXPLAIN, CANCEL = 9006, 9005
RETRY_QUARANTINE, DROP_QUARANTINE = 9012, 9013
NOW_MS = 1_700_000_000_000


class Life(TypedDict):
    """An answer to EXPLAIN_MESSAGE: the steps of one message."""

    now: str
    deliver_ms: int | None
    steps: list[dict[str, object]]
    is_whole: bool


def explain(rig: Rig, unique_key: str, topic: str | None = None) -> Life:
    """What is known of a message."""
    lives = rig.broker.processors.explain.lives()
    return cast("Life", life_row(at_once(lives.of(unique_key, topic))))


async def explained(peer: Peer, unique_key: str, topic: str | None = None) -> Life:
    """What a running broker answers."""
    answer = await peer.call(EXPLAIN, body=cbor2.dumps({"id": unique_key, "topic": topic}))
    assert answer.code == 0, answer.remark
    return cast("Life", cbor2.loads(answer.body))


def words(life: Life) -> list[object]:
    """What happened, a word each."""
    return [step["step"] for step in life["steps"]]


def later(seconds: int, key: str = "K1") -> str:
    """Properties of a message that waits."""
    return f"UNIQ_KEY\x01{key}\x02TIMER_DELIVER_MS\x01{NOW_MS + seconds * 1000}\x02"


async def test_a_message_that_waits_is_moved_and_cancelled() -> None:
    """Each is a step, a move one and not two; where it waits until is told."""
    rig = Rig()
    rig.send("T", properties=later(5))

    life = explain(rig, "K1")
    assert (life["now"], life["deliver_ms"], words(life)) == ("waiting", NOW_MS + 5000, ["stored"])
    assert life["steps"][0] == {
        "step": "stored",
        "at_ms": NOW_MS,
        "phy_offset": 0,
        "topic": "T",
        "queue_id": 0,
        "queue_offset": None,
        "deliver_ms": NOW_MS + 5000,
        "lateness_ms": None,
        "consumed_by": [],
        "group_count": 0,
        "text": "",
    }
    rig.call(CANCEL, {"topic": "T", "uniqueKey": "K1", "deliverMs": str(NOW_MS + 9000)})
    life = explain(rig, "K1")
    assert (life["now"], life["deliver_ms"]) == ("waiting", NOW_MS + 9000)
    assert words(life) == ["stored", "moved"]
    rig.call(CANCEL, {"topic": "T", "uniqueKey": "K1"})
    life = explain(rig, "K1")
    assert (life["now"], life["deliver_ms"]) == ("cancelled", None)
    assert words(life) == ["stored", "moved", "cancelled"]


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


async def test_stored_deletes_cancel_messages_of_their_topic() -> None:
    """The slot takes it out, and no delete of another topic does."""
    rig = Rig()
    rig.send("T", properties=later(5))
    rig.broker.store.put([stored_delete("V", "T+K1", NOW_MS + 5000, "K1")])
    assert explain(rig, "K1")["now"] == "waiting"

    rig.broker.store.put([stored_delete("T", "T+K1", NOW_MS + 5000, "K1")])
    assert explain(rig, "K1")["now"] == "cancelled"


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


async def test_who_has_consumed_it() -> None:
    """Groups that have committed beyond it; one that has committed up to it has not."""
    rig = Rig()
    rig.send("T", properties="UNIQ_KEY\x01K0\x02")
    rig.send("T", properties="UNIQ_KEY\x01K1\x02")
    for group, offset in (("behind", 1), ("done", 2)):
        rig.broker.tables.offsets.commit(group=group, topic="T", queue_id=0, offset=offset)

    assert explain(rig, "K0", "T")["steps"][0]["consumed_by"] == ["behind", "done"]
    assert explain(rig, "K1", "T")["steps"][0]["consumed_by"] == ["done"]


@pytest.mark.parametrize(
    ("code", "now", "steps"),
    [
        (None, "quarantined", ["stored", "set_aside"]),
        (DROP_QUARANTINE, "dropped", ["stored", "set_aside", "dropped"]),
        (RETRY_QUARANTINE, "delivered", ["stored", "set_aside", "retried", "delivered"]),
        (CANCEL, "cancelled", ["stored", "set_aside", "cancelled"]),
    ],
)
async def test_quarantine(code: int | None, now: str, steps: list[str]) -> None:
    """Why it stands there, under which name, and who ended it."""
    rig = Rig()
    rig.send("T", properties=later(5))
    rig.clock.time_ms += 5_000
    entry = quarantined(rig, TIMER_TOPIC)
    if code == CANCEL:
        rig.call(CANCEL, {"topic": "T", "uniqueKey": "K1"})
    elif code is not None:
        rig.call(code, body=cbor2.dumps({"id": entry, "by": "me"}))

    life = explain(rig, "K1")
    assert (life["now"], words(life)) == (now, steps)
    assert life["steps"][1]["text"] == f"checksum: expected 1, found 2 (id {entry})"
    if code is not None:
        assert "in quarantine, by " in str(life["steps"][2]["text"])


@pytest.mark.parametrize(
    ("decision", "now", "steps"),
    [
        (None, "undecided", ["half"]),
        (COMMIT, "delivered", ["half", "sent", "committed"]),
        (ROLLBACK, "rolled_back", ["half", "rolled_back"]),
    ],
)
async def test_transactions(decision: int | None, now: str, steps: list[str]) -> None:
    """The first of all half messages too, whose place in its queue is 0."""
    rig = Rig()
    answer = send_half(rig, "K1")
    if decision is not None:
        end(rig, answer, decision)

    life = explain(rig, "K1")
    assert (life["now"], words(life)) == (now, steps)
    assert life["steps"][0]["text"] == "a transaction of P"
    assert {step["topic"] for step in life["steps"]} == {"T"}


async def test_a_transaction_with_a_delay() -> None:
    """Committed, it waits; it is not its transaction that is open."""
    rig = Rig(options=attrs.evolve(BROKER, transaction_delay=TransactionDelay.AT_COMMIT))
    delay = {"TIMER_DELAY_MS": "5000"}
    answer = rig.send("T", b"x", half_properties("K1", **delay), sysFlag="4")
    assert explain(rig, "K1")["now"] == "undecided"
    end(rig, answer, COMMIT)

    life = explain(rig, "K1")
    assert (life["now"], words(life)) == ("waiting", ["half", "stored", "committed"])


async def test_a_message_rolls_arrives_and_comes_again(autojump_clock: MockClock) -> None:
    """Rolls are counted, lateness is told, and so is how often it was consumed in vain."""
    del autojump_clock
    options = attrs.evolve(TIMER, timer_roll_window_slot=4)
    async with running_broker(timer_options=options) as running:
        peer = running.connect()
        deliver_ms = running.clock.now_ms() + 9_500
        properties = f"UNIQ_KEY\x01K1\x02TIMER_DELIVER_MS\x01{deliver_ms}\x02"
        await peer.call(10, send_ext("T", properties), b"x")
        await trio.sleep(12)
        life = await explained(peer, "K1")
        assert life["now"] == "delivered"
        rolls = words(life)[1:-1]
        assert words(life) == ["stored", *rolls, "delivered"]
        assert rolls == ["rolled"] * len(rolls) != []
        assert [step["text"] for step in life["steps"][1:-1]] == [
            f"roll {one}" for one in range(1, len(rolls) + 1)
        ]
        last = life["steps"][-1]
        assert last["deliver_ms"] == deliver_ms
        assert last["lateness_ms"] == cast("int", last["at_ms"]) - deliver_ms

        pulled = await peer.call(11, pull_ext("T"))
        back = {"offset": str(int.from_bytes(pulled.body[28:36], "big")), "group": "G"}
        back |= {"delayLevel": "0", "originTopic": "T", "originMsgId": "", "maxReconsumeTimes": "1"}
        assert (await peer.call(36, back)).code == 0
        life = await explained(peer, "K1")
        assert (life["now"], words(life)[-1]) == ("waiting", "stored")
        assert life["steps"][-1]["topic"] == "%RETRY%G"
        await trio.sleep(12)

        again = await peer.call(11, pull_ext("%RETRY%G"))
        back["offset"] = str(int.from_bytes(again.body[28:36], "big"))
        assert (await peer.call(36, back)).code == 0
        life = await explained(peer, "K1")
        assert life["now"] == "dead_letter"
        told = [one for one in words(life) if one != "rolled"]
        assert told == ["stored", "delivered", "stored", "delivered", "dead_letter"]
        assert life["steps"][-1]["topic"] == "%DLQ%G"


async def test_of_very_many_steps_the_newest_are_told(monkeypatch: pytest.MonkeyPatch) -> None:
    """And that there are more."""
    monkeypatch.setattr(message_life, "STEPS_MAX", 2)
    rig = Rig()
    for _ in range(3):
        rig.send("T", properties="UNIQ_KEY\x01K0\x02")

    life = explain(rig, "K0", "T")
    assert [step["queue_offset"] for step in life["steps"]] == [1, 2]
    assert not life["is_whole"]


async def test_without_an_index_nothing_is_said() -> None:
    """That a message is not known would be wrong."""
    rig = Rig(store_options=attrs.evolve(STORE, message_index_enable=False))
    rig.send("T", properties=later(5))
    answer = rig.call(EXPLAIN, body=cbor2.dumps({"id": "K1"}))

    assert answer.code == 604
    assert answer.remark is not None
    assert answer.remark.startswith("EXPLAIN_NEEDS_INDEX: ")


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"\xff",
        cbor2.dumps([]),
        cbor2.dumps({}),
        cbor2.dumps({"id": 7}),
        cbor2.dumps({"id": ""}),
        cbor2.dumps({"id": "K1", "topic": ""}),
        cbor2.dumps({"id": "K" * 70_000}),
    ],
)
async def test_what_is_no_question(body: bytes) -> None:
    """A refusal with a rule's name, and the connection lives."""
    answer = Rig().call(EXPLAIN, body=body)

    assert answer.code == 29
    assert answer.remark is not None
    assert answer.remark.startswith("EXPLAIN_BODY: ")


def quarantined(rig: Rig, topic: str, queue_id: int = 0, reason: Reason = Reason.CHECKSUM) -> int:
    """Put the one record of a queue into quarantine; its name there."""
    (record,) = rig.records(topic, queue_id)
    fault = Undeliverable(
        offset_py=record.phy_offset,
        size_py=record.size,
        record=rig.broker.store.commit_log.read(record.phy_offset, record.size),
        reason=reason,
        text="expected 1, found 2",
    )
    assert rig.broker.timer_store.quarantine.add([fault], rig.clock.now_ms()) is None
    return record.phy_offset


def retry_elsewhere(rig: Rig, entry: int) -> None:
    """Let a message out of quarantine, to topic Other."""
    fields = {"id": entry, "topic": "Other", "by": "me"}
    answer = rig.call(RETRY_QUARANTINE, body=cbor2.dumps(fields))
    assert cbor2.loads(answer.body)["verdict"] == "retried"


def level(topic: str) -> Message:
    """A message that RocketMQ has put into the queue of level 3."""
    properties = f"UNIQ_KEY\x01K1\x02DELAY\x013\x02REAL_TOPIC\x01{topic}\x02REAL_QID\x010\x02"
    return Message("SCHEDULE_TOPIC_XXXX", 2, b"x", properties.encode(), born_ms=5)


async def test_what_names_no_topic_is_in_quarantine_all_the_same() -> None:
    """The quarantine says so, whatever can be read of the message."""
    rig = Rig()
    properties = b"UNIQ_KEY\x01K1\x02TIMER_OUT_MS\x011700000005000\x02"
    rig.broker.store.put([Message(TIMER_TOPIC, 0, b"x", properties)])
    quarantined(rig, TIMER_TOPIC, reason=Reason.NO_TOPIC)

    life = explain(rig, "K1")
    assert (life["now"], words(life)) == ("quarantined", ["stored", "set_aside"])


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


@pytest.mark.parametrize("decision", [COMMIT, ROLLBACK])
async def test_of_two_transactions_one_is_open(decision: int) -> None:
    """What is open comes before what has ended, as what waits does."""
    rig = Rig()
    send_half(rig, "K1")
    end(rig, send_half(rig, "K1"), decision)

    assert explain(rig, "K1")["now"] == "undecided"


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


async def test_what_waits_behind_very_many_records() -> None:
    """Not only the topics of what is told are asked."""
    rig = Rig()
    rig.send("Old", properties=later(50))
    for _ in range(message_life.STEPS_MAX // 2 + 1):
        rig.send("T", properties=later(5))
        rig.call(CANCEL, {"topic": "T", "uniqueKey": "K1"})

    life = explain(rig, "K1")
    assert (life["now"], life["deliver_ms"]) == ("waiting", NOW_MS + 50_000)
    assert (len(life["steps"]), life["is_whole"]) == (message_life.STEPS_MAX, False)


async def test_more_groups_than_are_named() -> None:
    """How many they are is told."""
    rig = Rig()
    rig.send("T", properties="UNIQ_KEY\x01K1\x02")
    for number in range(GROUPS_MAX + 3):
        rig.broker.tables.offsets.commit(group=f"G{number}", topic="T", queue_id=0, offset=1)

    (step,) = explain(rig, "K1", "T")["steps"]
    assert len(cast("list[str]", step["consumed_by"])) == GROUPS_MAX
    assert step["group_count"] == GROUPS_MAX + 3


async def test_too_many_records_are_refused(
    autojump_clock: MockClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By a rule of its own."""
    del autojump_clock
    monkeypatch.setattr(key_records, "RECORDS_MAX", 2)
    async with running_broker() as running:
        peer = running.connect()
        for _ in range(3):
            await peer.call(10, send_ext("T", "UNIQ_KEY\x01K1\x02"), b"x")
        answer = await peer.call(EXPLAIN, body=cbor2.dumps({"id": "K1", "topic": "T"}))

    assert answer.code == 604
    assert answer.remark is not None
    assert answer.remark.startswith("EXPLAIN_TOO_COMMON: ")
