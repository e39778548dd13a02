"""What ``send`` makes of its arguments, and what it prints of the receipt."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from timermq.cli.arguments import OneLineParser, UsageError
from timermq.cli.send import BODY_SIZE_MAX, prepare_parser, print_pending, receipt_row, run
from timermq.client import SendReceipt


def given() -> OneLineParser:
    """The parser of the verb."""
    parser = OneLineParser(prog="send")
    prepare_parser(parser)
    return parser


@pytest.mark.parametrize(
    ("words", "fault"),
    [
        (["--property", "a"], "--property: expected K=V, found 'a'"),
        (["--property", "=b"], "expected K=V, found '=b'"),
        (["--property", "a="], "expected K=V, found 'a='"),
        (["--property", "a=1", "--property", "a=2"], "a: given before"),
        (["--property", "UNIQ_KEY=1"], "UNIQ_KEY: the message's id, which the client makes"),
        (["--key", "k", "--property", "KEYS=1"], "KEYS: set by --key"),
        (["--tag", "t", "--property", "TAGS=1"], None),
        (["--at", "5", "--property", "TIMER_DELIVER_MS=1"], "TIMER_DELIVER_MS: set by --at"),
        (["--delay", "5s", "--property", "TIMER_DELAY_MS=1"], "TIMER_DELAY_MS: set by --delay"),
        (["--level", "1", "--property", "DELAY=1"], "DELAY: set by --level"),
    ],
)
def test_a_property_that_another_flag_sets_is_refused(words: list[str], fault: str | None) -> None:
    """Before anything is sent: the broker could not tell which of the two counts."""
    fault = fault or "TAGS: set by --tag"
    args = given().parse_args(["T", *words])
    with pytest.raises(UsageError) as error:
        run(args)

    assert fault in str(error.value)


def test_a_body_of_standard_input_is_bounded(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Far beyond what brokers take; one byte more than that is read, and the rest is not."""
    path = tmp_path / "body"
    with path.open("wb") as file:
        file.truncate(BODY_SIZE_MAX + 2)
    with path.open() as text:
        monkeypatch.setattr(sys, "stdin", text)
        with pytest.raises(UsageError, match=f"expected at most {BODY_SIZE_MAX} bytes"):
            run(given().parse_args(["T", "-"]))
        assert os.lseek(text.fileno(), 0, os.SEEK_CUR) > BODY_SIZE_MAX


RECEIPT = SendReceipt(
    message_id="ID",
    offset_message_id="O",
    queue_id=3,
    queue_offset=7,
    deliver_ms=1_700_000_000_000,
    recall_handle="H",
)


def test_a_receipt_is_told_by_the_names_of_its_fields() -> None:
    """The broker's own id is not among them: nothing takes it."""
    assert receipt_row(RECEIPT) == {
        "message_id": "ID",
        "queue_id": 3,
        "queue_offset": 7,
        "deliver_ms": 1_700_000_000_000,
        "recall_handle": "H",
        "is_durable": True,
    }


@pytest.mark.parametrize(
    ("deliver_ms", "handle", "lines"),
    [(None, None, 0), (1_700_000_000_000, None, 1), (1_700_000_000_000, "H", 2), (None, "H", 1)],
)
def test_only_what_waits_has_a_moment_and_a_handle(
    capsys: pytest.CaptureFixture[str], deliver_ms: int | None, handle: str | None, lines: int
) -> None:
    """The moment in local time and in UTC."""
    print_pending(deliver_ms, handle)
    text = capsys.readouterr().out

    assert len(text.splitlines()) == lines
    assert ("2023-11-14T22:13:20" in text) == (deliver_ms is not None)
    assert ("recall handle  H" in text) == (handle is not None)
