"""`timermq check-history`: exit codes and what is printed."""

from __future__ import annotations

from pathlib import Path

import pytest

from cli.program import RunProgram
from interop.serving import Broker
from story import Story
from timermq.client.history import Deliver, End, HistoryWriter, read_history


def file_of(path: Path, story: Story) -> str:
    """A story in a file."""
    with HistoryWriter(path) as history:
        history.write(*story.events)
    return str(path)


def test_kept(tmp_path: Path, timermq: RunProgram) -> None:
    """Kept promises: the rules, the ledger, and 0."""
    story = Story().sent("M", deliver_ms=5_000).arrive("M", 0, stored_ms=5_000).end()
    ran = timermq("check-history", file_of(tmp_path / "h", story))

    assert (0, "") == (ran.code, ran.err)
    assert "NOT_LOST" in ran.out
    assert "sent 1, acknowledged 1, refused 0, unanswered 0, delivered 1" in ran.out


def test_broken(tmp_path: Path, timermq: RunProgram) -> None:
    """A breach: its rule, what was expected and found, where it stands, and 1."""
    sent = file_of(tmp_path / "p", Story().sent("M", deliver_ms=5_000))
    seen = file_of(tmp_path / "c", Story().arrive("M", 0, stored_ms=4_999).end())
    ran = timermq("check-history", sent, seen, "--json")
    first, *rules, ledger = ran.rows

    assert 1 == ran.code
    assert {
        "row": "broken",
        "rule": "NOT_BEFORE",
        "message_id": "M",
        "expected": "5000 or later",
        "found": "it at T/0@0, stored 4999, 1 ms before",
        "lines": f"{sent}:2, {sent}:3, {seen}:2",
    } == first
    assert {("NOT_BEFORE", 1)} == {(one["rule"], one["broken"]) for one in rules if one["broken"]}
    assert ("ledger", 1) == (ledger["row"], ledger["early"])


def test_others_send(tmp_path: Path, timermq: RunProgram) -> None:
    """Messages of producers without a history break no promise if that is said."""
    path = file_of(tmp_path / "h", Story().arrive("M", 0).end())

    assert 1 == timermq("check-history", path).code
    assert 0 == timermq("check-history", path, "--others-send").code


def test_no_history(tmp_path: Path, timermq: RunProgram) -> None:
    """A file that is something else is a matter of usage: one line, and 2."""
    path = tmp_path / "h"
    path.write_text("hello\n")
    ran = timermq("check-history", str(path))

    assert 2 == ran.code
    assert ran.err.startswith(f"timermq: check-history: {path}:1: expected the header of a history")
    assert 1 == timermq("check-history", str(tmp_path / "none")).code


@pytest.mark.slow
def test_a_history_of_every_verb(tmp_path: Path, timermq: RunProgram, broker: Broker) -> None:
    """Five processes write one file, and it is judged whole."""
    path = str(tmp_path / "h")
    flags = ("--history", path, "--json", "--namesrv", broker.namesrv)
    near = timermq("send", "Judged", "x", "--delay", "300ms", *flags).rows[0]
    far = timermq("send", "Judged", "y", "--delay", "1h", "--key", "k", *flags).rows[0]
    timermq("reschedule", "Judged", "--key", "k", "--delay", "2h", *flags)
    timermq("cancel", "Judged", str(far["recall_handle"]), *flags)
    consume = ("consume", "Judged", "--group", "G", "--from", "first", "--timeout", "20s")
    timermq(*consume, "--count", "1", *flags)
    ran = timermq("check-history", path, "--json")
    counts = {key: ran.rows[-1][key] for key in ("sent", "delivered", "moved", "cancelled")}
    ends = [event for _, event in read_history(path) if isinstance(event, End)]

    assert 0 == ran.code
    assert {"sent": 2, "delivered": 1, "moved": 1, "cancelled": 1} == counts
    assert [False] * 4 + [True] == [end.drained for end in ends]
    assert [near["message_id"]] == [
        event.message_id for _, event in read_history(path) if isinstance(event, Deliver)
    ]
