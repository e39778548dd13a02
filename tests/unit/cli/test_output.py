"""The two renderers: JSON lines and tables of the same rows."""

from __future__ import annotations

import json

import pytest

from timermq.cli import output
from timermq.cli.moment import format_moment
from timermq.cli.output import print_json, print_table, visible

ROWS = [
    {"topic": "Orders", "size": 7, "store_ms": 1_700_000_000_000, "tags": None},
    {"topic": "标签", "size": 1234, "store_ms": 1_700_000_000_001, "tags": "a b"},
]


def test_json_lines(capsys: pytest.CaptureFixture[str]) -> None:
    """One object a line, whole, in ASCII, with numbers as numbers."""
    print_json(ROWS)
    lines = capsys.readouterr().out.splitlines()

    assert [json.loads(line) for line in lines] == ROWS
    assert lines[0] == '{"topic":"Orders","size":7,"store_ms":1700000000000,"tags":null}'
    assert all(line.isascii() for line in lines)


def test_table(capsys: pytest.CaptureFixture[str]) -> None:
    """Numbers line up right, times are moments, and a missing value is left empty."""
    print_table(ROWS, ("topic", "size", "store_ms", "tags"), title="messages")
    lines = [line.split() for line in capsys.readouterr().out.splitlines()]

    assert [
        ["messages"],
        ["topic", "size", "store", "tags"],
        ["Orders", "7", format_moment(1_700_000_000_000)],
        ["标签", "1234", format_moment(1_700_000_000_001), "a", "b"],
    ] == lines


def test_a_narrow_terminal(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Moments stand on two lines, numbers are whole, and texts are folded."""
    monkeypatch.setattr(output, "PIPED_WIDTH", 40)
    row = {"deliver_ms": 1_700_000_000_001, "unique_id": "A" * 20, "size": 1234567}
    print_table([row], ("deliver_ms", "unique_id", "size"))
    date, _, time = format_moment(1_700_000_000_001).partition("T")
    lines = [line.split() for line in capsys.readouterr().out.splitlines()]

    assert [
        ["unique"],
        ["deliver", "id", "size"],
        [date, "A" * 11, "1234567"],
        [time, "A" * 9],
    ] == lines


@pytest.mark.parametrize("width", [1, 20, 30])
def test_a_terminal_too_narrow_for_all_columns(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, width: int
) -> None:
    """It wraps the lines: no column is left out and no number is cut."""
    monkeypatch.setattr(output, "PIPED_WIDTH", width)
    row = {"deliver_ms": 1_700_000_000_001, "topic": "T", "unique_id": "A" * 32, "rolls": 1234567}
    print_table([row], ("deliver_ms", "topic", "unique_id", "rolls"))
    words = capsys.readouterr().out.split()

    assert {"deliver", "topic", "unique", "id", "rolls", "T", "1234567"} <= set(words)
    assert {*format_moment(1_700_000_000_001).split("T")} <= set(words)
    assert 32 == sum(word.count("A") for word in words)


def test_spans_are_numbers(capsys: pytest.CaptureFixture[str]) -> None:
    """Lateness is a span, not a moment, and keeps its unit in the header."""
    print_table([{"lateness_ms": 3}], ("lateness_ms",))

    assert capsys.readouterr().out.split() == ["lateness_ms", "3"]


def test_markup_is_text(capsys: pytest.CaptureFixture[str]) -> None:
    """A value with brackets is printed as it is."""
    print_table([{"topic": "[red]x[/red]"}], ("topic",))

    assert "[red]x[/red]" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("Grüße 标签\u3000x", "Grüße 标签\u3000x"),
        ("a\nb\tc\rd", r"a\nb\tc\rd"),
        ("\x1b[2J\x07\x9b1m", r"\x1b[2J\x07\x9b1m"),
        ("\u202egpj", r"\u202egpj"),
    ],
)
def test_what_a_terminal_would_obey(
    text: str, shown: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """Keys and tags come from producers: control characters are written out."""
    print_table([{"keys": text}], ("keys",))

    assert shown == visible(text)
    assert (
        f"keys\n{shown}\n"
        == "\n".join(line.rstrip() for line in capsys.readouterr().out.splitlines()) + "\n"
    )
