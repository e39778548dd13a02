"""`timermq pending`: what will fire, of a stopped store and of a running broker."""

from __future__ import annotations

import pytest

from cli.program import RunProgram
from golden_stores import NAMES, GoldenStore, GoldenStores
from interop.serving import Broker
from timermq.cli.moment import format_moment
from timermq.pipeline.timer_record import TIMER_TOPIC
from timermq.timerstore.delay_levels import SCHEDULE_TOPIC

pytestmark = pytest.mark.slow


def pending_rows(golden: GoldenStore) -> list[dict[str, object]]:
    """What the manifest says is waiting on the wheel, in the order of moments."""
    rows: list[dict[str, object]] = []
    queues = {
        record.phy_offset: record.properties.get("REAL_QID")
        for record in golden.manifest.state.records
    }
    for message in golden.manifest.messages:
        newest = message.held[-1] if message.held else None
        if not message.state.startswith("pending") or newest is None or newest.topic != TIMER_TOPIC:
            continue
        rows.append(
            {
                "unique_id": message.msg_id,
                "topic": message.topic,
                "queue_id": int(queues[newest.phy_offset] or -1),
                "deliver_ms": message.deliver_ms,
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

    Of those that wait for a classic level it is said that they are there.
    """
    golden = golden_stores[name]
    ran = timermq("pending", "--store", golden.root, "--json")
    left = sum(
        message.state in ("pending", "waits for retry")
        and any(one.topic == SCHEDULE_TOPIC for one in message.held)
        for message in golden.manifest.messages
    )
    warning = (
        f"timermq: warning: {golden.root}: {left} messages of classic levels wait in "
        f"{SCHEDULE_TOPIC}: not listed, taken over\n"
    )

    assert (0, warning if left else "") == (ran.code, ran.err)
    assert pending_rows(golden) == ran.rows


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
    assert [] == listed("--key", "nobody")


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
    lines = timermq("pending", "--store", golden_stores["g5"].root).out.splitlines()

    assert lines[0].split() == ["deliver", "topic", "unique_id", "keys", "tags", "rolls"]
    assert 6 == len(lines) - 1
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


def test_nobody_answers(timermq: RunProgram) -> None:
    """A name server that is not there is told in one line."""
    ran = timermq("pending", "--namesrv", "127.0.0.1:1")

    assert 1 == ran.code
    assert ran.err.startswith("timermq: 127.0.0.1:1: cannot connect")
    assert 1 == len(ran.err.splitlines())
