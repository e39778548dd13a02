"""Tests of the endings that producers send (37)."""

from __future__ import annotations

from collections.abc import Sequence

import attrs
import pytest

from broker_rig import BROKER, STORE, RecordingSession, Rig, send_ext
from timermq.broker.topic_validator import TRANS_HALF_TOPIC
from timermq.timerstore.message import Message
from timermq.timerstore.message_store import MessageStore
from timermq.timerstore.put_status import PutResult
from timermq.timerstore.store_options import FlushDiskType
from transaction_rig import (
    COMMIT,
    END_TRANSACTION,
    HALF_TOPIC,
    ROLLBACK,
    UNKNOWN,
    bodies,
    end,
    end_ext,
    half_properties,
    marked,
    send_half,
)


async def test_a_half_message_is_answered_like_a_message() -> None:
    """With the queue asked for, the half topic's offset, and the transaction's id."""
    answer = send_half(Rig(), "K0")

    assert answer.ext == {
        "msgId": "7F00000100002A9F0000000000000000",
        "queueId": "0",
        "queueOffset": "0",
        "transactionId": "K0",
        "MSG_REGION": "DefaultRegion",
        "TRACE_ON": "true",
    }


async def test_commit() -> None:
    """The message appears, and an op message marks the half message."""
    rig = Rig()
    half = send_half(rig, "K0")
    before = rig.records("T")
    answer = end(rig, half, COMMIT)
    (record,) = rig.records("T")

    assert before == []
    assert (answer.code, answer.ext) == (0, {})
    assert (record.body, record.sys_flag, record.prepared_transaction_offset) == (b"K0", 8, 0)
    assert record.properties_dict() == {
        "TRAN_MSG": "true",
        "PGROUP": "P",
        "UNIQ_KEY": "K0",
        "WAIT": "true",
        "MSG_REGION": "DefaultRegion",
        "TRACE_ON": "true",
        "CLUSTER": "DefaultCluster",
        "__transactionId__": "K0",
    }
    assert marked(rig.broker) == ["0,"]


async def test_rollback() -> None:
    """A message that is rolled back never appears, and its half is marked as done."""
    rig = Rig()
    answer = end(rig, send_half(rig, "K0"), ROLLBACK)

    assert answer.code == 0
    assert rig.records("T") == []
    assert marked(rig.broker) == ["0,"]


async def test_unknown() -> None:
    """Nothing happens, and nothing is answered, as in Java."""
    rig = Rig()
    half = send_half(rig, "K0")

    assert rig.handle(rig.command(END_TRANSACTION, end_ext(half, UNKNOWN))) == []
    assert marked(rig.broker) == []
    assert end(rig, half, COMMIT).code == 0


async def test_one_way() -> None:
    """Java's producer wants no answer; with SYNC_FLUSH none follows either."""
    sync = attrs.evolve(STORE, flush_disk_type=FlushDiskType.SYNC_FLUSH)
    for rig in (Rig(), Rig(store_options=sync)):
        rig.handle(rig.command(10, _half_ext("K0"), b"K0"))
        await rig.broker.store.flush()
        half = {"msgId": f"{0:032X}", "queueOffset": "0", "transactionId": "K0"}
        ext = end_ext(rig.command(0, half), COMMIT)

        assert rig.handle(rig.command(END_TRANSACTION, ext, flag=2)) == []
        assert bodies(rig.broker) == ["K0"]
        assert rig.broker.tables.durable.waiting <= 1


@pytest.mark.parametrize("decision", [COMMIT, ROLLBACK])
async def test_the_same_ending_again(decision: int) -> None:
    """It is answered the same, and nothing is stored; also under a name of before."""
    rig = Rig()
    half = send_half(rig, "K0")
    answers = [end(rig, half, decision) for _ in range(3)]

    assert [(one.code, one.remark) for one in answers] == [(0, None)] * 3
    assert bodies(rig.broker) == ["K0"] * (decision == COMMIT)
    assert marked(rig.broker) == ["0,"]


@pytest.mark.parametrize(
    ("first", "second", "how"), [(COMMIT, ROLLBACK, "commit"), (ROLLBACK, COMMIT, "rollback")]
)
async def test_another_ending_comes_too_late(first: int, second: int, how: str) -> None:
    """It is refused (604), where RocketMQ answers success."""
    rig = Rig()
    half = send_half(rig, "K0")
    end(rig, half, first)
    answer = end(rig, half, second)

    assert (answer.code, answer.remark) == (
        604,
        f"TRANSACTION_ENDED: the transaction K0 has ended by {how} before",
    )
    assert bodies(rig.broker) == ["K0"] * (first == COMMIT)


async def test_without_an_index_it_is_not_known_how_it_ended() -> None:
    """Then also the same ending is refused; the message is stored once."""
    rig = Rig(store_options=attrs.evolve(STORE, message_index_enable=False))
    half = send_half(rig, "K0")
    end(rig, half, COMMIT)
    answer = end(rig, half, COMMIT)

    assert (answer.code, answer.remark) == (
        604,
        "TRANSACTION_ENDED: the transaction K0 has ended before, how is not known",
    )
    assert bodies(rig.broker) == ["K0"]


@pytest.mark.parametrize(
    ("wrong", "remark"),
    [
        (
            {"producerGroup": "Q"},
            "TRANSACTION_GROUP: the half message is of group 'P', the request of 'Q'",
        ),
        (
            {"tranStateTableOffset": "1"},
            "TRANSACTION_OFFSET: the half message has the queue offset 0, the request 1",
        ),
        (
            {"transactionId": "K9"},
            "TRANSACTION_ID: the half message is of the transaction 'K0', the request of 'K9'",
        ),
        (
            {"commitLogOffset": "7"},
            "TRANSACTION_NOT_FOUND: no half message begins at 7: no message begins there",
        ),
        (
            {"commitOrRollback": "4"},
            "FIELD: request 37: commitOrRollback: expected 8, 12 or 0, found 4",
        ),
    ],
)
async def test_an_ending_names_its_half_message(wrong: dict[str, str], remark: str) -> None:
    """By group, queue offset and position, and by the id where it says one (1)."""
    rig = Rig()
    half = send_half(rig, "K0")
    answer = end(rig, half, COMMIT, **wrong)

    assert (answer.code, answer.remark) == (1, remark)
    assert rig.records("T") == []
    assert end(rig, half, COMMIT, transactionId="").code == 0


async def test_no_other_message_is_committed() -> None:
    """A position of a message that is no half message is refused (1)."""
    rig = Rig()
    plain = rig.send("T", properties="UNIQ_KEY\x01K0\x02PGROUP\x01P\x02")
    answer = end(rig, plain, COMMIT)

    assert (answer.code, answer.remark) == (
        1,
        "TRANSACTION_NOT_FOUND: no half message begins at 0: half message at 0: expected queue 0 "
        f"of {HALF_TOPIC}, found 0 of 'T'",
    )


async def test_after_its_immunity_only_a_check_ends_a_transaction() -> None:
    """One that asks for an immunity of its own (604); others may be ended at any time."""
    rig = Rig()
    own = send_half(rig, "K0", CHECK_IMMUNITY_TIME_IN_SECONDS="9")
    short = send_half(rig, "K1", CHECK_IMMUNITY_TIME_IN_SECONDS="1")
    none = send_half(rig, "K2")
    odd = send_half(rig, "K3", CHECK_IMMUNITY_TIME_IN_SECONDS="soon")
    rig.clock.time_ms += 6_000
    in_time = end(rig, short, COMMIT)
    rig.clock.time_ms += 3_001
    late = end(rig, own, COMMIT)

    assert in_time.code == 0
    assert (late.code, late.remark) == (
        604,
        "TRANSACTION_IMMUNITY: the transaction is 9001 ms old: after 9000 ms only an answer to a "
        "check ends it",
    )
    assert [end(rig, one, COMMIT).code for one in (none, odd)] == [0, 0]
    assert end(rig, own, COMMIT, fromTransactionCheck="true").code == 0


async def test_with_sync_flush_an_ending_is_answered_when_it_is_durable() -> None:
    """Not before; as any other write."""
    rig = Rig(store_options=attrs.evolve(STORE, flush_disk_type=FlushDiskType.SYNC_FLUSH))
    rig.handle(rig.command(10, _half_ext("K0"), b"K0"))
    await rig.broker.store.flush()
    half = {"msgId": f"{0:032X}", "queueOffset": "0", "transactionId": "K0"}
    ext = end_ext(rig.command(0, half), ROLLBACK)

    assert rig.handle(rig.command(END_TRANSACTION, ext)) == []
    assert rig.broker.tables.durable.waiting == 2


async def test_the_number_of_open_transactions_is_limited() -> None:
    """One more of a client is refused as busy (2) until one has ended; there is room for others."""
    rig = Rig(options=attrs.evolve(BROKER, transactions_max=4))
    first, _ = send_half(rig, "K0"), send_half(rig, "K1")
    full = rig.call(10, _half_ext("K2"), b"K2")
    end(rig, first, ROLLBACK)
    again = rig.call(10, _half_ext("K2"), b"K2")

    assert (full.code, full.remark) == (
        2,
        "TRANSACTIONS_MAX: 2 transactions are open, 2 of them of 127.0.0.1, expected at most 4, "
        "and of one no more than are left",
    )
    assert again.code == 0


async def test_transactions_of_one_leave_room_for_others() -> None:
    """What was open before the start has no owner; each new one takes a share until it ends."""
    rig = Rig(options=attrs.evolve(BROKER, transactions_max=6))
    other = RecordingSession(peer="10.0.0.2")
    codes = [rig.call(10, _half_ext(f"K{at}"), b"x").code for at in range(4)]
    others = [rig.call(10, _half_ext(f"L{at}"), b"x", peer=other).code for at in range(3)]

    assert codes == [0, 0, 0, 2]
    assert others == [0, 0, 2]


async def test_a_put_that_fails_takes_no_share(monkeypatch: pytest.MonkeyPatch) -> None:
    """A mistake of ours in storing: the transactions were not opened, so there is room."""
    rig = Rig(options=attrs.evolve(BROKER, transactions_max=2))
    put = MessageStore.put

    def fail(store: MessageStore, messages: Sequence[Message], **how: bool) -> list[PutResult]:
        if messages and messages[0].topic == TRANS_HALF_TOPIC:
            raise ZeroDivisionError
        return put(store, messages, **how)

    with monkeypatch.context() as failing:
        failing.setattr(MessageStore, "put", fail)
        assert [rig.call(10, _half_ext("K0"), b"x").code for _ in range(3)] == [1, 1, 1]

    assert rig.call(10, _half_ext("K1"), b"x").code == 0


def _half_ext(key: str) -> dict[str, str]:
    return send_ext("T", half_properties(key), sysFlag="4")
