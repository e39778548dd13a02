"""The program as a whole: what it prints where it may not print all characters."""

from __future__ import annotations

import io
import sys

import pytest

from timermq.cli.main import DONE, main


def test_a_terminal_without_utf8(monkeypatch: pytest.MonkeyPatch) -> None:
    """What its encoding has no sign for is printed as an escape, and the rest as it is."""
    written = io.BytesIO()
    monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(written, encoding="ascii"))

    code = main(["serve", "--help"])
    sys.stdout.flush()

    assert code == DONE
    assert r"HOST:PORT;\u2026" in written.getvalue().decode("ascii")
