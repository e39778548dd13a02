"""`timermq demo`: the plan, the judgement, and the real thing."""

from __future__ import annotations

import pytest

from cli.program import RunProgram
from pty_screen import pty_screen
from timermq.cli.demo import Outcome, Sent, broken_promise, judge, plan
from timermq.client import ReceivedMessage

NOW_MS = 1_700_000_000_000


def received(message_id: str, *, stored_ms: int, received_ms: int) -> ReceivedMessage:
    """An arrival; what the judge does not look at is empty."""
    return ReceivedMessage(
        topic="Demo",
        queue_id=0,
        queue_offset=0,
        message_id=message_id,
        offset_message_id="",
        keys=(),
        tags="",
        properties={},
        raw_body=b"",
        born_ms=0,
        stored_ms=stored_ms,
        received_ms=received_ms,
        deliver_ms=None,
        reconsume_times=0,
    )


def one_outcome(sent: Sent, *arrivals: ReceivedMessage) -> Outcome:
    """The judgement over a single message."""
    (outcome,) = judge([sent], list(arrivals))
    return outcome


def sent_for(deliver_ms: int | None, *, is_cancelled: bool = False) -> Sent:
    """A message with the id M."""
    return Sent(kind="k", message_id="M", deliver_ms=deliver_ms, is_cancelled=is_cancelled)


def test_plan() -> None:
    """All kinds are there, every moment lies ahead, and one far enough to roll."""
    messages = plan(NOW_MS)
    moments = [message.at for _, message in messages if isinstance(message.at, int)]

    assert {"by time", "one instant", "by delay", "by level", "far, rolled", "cancelled"} == {
        kind for kind, _ in messages
    }
    assert min(moments) > NOW_MS
    assert max(moments) <= NOW_MS + 12_000


def test_a_broken_promise_is_told_in_one_line() -> None:
    """Kinds that are not as they must be, with their numbers; or that nothing rolled."""
    good = one_outcome(sent_for(NOW_MS), received("M", stored_ms=NOW_MS, received_ms=NOW_MS))
    lost = one_outcome(sent_for(NOW_MS))

    assert broken_promise([good], 1) is None
    assert "expected a message that rolls, found none" == broken_promise([good], 0)
    assert (
        "expected every message once and not early, found k: 1 lost, 0 early, 0 twice"
        == broken_promise([good, lost], 1)
    )


def test_in_time() -> None:
    """An arrival at its very millisecond is neither early nor late."""
    outcome = one_outcome(sent_for(NOW_MS), received("M", stored_ms=NOW_MS, received_ms=NOW_MS + 2))

    assert (
        Outcome(kind="k", sent=1, arrived=1, lost=0, early=0, twice=0, lateness_ms=(2,)) == outcome
    )
    assert outcome.is_good


def test_lost() -> None:
    """A message that does not arrive is lost, unless it was cancelled."""
    assert 1 == one_outcome(sent_for(NOW_MS)).lost
    assert not one_outcome(sent_for(NOW_MS)).is_good
    assert one_outcome(sent_for(NOW_MS, is_cancelled=True)).is_good


def test_twice() -> None:
    """A second arrival is one too many, and so is the first of a cancelled message."""
    arrival = received("M", stored_ms=NOW_MS, received_ms=NOW_MS)

    assert 1 == one_outcome(sent_for(NOW_MS), arrival, arrival).twice
    assert 1 == one_outcome(sent_for(NOW_MS, is_cancelled=True), arrival).twice


@pytest.mark.parametrize(("stored", "taken"), [(-1, 5), (0, -1)])
def test_early(stored: int, taken: int) -> None:
    """A millisecond before the moment is early, on the topic or at the consumer."""
    arrival = received("M", stored_ms=NOW_MS + stored, received_ms=NOW_MS + taken)

    assert 1 == one_outcome(sent_for(NOW_MS), arrival).early


def test_kinds_are_judged_apart() -> None:
    """Each kind has its row, in the order of sending."""
    sent = [
        Sent(kind="b", message_id="1", deliver_ms=None),
        Sent(kind="a", message_id="2", deliver_ms=None),
        Sent(kind="b", message_id="3", deliver_ms=None),
    ]
    outcomes = judge(sent, [received("3", stored_ms=0, received_ms=0)])

    assert [("b", 2, 1, 1), ("a", 1, 0, 1)] == [
        (one.kind, one.sent, one.arrived, one.lost) for one in outcomes
    ]


@pytest.mark.slow
def test_demo(timermq: RunProgram) -> None:
    """Nothing is lost, early or twice, and the cancelled one stays away."""
    ran = timermq("demo", "--json")
    rows = {row["kind"]: row for row in ran.rows}

    assert (0, "") == (ran.code, ran.err)
    assert 7 == len(rows)
    assert 0 == rows["cancelled"]["arrived"]
    for kind, row in rows.items():
        assert (kind, 0, 0, 0) == (kind, row["lost"], row["early"], row["twice"])
        if kind != "cancelled":
            assert (kind, row["sent"]) == (kind, row["arrived"])


@pytest.mark.slow
def test_demo_on_a_terminal() -> None:
    """The broker is shown when all has arrived; Ctrl-C is then as good an end as ``q``."""
    with pty_screen("demo") as demo:
        demo.wait_for(lambda text: "timermq top" in text and "live" in text)
        demo.wait_for("Demo")
        demo.type("\x03")

        assert 0 == demo.wait_end()
        assert demo.modes_before == demo.modes()
        assert b"by level" in demo.output
