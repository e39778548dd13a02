"""Histories as files: what is written is read, and what is none is refused by line."""

from __future__ import annotations

from pathlib import Path

import pytest

from timermq.client.history import (
    Ack,
    Cancel,
    ClockStep,
    Crash,
    Deliver,
    End,
    Event,
    Fault,
    HistoryError,
    HistoryWriter,
    Publish,
    Refused,
    Reschedule,
    Send,
    Start,
    Unknown,
    Verdict,
    read_history,
)

EVERY_KIND: tuple[Event, ...] = (
    Start(at_ms=1, who="p", flush="SYNC_FLUSH", settings={"seed": 7}),
    Send(at_ms=2, who="p", message_id="M1", topic="T", deliver_ms=90, keys=("k",), op=1),
    Send(at_ms=2, who="p", message_id="M2", topic="T", level=3, queue=0, op=1),
    Ack(at_ms=3, who="p", message_id="M1", queue=0, offset=4, deliver_ms=90),
    Refused(at_ms=3, who="p", message_id="M2", code=13, rule="BODY_SIZE"),
    Unknown(at_ms=3, who="p", message_id="M3", reason="time-out"),
    Cancel(at_ms=4, who="p", op=2, topic="T", message_id="M1"),
    Reschedule(at_ms=4, who="p", op=3, topic="T", key="k", delay_ms=5),
    Verdict(at_ms=5, who="p", op=3, verdict="moved", message_id="M1", deliver_ms=95),
    Crash(at_ms=6, who="n", kind="kill"),
    Fault(at_ms=6, who="n", kind="stop"),
    ClockStep(at_ms=6, who="n", by_ms=-1000),
    Publish(at_ms=7, who="n", message_id="M1", topic="T", queue=0, offset=0, stored_ms=95),
    Deliver(
        at_ms=8,
        who="c",
        message_id="M1",
        topic="T",
        queue=0,
        offset=0,
        stored_ms=95,
        received_ms=97,
        group="g",
        broker="broker-a",
    ),
    End(at_ms=9, who="c", waited_until_ms=8, drained=True, topics=("T",), group="g"),
)


def written(path: Path, *events: Event) -> Path:
    """A history of one writer."""
    with HistoryWriter(path, who="w") as history:
        history.write(*events)
    return path


def test_every_kind_of_event_comes_back(tmp_path: Path) -> None:
    """A file holds the events in their order; the first is on line 2."""
    path = written(tmp_path / "h.jsonl", *EVERY_KIND)

    assert list(enumerate(EVERY_KIND, start=2)) == list(read_history(path))


def test_a_file_is_appended_to(tmp_path: Path) -> None:
    """A second writer goes on behind the first."""
    path = tmp_path / "h.jsonl"
    for event in EVERY_KIND[:2]:
        written(path, event)

    assert [(2, EVERY_KIND[0]), (3, EVERY_KIND[1])] == list(read_history(path))


def test_writers_have_names_of_their_own(tmp_path: Path) -> None:
    """Two writers of one process do not share a name, nor one writer a number."""
    with HistoryWriter(tmp_path / "h") as one, HistoryWriter(tmp_path / "h") as other:
        assert one.who != other.who
        assert [1, 2] == [one.next_op(), one.next_op()]


def test_a_torn_last_line_is_left_out(tmp_path: Path) -> None:
    """A writer that was killed leaves the lines that it had finished."""
    path = written(tmp_path / "h.jsonl", *EVERY_KIND[:2])
    path.write_bytes(path.read_bytes()[:-5])

    assert [(2, EVERY_KIND[0])] == list(read_history(path))


def test_a_second_header_is_no_event(tmp_path: Path) -> None:
    """Two processes that begin a file at once both write its first line."""
    path = written(tmp_path / "h.jsonl", EVERY_KIND[0])
    header, line = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(header + header + line)

    assert [(3, EVERY_KIND[0])] == list(read_history(path))


@pytest.mark.parametrize(
    ("content", "found"),
    [
        (b"", "h.jsonl:1: expected the header of a history"),
        (b"{}\n", "h.jsonl:1: expected the header of a history"),
        (
            b'{"format":"timermq-history","version":2}\n',
            "h.jsonl:1: expected timermq-history version 1, found timermq-history version 2",
        ),
        (b'{"format":"timermq-history","version":1}\n[]\n', "h.jsonl:2: "),
        (
            b'{"format":"timermq-history","version":1}\n{"event":"sent","at_ms":1,"who":"p"}\n',
            "h.jsonl:2: Invalid value 'sent'",
        ),
        (
            b'{"format":"timermq-history","version":1}\n'
            b'{"event":"crash","at_ms":1,"who":"p","kind":"kill","more":1}\n',
            "h.jsonl:2: Object contains unknown field `more`",
        ),
        (b'{"format":"\xcf"}\n', "h.jsonl:1: expected the header of a history"),
        (b'{"format":"timermq-history","version":1}\n{"event":"\xcfend"}\n', "h.jsonl:2: "),
    ],
)
def test_what_is_no_history_is_refused_by_line(tmp_path: Path, content: bytes, found: str) -> None:
    """The error names the file, the line and what was found."""
    path = tmp_path / "h.jsonl"
    path.write_bytes(content)

    with pytest.raises(HistoryError) as refused:
        list(read_history(path))

    assert found in str(refused.value)
