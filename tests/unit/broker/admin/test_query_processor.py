"""Tests of looking messages up: by key, by position, and as units of a queue."""

import json

import attrs
import pytest

from broker_rig import BROKER, STORE, Rig, split_records
from timermq.pipeline.records.deduplication import origin_of
from timermq.timerstore.message import Message
from timermq.timerstore.record import decode_record

ALWAYS = {"beginTimestamp": "0", "endTimestamp": "9999999999999", "maxNum": "32"}


async def test_by_key() -> None:
    """Every word of KEYS finds its messages, in the time asked for."""
    rig = Rig()
    rig.send("T", b"one", "UNIQ_KEY\x01K1\x02KEYS\x01a b\x02")
    rig.clock.time_ms += 1_000
    rig.send("T", b"two", "UNIQ_KEY\x01K2\x02KEYS\x01b\x02")
    both = rig.call(12, {"topic": "T", "key": "b", **ALWAYS})
    early = rig.call(12, {"topic": "T", "key": "b", **ALWAYS, "endTimestamp": "1700000000500"})

    assert [decode_record(data).body for data in split_records(both.body)] == [b"one", b"two"]
    assert both.ext["indexLastUpdateTimestamp"] == "1700000001000"
    assert int(both.ext["indexLastUpdatePhyoffset"]) == rig.broker.store.commit_log.max_offset
    assert [decode_record(data).body for data in split_records(early.body)] == [b"one"]


async def test_by_unique_key() -> None:
    """The key that clients show as message id finds the message, and only that."""
    rig = Rig()
    rig.send("T", b"one", "UNIQ_KEY\x01K1\x02KEYS\x01K2\x02")
    rig.send("T", b"two", "UNIQ_KEY\x01K2\x02")
    answer = rig.call(12, {"topic": "T", "key": "K2", "_UNIQUE_KEY_QUERY": "true", **ALWAYS})

    assert [decode_record(data).body for data in split_records(answer.body)] == [b"two"]


async def test_nothing_found() -> None:
    """An unknown key is answered with 22."""
    rig = Rig()
    rig.send("T")

    assert rig.call(12, {"topic": "T", "key": "none", **ALWAYS}).code == 22


async def test_the_answer_has_a_size() -> None:
    """Large messages are left out beyond the limit; the first one always comes."""
    rig = Rig(options=attrs.evolve(BROKER, query_size_max=10_000))
    for _ in range(3):
        rig.send("T", bytes(6_000), "KEYS\x01k\x02")
    answer = rig.call(12, {"topic": "T", "key": "k", **ALWAYS})

    assert len(split_records(answer.body)) == 1


@pytest.mark.parametrize(("wanted", "count_max", "found"), [(8, 3, 3), (80, 100, 70), (2, 3, 2)])
async def test_the_answer_has_a_number_of_messages(wanted: int, count_max: int, found: int) -> None:
    """As many as the client wants, and no more than the setting says."""
    rig = Rig(store_options=attrs.evolve(STORE, max_msgs_num_batch=count_max))
    for _ in range(70):
        rig.send("T", b"x", "KEYS\x01k\x02")
    answer = rig.call(12, {"topic": "T", "key": "k", **ALWAYS, "maxNum": str(wanted)})

    assert len(split_records(answer.body)) == found


async def test_by_position() -> None:
    """The position in an offset message id finds the message it was made for."""
    rig = Rig()
    rig.send("T", b"one")
    second = rig.send("T", b"two")
    offset = str(int(second.ext["msgId"][16:], 16))
    answer = rig.call(33, {"offset": offset})

    assert decode_record(answer.body).body == b"two"


async def test_no_origin_is_shown() -> None:
    """A delivered record names the one that waited, in a field that is 0 in RocketMQ's."""
    rig = Rig()
    own = b"UNIQ_KEY\x01K1\x02KEYS\x01k\x02"
    rig.broker.store.put([Message("T", 0, b"due", own, prepared_offset=origin_of(4_096))])
    (delivered,) = rig.records("T")
    by_key = rig.call(12, {"topic": "T", "key": "k", **ALWAYS})
    by_position = rig.call(33, {"offset": str(delivered.phy_offset)})

    assert delivered.prepared_transaction_offset < 0
    for shown in (by_key.body, by_position.body):
        assert decode_record(shown) == attrs.evolve(delivered, prepared_transaction_offset=0)


@pytest.mark.parametrize("offset", ["-1", "1", "181", "9223372036854775807"])
async def test_positions_without_a_message(offset: str) -> None:
    """Positions inside messages, at the end and anywhere else are an error (1)."""
    rig = Rig()
    rig.send("T")
    answer = rig.call(33, {"offset": offset})

    assert (answer.code, answer.remark) == (1, f"MESSAGE_NOT_FOUND: no message begins at {offset}")


async def test_a_forged_record_inside_a_body_is_no_message() -> None:
    """A body that looks like a record does not name the position where it stands."""
    rig = Rig()
    rig.send("T", b"one")
    log = rig.broker.store.commit_log
    forged = log.record_at(0, log.max_offset)
    assert forged is not None
    answer = rig.send("T", forged)
    inside = int(answer.ext["msgId"][16:], 16) + 88

    assert rig.call(33, {"offset": str(inside)}).code == 1


async def test_units_of_a_queue() -> None:
    """As they stand in the file, with the ends of the queue."""
    rig = Rig()
    for _ in range(3):
        rig.send("T")
    ask = {"topic": "T", "queueId": "0", "index": "1", "count": "1", "consumerGroup": ""}
    found = json.loads(rig.call(321, ask).body)
    first, second = rig.records("T")[:2]

    assert (found["minQueueIndex"], found["maxQueueIndex"]) == (0, 3)
    assert [row["physicOffset"] for row in found["queueData"]] == [second.phy_offset]
    assert second.phy_offset - first.phy_offset == found["queueData"][0]["physicSize"]
    assert rig.call(321, {**ask, "queueId": "1"}).code == 1
