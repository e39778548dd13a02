"""`timermq pending`: what will fire, of a stopped store and of a running broker."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from cli.program import RunProgram
from golden_stores import GOLDEN, NAMES, GoldenStore, GoldenStores
from interop.serving import Broker
from timermq.cli.moment import format_moment
from timermq.pipeline.admission.delay_level import DelayLevels
from timermq.pipeline.records.timer_record import TIMER_TOPIC
from timermq.timerstore.delay_levels import SCHEDULE_TOPIC
from timermq.timerstore.store_options import DEFAULT_DELAY_LEVELS

pytestmark = pytest.mark.slow

LEVELS = DelayLevels.parse(DEFAULT_DELAY_LEVELS)


def pending_rows(golden: GoldenStore) -> list[dict[str, object]]:
    """What the manifest says is waiting, on the wheel or for a level, in the order of moments."""
    rows: list[dict[str, object]] = []
    stated = {one.phy_offset: one.properties for one in golden.manifest.state.records}
    for message in golden.manifest.messages:
        newest = message.held[-1] if message.held else None
        if newest is None or newest.topic not in (TIMER_TOPIC, SCHEDULE_TOPIC):
            continue
        if not message.state.startswith("pending") and message.state != "waits for retry":
            continue
        properties, deliver_ms = stated[newest.phy_offset], message.deliver_ms
        if newest.topic == SCHEDULE_TOPIC:
            deliver_ms = newest.store_ms + LEVELS.delay_ms(newest.queue_id + 1)
        rows.append(
            {
                "unique_id": message.msg_id,
                "topic": properties["REAL_TOPIC"],
                "queue_id": int(properties["REAL_QID"]),
                "deliver_ms": deliver_ms,
                "keys": message.keys or "",
                "tags": message.tags or "",
                "phy_offset": newest.phy_offset,
                "rolls": int(newest.roll_times),
            }
        )
    return sorted(rows, key=lambda row: (row["deliver_ms"], row["phy_offset"]))


@pytest.mark.parametrize("name", NAMES)
def test_of_a_store(timermq: RunProgram, golden_stores: GoldenStores, name: str) -> None:
    """Exactly the messages whose state is pending are listed, each once, in order.

    On the wheel and in the queues of classic levels.
    """
    golden = golden_stores[name]
    ran = timermq("pending", "--store", golden.root, "--json")

    assert (0, "") == (ran.code, ran.err)
    assert pending_rows(golden) == ran.rows


@pytest.mark.parametrize("name", ["g2", "g3", "g4"])
def test_what_cannot_be_read_is_told(
    timermq: RunProgram, golden_stores: GoldenStores, tmp_path: Path, name: str
) -> None:
    """It is not left out in silence: by number and place, or the log ends there, which is told."""
    root = Path(golden_stores.unpack_copy(name, tmp_path))
    rows = timermq("pending", "--store", str(root), "--json").rows
    position = int(str(rows[0]["phy_offset"]))
    start = position >> 20 << 20
    with (root / "commitlog" / f"{start:020}").open("r+b") as file:
        file.seek(position - start + 4)
        file.write(bytes(4))
        file.seek(position - start + 84)
        file.write(b"\xff" * 4)
    ran = timermq("pending", "--store", str(root), "--json")

    assert 0 == ran.code
    assert rows[0] not in ran.rows
    if f"commit log ends at {position}" not in ran.err:
        assert rows[1:] == ran.rows
        assert (
            f"1 records that wait cannot be read and are left out, the first at {position} of the "
            "commit log: a broker quarantines them"
        ) in ran.err


def test_levels_of_a_killed_store(
    timermq: RunProgram, golden_stores: GoldenStores, tmp_path: Path
) -> None:
    """What RocketMQ 4.9 had delivered shortly before, which its file does not know, is left out.

    That is the last message of level 1; levels 1 to 3 were through before the others were sent.
    """
    store = golden_stores.unpack_copy("g6", tmp_path)
    sent = json.loads((GOLDEN / "g6.manifest.json").read_text())["messages"]
    of_level = {
        level: [one["msgId"] for one in sent if one["level"] == level] for level in range(1, 19)
    }
    expected = [of_level[2][3], of_level[3][3]]
    expected += [one for level in range(4, 19) for one in of_level[level]]
    rows = timermq("pending", "--store", store, "--json").rows

    assert sorted(expected) == sorted(str(row["unique_id"]) for row in rows)


def test_filters(timermq: RunProgram, golden_stores: GoldenStores) -> None:
    """Moments, topic and key choose among what is pending."""
    golden = golden_stores["g3"]
    everything = pending_rows(golden)
    moments = sorted(int(str(row["deliver_ms"])) for row in everything)
    first, last = moments[10], moments[60]

    def listed(*flags: str) -> list[dict[str, object]]:
        return timermq("pending", "--store", golden.root, "--json", *flags).rows

    assert [row for row in everything if first <= int(str(row["deliver_ms"])) < last] == listed(
        "--between", str(first), str(last)
    )
    assert [row for row in everything if row["topic"] == "Alarm_7733"] == listed(
        "--topic", "Alarm_7733"
    )
    assert [row for row in everything if row["keys"] == "far0"] == listed("--key", "far0")
    assert [everything[0]] == listed("--key", str(everything[0]["unique_id"]))
    assert [] == listed("--key", "unknown")


def test_groups(timermq: RunProgram, golden_stores: GoldenStores) -> None:
    """Spans begin at multiples of their length; empty ones are left out."""
    golden = golden_stores["g3"]
    ran = timermq("pending", "--store", golden.root, "--json", "--group-by", "1h")
    expected: dict[int, int] = {}
    for row in pending_rows(golden):
        hour_ms = int(str(row["deliver_ms"])) // 3_600_000 * 3_600_000
        expected[hour_ms] = expected.get(hour_ms, 0) + 1

    assert [{"from_ms": hour, "count": expected[hour]} for hour in sorted(expected)] == ran.rows


def test_table(timermq: RunProgram, golden_stores: GoldenStores) -> None:
    """People see moments in place of milliseconds."""
    golden = golden_stores["g5"]
    lines = timermq("pending", "--store", golden.root).out.splitlines()

    assert lines[0].split() == ["deliver", "topic", "unique_id", "keys", "tags", "rolls"]
    assert len(pending_rows(golden)) == len(lines) - 1
    assert all("T" in line.split()[0] for line in lines[1:])


@pytest.mark.parametrize(
    ("flags", "error"),
    [
        (
            ("--between", "2000", "1000"),
            "argument --between: expected A before B, "
            f"found {format_moment(2000)} and {format_moment(1000)}",
        ),
        (("--group-by", "0s"), "argument --group-by: expected more than 0s, found 0s"),
    ],
)
def test_questions_without_an_answer(
    timermq: RunProgram, flags: tuple[str, ...], error: str
) -> None:
    """What can only be a slip is told, not answered with nothing."""
    ran = timermq("pending", *flags)

    assert (2, f"timermq: pending: {error}\n") == (ran.code, ran.err)


def test_one_name_server_of_several_is_enough(timermq: RunProgram, broker: Broker) -> None:
    """The next one is asked when one does not answer."""
    ran = timermq("pending", "--json", "--namesrv", f"127.0.0.1:1;{broker.namesrv}")

    assert (0, "") == (ran.code, ran.err)


def test_of_a_broker(timermq: RunProgram, broker: Broker) -> None:
    """A running broker lists what waits, and no longer what was cancelled."""
    sent = [
        timermq(
            *("send", "Pending", "x", "--at", f"in {hours}h", "--key", f"k{hours}"),
            *("--json", "--namesrv", broker.namesrv),
        ).rows[0]
        for hours in (3, 1, 2)
    ]
    timermq("cancel", "Pending", str(sent[2]["recall_handle"]), "--namesrv", broker.namesrv)
    ran = timermq("pending", "--topic", "Pending", "--json", "--namesrv", broker.namesrv)

    assert (0, "") == (ran.code, ran.err)
    assert [(one["message_id"], one["deliver_ms"]) for one in (sent[1], sent[0])] == [
        (row["unique_id"], row["deliver_ms"]) for row in ran.rows
    ]
    assert ["k1", "k3"] == [row["keys"] for row in ran.rows]


def test_no_broker_answers(timermq: RunProgram) -> None:
    """A name server that is not there is told in one line."""
    ran = timermq("pending", "--namesrv", "127.0.0.1:1")

    assert 1 == ran.code
    assert ran.err.startswith("timermq: 127.0.0.1:1: cannot connect")
    assert 1 == len(ran.err.splitlines())
