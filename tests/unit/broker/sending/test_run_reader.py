"""Sends that fit into a run become messages there; all others are left to the other reader."""

from __future__ import annotations

import attrs
import pytest

from broker_rig import Rig
from timermq.broker.sending import run_reader
from timermq.broker.sending.send_request import Addressed
from timermq.remoting import Command
from timermq.remoting.send_run.send_v2 import SendV2, SendV2Fields

OWN = b"MSG_REGION\x01DefaultRegion\x02TRACE_ON\x01true\x02CLUSTER\x01DefaultCluster\x02"


def rig_that_knows_t() -> Rig:
    """A broker that knows topic T, with four queues."""
    rig = Rig()
    rig.send("T")
    return rig


def v2(properties: str = "UNIQ_KEY\x01K\x02", body: bytes = b"x", **fields: str) -> SendV2:
    """A send to queue 0 of topic T."""
    known = {"topic": "T", "queue_id": "0", "born_ms": "1700000000000"} | fields
    return SendV2(310, 1, SendV2Fields(properties=properties, **known), body=body)


def read(rig: Rig, *requests: SendV2 | Command) -> list[Addressed | None]:
    """What the reader makes of a chunk."""
    reader = rig.broker.processors.send.run_reader
    return reader.read([(rig.peer.session, one) for one in requests])


async def test_a_plain_send_becomes_a_message() -> None:
    """With the broker's own properties behind its own, whether a mark ends them or not."""
    with_end, without = read(
        rig_that_knows_t(), v2(flag="7", sys_flag="1"), v2("UNIQ_KEY\x01K", queue_id="3")
    )

    assert with_end is not None
    assert without is not None
    assert (with_end.unique_key, with_end.topic, with_end.queue_id) == ("K", "T", 0)
    assert with_end.message.properties == without.message.properties
    assert with_end.message.properties == b"UNIQ_KEY\x01K\x02" + OWN
    assert (with_end.message.flag, with_end.message.sys_flag) == (7, 1)
    assert (without.queue_id, without.message.born_ms) == (3, 1_700_000_000_000)


@pytest.mark.parametrize(
    "send",
    [
        v2(topic="New"),
        v2(topic="%RETRY%G"),
        v2(queue_id="4"),
        v2(queue_id="-1"),
        v2(queue_id="00"),
        v2(flag="-1"),
        v2(sys_flag="4"),
        v2(sys_flag="64"),
        v2(body=b""),
        v2(batch="true"),
        v2(reconsume_times="1"),
        v2(default_topic_queue_nums="x"),
        v2(max_reconsume_times="x"),
        v2(born_ms="-1"),
        v2(born_ms="1" * 40),
        v2("TRAN_MSG\x01true\x02UNIQ_KEY\x01K\x02"),
        v2("WAIT\x01false\x02UNIQ_KEY\x01K\x02"),
        v2("POP_CK\x01x\x02UNIQ_KEY\x01K\x02"),
        v2("CLUSTER\x01x\x02UNIQ_KEY\x01K\x02"),
        v2(""),
        v2("UNIQ_KEY\x01\x02"),
        v2("xUNIQ_KEY\x01K\x02"),
        v2("UNIQ_KEY\x01K\x02UNIQ_KEY\x01L\x02"),
    ],
)
async def test_what_has_a_rule_of_its_own_is_left_to_the_other_reader(send: SendV2) -> None:
    """Nothing is refused here: that reader checks it, or makes what is missing."""
    assert read(rig_that_knows_t(), send) == [None]


async def test_one_odd_send_costs_its_neighbours_nothing() -> None:
    """Properties are looked at together first; then each send is looked at by itself."""
    found = read(rig_that_knows_t(), v2(), v2("WAIT\x01false\x02UNIQ_KEY\x01K\x02"), Command(10))

    assert [one is not None for one in found] == [True, False, False]


async def test_a_changed_topic_is_checked_again() -> None:
    """What the checks have passed is remembered until the table of topics changes."""
    rig = rig_that_knows_t()
    assert read(rig, v2(queue_id="3")) != [None]
    config = rig.broker.tables.topics.get("T")
    assert config is not None
    rig.broker.tables.topics.put(attrs.evolve(config, read_queue_nums=1, write_queue_nums=1))

    assert read(rig, v2(queue_id="3")) == [None]
    assert read(rig, v2(queue_id="0")) != [None]


async def test_pairs_of_topic_and_queue_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    """Beyond the limit all are forgotten, and checked once more."""
    monkeypatch.setattr(run_reader, "TARGETS_MAX", 1)
    rig = rig_that_knows_t()
    for queue_id in ("0", "1", "2", "0"):
        assert read(rig, v2(queue_id=queue_id)) != [None]


async def test_before_the_broker_takes_sends_none_is_read() -> None:
    """The other reader refuses them, and says from when on it takes them."""
    rig = rig_that_knows_t()
    rig.broker.options.start_accept_send_request_time_stamp = rig.clock.time_ms + 1

    assert read(rig, v2(), v2()) == [None, None]
    rig.clock.time_ms += 1
    assert None not in read(rig, v2(), v2())
