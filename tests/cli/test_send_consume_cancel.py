"""`timermq send`, `consume` and `cancel` against a broker in another process."""

from __future__ import annotations

import base64
import io
import os
import sys

import pytest

from cli.program import Ran, RunProgram
from interop.serving import Broker
from timermq.cli.moment import format_moment, parse_duration, parse_moment
from timermq.pipeline.admission.recall_handle import decode_handle
from timermq.pipeline.clock.clock import SystemClock

pytestmark = pytest.mark.slow


def consume(timermq: RunProgram, broker: Broker, topic: str, *flags: str) -> Ran:
    """What a new group gets of a topic from its first message on."""
    return timermq(
        *("consume", topic, "--group", f"G_{topic}", "--from", "first", "--timeout", "10s"),
        *("--json", "--namesrv", broker.namesrv, *flags),
    )


def test_at_once(timermq: RunProgram, broker: Broker) -> None:
    """A message without a moment has no handle, and arrives with all that was given."""
    sent = timermq(
        *("send", "Plain", "Grüße", "--key", "k1", "--key", "k2", "--tag", "A"),
        *("--property", "colour=red", "--json", "--namesrv", broker.namesrv),
    ).rows[0]
    ran = consume(timermq, broker, "Plain", "--count", "1")
    row = ran.rows[0]

    assert (0, None, None) == (ran.code, sent["deliver_ms"], sent["recall_handle"])
    assert {
        "topic": "Plain",
        "queue": sent["queue_id"],
        "offset": 0,
        "id": sent["message_id"],
        "keys": ["k1", "k2"],
        "tags": "A",
        "body": "Grüße",
        "body_base64": None,
        "body_error": None,
        "deliver_ms": None,
        "lateness_ms": None,
    } == {
        key: value
        for key, value in row.items()
        if key not in ("properties", "stored_ms", "received_ms")
    }
    assert {"colour": "red"}.items() <= dict(row["properties"]).items()  # type: ignore[call-overload]


def test_at_a_moment(timermq: RunProgram, broker: Broker) -> None:
    """The moment is kept to the millisecond: not before."""
    moment_ms = SystemClock().now_ms() + 1500
    sent = timermq(
        *("send", "Moment", "x", "--at", format_moment(moment_ms)),
        *("--json", "--namesrv", broker.namesrv),
    ).rows[0]
    row = consume(timermq, broker, "Moment", "--count", "1").rows[0]

    assert (moment_ms, moment_ms) == (sent["deliver_ms"], row["deliver_ms"])
    assert moment_ms <= int(str(row["stored_ms"]))
    assert int(str(row["received_ms"])) - moment_ms == row["lateness_ms"]


def test_delay_and_level(timermq: RunProgram, broker: Broker) -> None:
    """A delay and a level count from the broker's receiving it."""
    before_ms = SystemClock().now_ms()
    moments = [
        int(
            str(
                timermq("send", "Delay", "x", *flags, "--json", "--namesrv", broker.namesrv).rows[
                    0
                ]["deliver_ms"]
            )
        )
        for flags in (("--delay", "2h"), ("--level", "18"))
    ]
    after_ms = SystemClock().now_ms()

    assert all(before_ms <= moment - 7_200_000 <= after_ms for moment in moments)


def test_what_people_see(timermq: RunProgram, broker: Broker) -> None:
    """The message id, the moment in local time and UTC, and the handle that cancels it."""
    ran = timermq("send", "Human", "x", "--at", "in 1h", "--namesrv", broker.namesrv)
    lines = [line.split(maxsplit=2) for line in ran.out.splitlines()]
    local, utc = lines[1][2].split(" ")

    assert 0 == ran.code
    assert [["message", "id"], ["deliver", "time"], ["recall", "handle"]] == [
        line[:2] for line in lines
    ]
    assert parse_moment(local, 0) == parse_moment(utc.strip("()"), 0)
    assert lines[0][2] == decode_handle(lines[2][2]).unique_key


def test_body_from_standard_input(
    timermq: RunProgram, broker: Broker, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A dash reads the body from standard input; what is no text is printed as Base64."""
    body = bytes(range(256))
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(body)))
    timermq("send", "Bytes", "-", "--namesrv", broker.namesrv)
    row = consume(timermq, broker, "Bytes", "--count", "1").rows[0]

    assert (None, body) == (row["body"], base64.b64decode(str(row["body_base64"])))


def test_offsets_are_committed(timermq: RunProgram, broker: Broker) -> None:
    """A group goes on where it stopped; too few messages in time are a failure."""
    for body in ("one", "two"):
        timermq("send", "Offsets", body, "--namesrv", broker.namesrv)
    first = consume(timermq, broker, "Offsets", "--count", "2")
    second = consume(timermq, broker, "Offsets", "--count", "1", "--timeout", "1s")

    assert (0, {"one", "two"}) == (first.code, {row["body"] for row in first.rows})
    missed = "timermq: consume: expected 1 messages within 1s, received 0\n"
    assert (1, "", missed) == (second.code, second.out, second.err)


def test_lines_for_people(timermq: RunProgram, broker: Broker) -> None:
    """A line a message: when, where, which, how late, what."""
    sent = timermq(
        *("send", "Lines", "hello", "--delay", "250ms", "--json", "--namesrv", broker.namesrv)
    ).rows[0]
    ran = timermq(
        *("consume", "Lines", "--group", "G", "--from", "first", "--count", "1"),
        *("--timeout", "10s", "--namesrv", broker.namesrv),
    )
    line = ran.out.split()

    assert 0 == ran.code
    assert f"Lines/{sent['queue_id']}@0" == line[1]
    assert [sent["message_id"], "late", "hello"] == [line[2], *line[4:]]
    assert parse_duration(line[3]) >= 0


def test_a_body_does_not_leave_its_line(timermq: RunProgram, broker: Broker) -> None:
    """What a terminal would obey is written out."""
    body = "two\nlines \x1b[31mred"
    timermq("send", "Control", body, "--namesrv", broker.namesrv)
    ran = timermq(
        *("consume", "Control", "--group", "G", "--from", "first", "--count", "1"),
        *("--timeout", "10s", "--namesrv", broker.namesrv),
    )

    assert 1 == len(ran.out.splitlines())
    assert ran.out.endswith("  two\\nlines \\x1b[31mred\n")


@pytest.mark.parametrize(
    ("argv", "error"),
    [
        (
            ("send", "T", "x", "--property", "a=\x01"),
            "send: property 'a': expected no 0x01 and no 0x02, found '\\x01'",
        ),
        (
            ("send", "T", "x", "--namesrv", "h:99999"),
            "send: argument --namesrv: expected HOST:PORT, found 'h:99999'",
        ),
        (
            ("consume", "T", "--group", "a b"),
            "consume: the group 'a b' has other characters than % | a-z A-Z 0-9 _ -",
        ),
        (("consume", "", "--group", "G"), "consume: the topic is empty"),
    ],
)
def test_what_cannot_be_sent_or_received(
    timermq: RunProgram, broker: Broker, argv: tuple[str, ...], error: str
) -> None:
    """Each is told in one line, and no broker is asked."""
    where = () if "--namesrv" in argv else ("--namesrv", broker.namesrv)
    ran = timermq(*argv, *where)

    assert (2, f"timermq: {error}\n") == (ran.code, ran.err)


@pytest.mark.parametrize("argv", [("send", "T"), ("consume", "T", "--group", "G")])
def test_no_broker_there(timermq: RunProgram, argv: tuple[str, ...]) -> None:
    """A name server that is not there is told at once, with the reason."""
    ran = timermq(*argv, "--namesrv", "127.0.0.1:1")

    assert 1 == ran.code
    assert ran.err.startswith("timermq: 127.0.0.1:1: cannot connect: connection refused")
    assert 1 == len(ran.err.splitlines())


def test_a_body_that_is_no_utf_8(timermq: RunProgram, broker: Broker) -> None:
    """What was typed is sent, byte by byte."""
    timermq("send", "Bytes", os.fsdecode(b"\xff\xfe"), "--namesrv", broker.namesrv)
    (row,) = consume(timermq, broker, "Bytes", "--count", "1").rows

    assert (None, "//4=") == (row["body"], row["body_base64"])


def test_cancel(timermq: RunProgram, broker: Broker) -> None:
    """By handle, id or key; the verdict stays the same when the moment is past."""
    namesrv = ("--json", "--namesrv", broker.namesrv)
    rows = [
        timermq("send", "Cancel", body, "--key", f"key-{body}", "--delay", "2s", *namesrv).rows[0]
        for body in ("handle", "id", "key", "left")
    ]
    named = [
        (str(rows[0]["recall_handle"]),),
        ("--id", str(rows[1]["message_id"])),
        ("--key", "key-key"),
    ]
    for _ in range(2):
        for names in named:
            ran = timermq("cancel", "Cancel", *names, *namesrv)
            assert (0, [{"verdict": "cancelled"}]) == (ran.code, ran.rows)
        assert [
            row["body"] for row in consume(timermq, broker, "Cancel", "--timeout", "3s").rows
        ] in (
            ["left"],
            [],
        )
    late = timermq("cancel", "Cancel", "--id", str(rows[3]["message_id"]), *namesrv[1:])
    unknown = timermq("cancel", "Cancel", "--id", "none", *namesrv[1:])

    assert (1, "too_late\n", "") == (late.code, late.out, late.err)
    assert (1, "not_found\n", "") == (unknown.code, unknown.out, unknown.err)


def test_reschedule(timermq: RunProgram, broker: Broker) -> None:
    """The message arrives at its new moment only, and the new handle means it."""
    namesrv = ("--json", "--namesrv", broker.namesrv)
    sent = timermq("send", "Moved", "x", "--delay", "1h", *namesrv).rows[0]
    handle = str(sent["recall_handle"])
    far = timermq("reschedule", "Moved", handle, "--delay", "2d", *namesrv).rows[0]
    near = timermq("reschedule", "Moved", str(far["recall_handle"]), "--delay", "1s", *namesrv)
    row = near.rows[0]
    arrived = consume(timermq, broker, "Moved", "--count", "1").rows[0]
    late = timermq("reschedule", "Moved", handle, "--at", "in 1h", *namesrv[1:])

    assert (near.code, row["verdict"], row["message_id"]) == (0, "moved", sent["message_id"])
    assert (arrived["body"], arrived["deliver_ms"]) == ("x", row["deliver_ms"])
    assert (1, "too_late\n") == (late.code, late.out)


@pytest.mark.parametrize(
    ("arguments", "code", "reason"),
    [
        (("send", "no blanks", "x"), 1, "refused with code 29: TOPIC_NAME"),
        (("send", "T", "x", "--at", "in 9d"), 1, "refused with code 13: TIMER_DELAY_TOO_LONG"),
        (("send", "T", "x", "--property", "K"), 2, "send: argument --property: expected K=V"),
        (("send", "T", "x", "--key", "a b"), 2, "send: keys: expected texts without blanks"),
        (("send", "T", "x", "--level", "0"), 2, "send: argument --level: expected a whole number"),
        (("send", "T", "x", "--at", "now", "--delay", "1s"), 2, "send: argument --delay: not all"),
        (("cancel", "T", "x"), 1, "refused with code"),
        (("cancel", "T"), 2, "expected one of HANDLE, --id and --key, found 0"),
        (("cancel", "T", "x", "--key", "y"), 2, "expected one of HANDLE, --id and --key, found 2"),
        (("reschedule", "T", "x"), 2, "reschedule: one of the arguments --at --delay is required"),
    ],
)
def test_refusals_are_one_line(
    timermq: RunProgram, broker: Broker, arguments: tuple[str, ...], code: int, reason: str
) -> None:
    """Whether program or broker refuses, one line says why."""
    ran = timermq(*arguments, "--namesrv", broker.namesrv)

    assert (code, "") == (ran.code, ran.out)
    assert ran.err.startswith(f"timermq: {reason}")
    assert 1 == len(ran.err.splitlines())
