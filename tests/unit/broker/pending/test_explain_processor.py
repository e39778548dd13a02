"""Tests of EXPLAIN_MESSAGE: the steps of a message's life, and how it stands behind them."""

from __future__ import annotations

from typing import cast

import attrs
import cbor2
import pytest
import trio
from trio.testing import MockClock

from broker_rig import STORE, TIMER, Rig, pull_ext, running_broker, send_ext
from timermq.pipeline.records import key_records
from unit.broker.pending.lives import CANCEL, EXPLAIN, NOW_MS, explain, explained, later, words


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
