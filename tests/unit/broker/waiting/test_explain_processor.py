"""Tests of EXPLAIN_MESSAGE: the steps of a message's life, and how it stands behind them."""

from __future__ import annotations

from typing import TypedDict, cast

import attrs
import cbor2
import pytest
import trio
from trio.testing import MockClock

from broker_rig import BROKER, STORE, TIMER, Peer, Rig, pull_ext, running_broker, send_ext
from timermq.broker.options import TransactionDelay
from timermq.broker.waiting import life_records
from timermq.pipeline.timer_record import TIMER_TOPIC, timer_tail
from timermq.pipeline.undeliverable import Reason, Undeliverable
from timermq.timerstore.message import Message
from transaction_rig import COMMIT, ROLLBACK, end, half_properties, send_half

EXPLAIN, CANCEL = 9006, 9005
RETRY_QUARANTINE, DROP_QUARANTINE = 9012, 9013
NOW_MS = 1_700_000_000_000


class Life(TypedDict):
    """An answer."""

    now: str
    deliver_ms: int | None
    steps: list[dict[str, object]]
    is_whole: bool


def explain(rig: Rig, unique_key: str, topic: str | None = None) -> Life:
    """What is known of a message."""
    answer = rig.call(EXPLAIN, body=cbor2.dumps({"id": unique_key, "topic": topic}))
    assert answer.code == 0, answer.remark
    return cast("Life", cbor2.loads(answer.body))


async def explained(peer: Peer, unique_key: str, topic: str | None = None) -> Life:
    """The same of a running broker."""
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
    (record,) = rig.records(TIMER_TOPIC)
    found = rig.broker.store.commit_log.read(record.phy_offset, record.size)
    fault = Undeliverable(
        offset_py=record.phy_offset,
        size_py=record.size,
        record=found,
        reason=Reason.CHECKSUM,
        text="expected 1, found 2",
    )
    assert rig.broker.timer_store.quarantine.set_aside([fault], rig.clock.now_ms()) is None
    if code == CANCEL:
        rig.call(CANCEL, {"topic": "T", "uniqueKey": "K1"})
    elif code is not None:
        rig.call(code, body=cbor2.dumps({"id": record.phy_offset, "by": "me"}))

    life = explain(rig, "K1")
    assert (life["now"], words(life)) == (now, steps)
    assert life["steps"][1]["text"] == f"checksum: expected 1, found 2 (id {record.phy_offset})"
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
    monkeypatch.setattr(life_records, "STEPS_MAX", 2)
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
