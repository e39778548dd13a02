"""Histories: events that are written as they were read, and judged; or an error with its line."""

from __future__ import annotations

import re
import tempfile
from pathlib import Path

from timermq.client.history import (
    Ack,
    Cancel,
    Crash,
    Deliver,
    End,
    HistoryError,
    HistoryWriter,
    Send,
    Start,
    Verdict,
    read_history,
)
from timermq.simulator.rules.check import check

_FOLDER = tempfile.TemporaryDirectory(prefix="histories")
PATH = Path(_FOLDER.name, "run.jsonl")
NUMBER = re.compile(r":\d+: |: expected ")


def seeds() -> list[bytes]:
    """A run with a send, a cancel and an arrival; the header alone; a line that was cut off."""
    PATH.unlink(missing_ok=True)
    with HistoryWriter(PATH, who="w", clock_ms=lambda: 7) as history:
        header = PATH.read_bytes()
        history.write(
            Start(at_ms=1, who="w", flush="ASYNC_FLUSH"),
            Send(at_ms=2, who="w", message_id="m", topic="T", deliver_ms=9, keys=("k",)),
            Ack(at_ms=3, who="w", message_id="m", queue=0, offset=0),
            Cancel(at_ms=4, who="w", op=1, topic="T", key="k"),
            Verdict(at_ms=5, who="w", op=1, verdict="too_late"),
            Crash(at_ms=6, who="w", kind="power"),
            Deliver(
                at_ms=9,
                who="w",
                message_id="m",
                topic="T",
                queue=0,
                offset=0,
                stored_ms=9,
                received_ms=9,
            ),
            End(at_ms=10, who="w", waited_until_ms=10, drained=True),
        )
    whole = PATH.read_bytes()
    return [whole, header, whole[:-9], whole + b"{}\n"]


def fuzz_one(data: bytes) -> None:
    """What is read is read again the same from what is written of it; its judgement ends."""
    PATH.write_bytes(data)
    try:
        events = list(read_history(PATH))
        report = check({"run": events}, others_send=True)
    except HistoryError as error:
        assert NUMBER.search(str(error)), error
        return
    PATH.unlink()
    with HistoryWriter(PATH, who="w", clock_ms=lambda: 7) as history:
        history.write(*(event for _, event in events))
    assert [event for _, event in read_history(PATH)] == [event for _, event in events]
    assert report.is_clean == (not report.broken)
