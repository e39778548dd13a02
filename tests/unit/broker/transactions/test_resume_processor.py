"""Tests of abandoned transactions that an operator begins again."""

from __future__ import annotations

import attrs
import pytest

from broker_rig import BROKER, Rig
from timermq.timerstore.message_id import offset_message_id
from timermq.timerstore.record import Record
from transaction_rig import (
    COMMIT,
    DISCARD_TOPIC,
    END_TRANSACTION,
    HALF_TOPIC,
    bodies,
    checks,
    joined,
    reply_ext,
    send_half,
)

IMPATIENT = attrs.evolve(BROKER, transaction_check_max=1)


def id_of(record: Record) -> str:
    """The offset message id of a record."""
    return offset_message_id(record.store_host, record.phy_offset)


async def abandoned(rig: Rig, key: str = "K0", **more: str) -> Record:
    """The message that is kept of a transaction that was not decided in time."""
    send_half(rig, key, **more)
    for _ in range(2):
        rig.clock.time_ms += 6_000
        await rig.broker.transaction_check.check()
    (record,) = rig.records(DISCARD_TOPIC)
    return record


async def test_a_transaction_begins_again() -> None:
    """Its producer is asked as of a new one, and its commit brings the message once."""
    rig = Rig(options=IMPATIENT)
    record = await abandoned(rig, TAGS="a")
    producer = joined(rig.broker.tables.clients)
    assert rig.call(323, {"topic": DISCARD_TOPIC, "msgId": id_of(record)}).code == 0
    assert rig.broker.statistics().transactions.open == 1
    rig.clock.time_ms += 6_000
    await rig.broker.transaction_check.check()
    (asked,) = checks(producer)
    assert rig.call(END_TRANSACTION, reply_ext(asked, COMMIT)).code == 0
    (message,) = rig.records("T")

    assert (message.body, message.queue_id) == (b"K0", 0)
    assert message.properties.count(b"TAGS\x01a\x02") == 1
    for name in (b"TRANSACTION_CHECK_TIMES", b"TIMERMQ_HALF", b"REAL_TOPIC"):
        assert name not in message.properties
    assert rig.broker.statistics().transactions.open == 0


async def test_it_outlives_the_process() -> None:
    """It is open for the next one, beside the one that was discarded."""
    rig = Rig(options=IMPATIENT)
    record = await abandoned(rig)
    rig.call(323, {"msgId": id_of(record)})
    rig.broker.store.abandon()
    again = Rig(disk=rig.broker.store.disk, options=IMPATIENT)

    assert again.broker.statistics().transactions.open == 1
    assert bodies(again.broker, HALF_TOPIC)[-1] == "K0"


async def test_a_share_of_the_open_ones_is_taken() -> None:
    """Where there is no room for a half message, there is none for this one."""
    rig = Rig(options=attrs.evolve(IMPATIENT, transactions_max=1))
    record = await abandoned(rig)
    send_half(rig, "K1")
    answer = rig.call(323, {"msgId": id_of(record)})

    assert (answer.code, (answer.remark or "").partition(":")[0]) == (2, "TRANSACTIONS_MAX")
    assert rig.broker.statistics().transactions.open == 1


@pytest.mark.parametrize(
    ("message_id", "reason"),
    [
        ("xyz", "expected 32 or 56 hexadecimal digits, found 'xyz'"),
        ("7F00000100002A9F0000000000000007", "no message begins at 7"),
        ("7F00000100002A9F0000000000000000", "of TRANS_CHECK_MAX_TIME_TOPIC, found 0 of 'T'"),
    ],
)
async def test_other_messages_stay(message_id: str, reason: str) -> None:
    """RocketMQ makes half messages of whatever is named; here nothing is written."""
    rig = Rig()
    rig.send("T", b"plain")
    end = rig.broker.store.commit_log.max_offset
    answer = rig.call(323, {"msgId": message_id})

    assert answer.code == 1
    assert (answer.remark or "").startswith("TRANSACTION_NOT_FOUND: ")
    assert reason in (answer.remark or "")
    assert rig.broker.store.commit_log.max_offset == end
