"""The state of a message now, behind the steps of its life."""

from __future__ import annotations

from typing import cast

import attrs
import cbor2
import pytest

from broker_rig import BROKER, Rig
from simulation.staged_service import stored_delete
from timermq.broker.options import TransactionDelay
from timermq.broker.pending import message_life
from timermq.broker.pending.life_step import GROUPS_MAX
from timermq.pipeline.records.timer_record import TIMER_TOPIC
from timermq.pipeline.records.undeliverable import Reason
from timermq.timerstore.message import Message
from transaction_rig import COMMIT, ROLLBACK, end, half_properties, send_half
from unit.broker.pending.lives import (
    CANCEL,
    DROP_QUARANTINE,
    NOW_MS,
    RETRY_QUARANTINE,
    explain,
    later,
    quarantined,
    words,
)


async def test_who_has_consumed_it() -> None:
    """Groups that have committed beyond it; one that has committed up to it has not."""
    rig = Rig()
    rig.send("T", properties="UNIQ_KEY\x01K0\x02")
    rig.send("T", properties="UNIQ_KEY\x01K1\x02")
    for group, offset in (("behind", 1), ("done", 2)):
        rig.broker.tables.offsets.commit(group=group, topic="T", queue_id=0, offset=offset)

    assert explain(rig, "K0", "T")["steps"][0]["consumed_by"] == ["behind", "done"]
    assert explain(rig, "K1", "T")["steps"][0]["consumed_by"] == ["done"]


async def test_a_key_of_a_producer_that_looks_moved() -> None:
    """It is looked for as it is, if no message has the key that it would have been moved from."""
    rig = Rig()
    rig.send("T", properties=later(5, "K1#moved7"))

    assert explain(rig, "K1#moved7", "T")["now"] == "waiting"
    assert explain(rig, "K1", "T")["now"] == "not_found"


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


async def test_of_very_many_steps_the_newest_are_told(monkeypatch: pytest.MonkeyPatch) -> None:
    """And that there are more."""
    monkeypatch.setattr(message_life, "STEPS_MAX", 2)
    rig = Rig()
    for _ in range(3):
        rig.send("T", properties="UNIQ_KEY\x01K0\x02")

    life = explain(rig, "K0", "T")
    assert [step["queue_offset"] for step in life["steps"]] == [1, 2]
    assert not life["is_whole"]


async def test_what_names_no_topic_is_in_quarantine_all_the_same() -> None:
    """The quarantine says so, whatever can be read of the message."""
    rig = Rig()
    properties = b"UNIQ_KEY\x01K1\x02TIMER_OUT_MS\x011700000005000\x02"
    rig.broker.store.put([Message(TIMER_TOPIC, 0, b"x", properties)])
    quarantined(rig, TIMER_TOPIC, reason=Reason.NO_TOPIC)

    life = explain(rig, "K1")
    assert (life["now"], words(life)) == ("quarantined", ["stored", "set_aside"])


@pytest.mark.parametrize("decision", [COMMIT, ROLLBACK])
async def test_of_two_transactions_one_is_open(decision: int) -> None:
    """What is open comes before what has ended, as what waits does."""
    rig = Rig()
    send_half(rig, "K1")
    end(rig, send_half(rig, "K1"), decision)

    assert explain(rig, "K1")["now"] == "undecided"


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


async def test_stored_deletes_cancel_messages_of_their_topic() -> None:
    """The slot takes it out, and no delete of another topic does."""
    rig = Rig()
    rig.send("T", properties=later(5))
    rig.broker.store.put([stored_delete("V", "T+K1", NOW_MS + 5000, "K1")])
    assert explain(rig, "K1")["now"] == "waiting"

    rig.broker.store.put([stored_delete("T", "T+K1", NOW_MS + 5000, "K1")])
    assert explain(rig, "K1")["now"] == "cancelled"
