"""Tests of CANCEL_MESSAGE: three ways to name a message, four verdicts, and what is refused."""

from __future__ import annotations

import attrs
import pytest

from broker_rig import BROKER, STORE, Rig
from timermq.pipeline.admission.recall_handle import encode_handle
from timermq.remoting import Command
from timermq.timerstore.store_options import FlushDiskType

LATER = "UNIQ_KEY\x01K1\x02KEYS\x01order-7 all\x02TIMER_DELIVER_MS\x011700000005300\x02"
OTHER = "UNIQ_KEY\x01K2\x02KEYS\x01all\x02TIMER_DELIVER_MS\x011700000005300\x02"
NOW = "UNIQ_KEY\x01K0\x02"
SLOT_MS = 1_700_000_005_000


def ask(rig: Rig, **ext: str) -> Command:
    """The answer to a request about a message of T."""
    return rig.call(9005, {"topic": "T", **ext})


@pytest.mark.parametrize(
    "by",
    [
        {"uniqueKey": "K1"},
        {"key": "order-7"},
        {"recallHandle": encode_handle("T", "broker-a", SLOT_MS + 1, "K1")},
    ],
)
async def test_each_name_finds_the_message(by: dict[str, str]) -> None:
    """And asking again says the same."""
    rig = Rig()
    rig.send("T", properties=LATER)
    answers = [ask(rig, **by) for _ in range(2)]

    assert [one.code for one in answers] == [0, 0]
    assert [one.ext["verdict"] for one in answers] == ["cancelled", "cancelled"]
    assert len(rig.records("rmq_sys_wheel_timer")) == 3, "two deletes"


async def test_with_sync_flush_a_verdict_waits_for_the_disk() -> None:
    """Whatever it says: also what was decided before may not be durable yet."""
    rig = Rig(store_options=attrs.evolve(STORE, flush_disk_type=FlushDiskType.SYNC_FLUSH))
    requests = [
        rig.command(9005, {"topic": "T", "uniqueKey": "K9"}),
        rig.command(9005, {"topic": "T", "uniqueKey": "K9", "delayMs": "5"}),
    ]

    assert [] == rig.handle(*requests)


async def test_what_has_arrived_and_what_is_not_there() -> None:
    """Both are answers, not errors."""
    rig = Rig()
    rig.send("T", properties=NOW)

    assert ask(rig, uniqueKey="K0").ext == {"verdict": "too_late", "uniqueKey": "K0"}
    assert ask(rig, uniqueKey="K9").ext == {"verdict": "not_found", "uniqueKey": "K9"}
    assert ask(rig, uniqueKey="K9", delayMs="5").ext["verdict"] == "not_found"


@pytest.mark.parametrize(
    ("to", "deliver_ms"),
    [
        ({"deliverMs": "1700000070001"}, 1_700_000_070_001),
        ({"delayMs": "2500"}, 1_700_000_002_500),
        ({"deliverMs": "1699999999999"}, 1_700_000_000_001),
    ],
)
async def test_a_message_is_moved(to: dict[str, str], deliver_ms: int) -> None:
    """The new handle takes it back."""
    rig = Rig()
    rig.send("T", properties=LATER)
    answer = ask(rig, uniqueKey="K1", **to)

    assert answer.code == 0
    handle = encode_handle("T", "broker-a", (deliver_ms - 1) // 1000 * 1000 + 1, "K1#moved0")
    assert answer.ext == {
        "verdict": "moved",
        "uniqueKey": "K1",
        "deliverMs": str(deliver_ms),
        "recallHandle": handle,
    }
    assert ask(rig, recallHandle=handle).ext["verdict"] == "cancelled"
    assert ask(rig, uniqueKey="K1", delayMs="5").ext["verdict"] == "not_found"


@pytest.mark.parametrize(
    ("ext", "rule"),
    [
        ({}, "CANCEL_TARGET"),
        ({"uniqueKey": "K1", "key": "all"}, "CANCEL_TARGET"),
        ({"key": "all"}, "CANCEL_KEY_NOT_UNIQUE"),
        ({"recallHandle": "no handle"}, "RECALL_HANDLE"),
        ({"recallHandle": encode_handle("U", "broker-a", SLOT_MS + 1, "K1")}, "RECALL_TOPIC"),
        ({"uniqueKey": "K1", "deliverMs": "1", "delayMs": "1"}, "CANCEL_MOMENT"),
        ({"uniqueKey": "K1", "delayMs": "-1"}, "TIMER_NEGATIVE"),
        ({"uniqueKey": "K1", "delayMs": "86400001"}, "TIMER_DELAY_TOO_LONG"),
    ],
)
async def test_what_is_refused(ext: dict[str, str], rule: str) -> None:
    """The remark names the rule, and nothing is written."""
    rig = Rig()
    rig.send("T", properties=LATER)
    rig.send("T", properties=OTHER)
    answer = ask(rig, **ext)

    assert answer.code == 604
    assert answer.remark is not None
    assert answer.remark.startswith(f"{rule}: ")
    assert len(rig.records("rmq_sys_wheel_timer")) == 2


async def test_switched_off_and_without_an_index() -> None:
    """Without an index nothing can be promised."""
    off = Rig(options=attrs.evolve(BROKER, recall_message_enable=False))
    blind = Rig(store_options=attrs.evolve(STORE, message_index_enable=False))

    assert ask(off, uniqueKey="K1").code == 16
    remark = ask(blind, uniqueKey="K1").remark
    assert remark == "CANCEL_NEEDS_INDEX: messageIndexEnable is false on this broker"
