"""Tests of the broker's numbers, beside the answers of RocketMQ's own broker."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any, cast

import attrs
import pytest
import trio
import trio.testing

from broker_rig import STORE, Rig, pull_ext, running_broker, send_ext
from timermq.broker.admin.runtime_info import size_text
from timermq.remoting import Command
from timermq.timerstore.errors import StoreFailedError
from timermq.timerstore.store_options import FlushDiskType

GOLDEN = Path(__file__).parents[3] / "golden" / "runtime_info.json"
RECORDED = cast("dict[str, dict[str, Any]]", json.loads(GOLDEN.read_text()))
RELEASES = sorted(RECORDED)

_NUMBER = r"-?\d+(\.\d+)?"
FORMS = {
    "number": _NUMBER,
    "rates": rf"{_NUMBER} {_NUMBER} {_NUMBER}",
    "bytes": r"\d+(\.\d)? [KMGTPE]?i?B",
    "space": r"Total : [\d.]+ [KMGTPE]?i?B, Free : [\d.]+ [KMGTPE]?i?B\.",
    "spread": r"(\[[^]]+\]:\d+ ){13}",
    "duration": r"\[ [\d,]+ days, \d+ hours, \d+ minutes, \d+ seconds \]",
    "places": r"\d+,\d+",
    "truth": r"true|false",
    "version": r"V\d+_\d+_\d+|TIMERMQ_.+",
}
"""The kinds of values, as expressions that the whole of one matches."""


def form_of(value: str) -> str:
    """The kind of a value; it has one."""
    return next(name for name, form in FORMS.items() if re.fullmatch(form, value))


def runtime(rig: Rig) -> dict[str, str]:
    """The table that a broker answers with."""
    table: dict[str, str] = json.loads(rig.call(28).body)["table"]
    return table


@pytest.mark.parametrize("release", RELEASES)
async def test_all_of_rocketmq_s_names(
    release: str, autojump_clock: trio.testing.MockClock
) -> None:
    """Each is there, with a value of the same kind as in the answer of RocketMQ's broker."""
    rig = Rig()
    rig.send("T")
    await rig.broker.tables.stats.sample()
    await trio.sleep(60)
    await rig.broker.tables.stats.sample()
    theirs = {
        name: form_of(value)
        for name, value in RECORDED[release]["runtime"].items()
        if not name.startswith("scheduleMessageOffset_")
    }
    ours = {name: form_of(value) for name, value in runtime(rig).items()}

    assert theirs.items() <= ours.items()
    assert ours.keys() - theirs.keys() <= {"brokerVersion"}, "which 5.5 has no more"


async def test_what_came_and_went(autojump_clock: trio.testing.MockClock) -> None:
    """Messages of users in all, calls and messages a second, bytes as in the log."""
    rig = Rig()
    rig.send("T")
    rig.send("T", properties="UNIQ_KEY\x01K1\x02TIMER_DELAY_MS\x015000\x02")
    rig.send("T", queueId="9")
    rig.call(11, pull_ext("T"))
    rig.call(11, pull_ext("T", queueOffset="1"))
    rig.call(11, pull_ext("T", queueOffset="2"))
    rig.clock.time_ms += 90_061_000
    table = runtime(rig)

    assert table["msgPutTotalTodayNow"] == "1", "the timer has not arrived"
    assert table["msgGetTotalTodayNow"] == "1"
    assert table["runtime"] == "[ 1 days, 1 hours, 1 minutes, 1 seconds ]"
    assert table["putTps"].split()[0] == "0.20"
    assert table["getFoundTps"].split()[0] == table["getTransferredTps"].split()[0] == "0.10"
    assert table["getMissTps"].split()[0] == "0.20"
    assert table["getTotalTps"].split()[0] == "0.30"
    assert table["putMessageTimesTotal"] == "2"
    assert table["putMessageSizeTotal"] == table["commitLogMaxOffset"]
    assert float(table["putMessageAverageSize"]) == int(table["putMessageSizeTotal"]) / 2
    assert table["putMessageFailedTimes"] == "0"
    assert table["earliestMessageTimeStamp"] == "1700000000000"
    assert table["timerOffsetBehind"] == "1"
    assert "commitLogDiskRatio_/store/commitlog" in table


async def test_a_message_that_is_not_stored() -> None:
    """It has failed, and is nowhere else in the table."""
    rig = Rig()
    rig.send("T")
    before = runtime(rig)
    with pytest.raises(StoreFailedError):
        rig.broker.store.fail(OSError("no disk"))
    assert rig.send("T").code == 14
    after = runtime(rig)

    assert {name for name in after if after[name] != before[name]} == {"putMessageFailedTimes"}
    assert after["putMessageFailedTimes"] == "1"


@pytest.mark.parametrize("flush", FlushDiskType)
async def test_how_long_puts_take(
    flush: FlushDiskType, autojump_clock: trio.testing.MockClock
) -> None:
    """Each send counts, in whichever form it comes; with SYNC_FLUSH when it is on the disk."""
    short = dict(zip("abcdefghi", send_ext("T").values(), strict=True))
    run = [Command(310, opaque=number, ext=short, body=b"hello") for number in range(40)]
    options = attrs.evolve(STORE, flush_disk_type=flush)
    async with running_broker(store_options=options) as running:
        peer = running.connect()
        assert (await peer.call(10, send_ext("T"), b"hello")).code == 0
        await peer.send(*run)
        for _ in run:
            answer = await peer.receive()
            assert answer is not None
            assert answer.code == 0
        assert (await peer.call(310, short, b"hello")).code == 0
        await trio.sleep(80)
        table = json.loads((await peer.call(28)).body)["table"]

        assert table["putMessageDistributeTime"].startswith("[<=0ms]:42 [0~10ms]:0 ")


@pytest.mark.parametrize(
    ("size", "text"),
    [
        (0, "0 B"),
        (1_023, "1023 B"),
        (1_024, "1.0 KiB"),
        (9_421, "9.2 KiB"),
        (270_582_939_648, "252.0 GiB"),
        (1 << 60, "1.0 EiB"),
    ],
)
def test_bytes_as_rocketmq_writes_them(size: int, text: str) -> None:
    """With a decimal from a KiB on."""
    assert size_text(size) == text
