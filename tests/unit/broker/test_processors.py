"""Tests of the table of request codes."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from broker_rig import Rig
from timermq.broker.compatibility import ASKED, REFUSED, SERVED, compatibility_rows
from timermq.broker.sending.send_processor import SEND_CODES
from timermq.remoting import RequestCode

TESTS = Path(__file__).parents[2]


async def test_every_code_is_served_or_refused_by_name() -> None:
    """What has a handler has a row of its own in the table of codes, and nothing else has."""
    served = set(Rig().broker.processors.handlers()) | SEND_CODES

    assert set(SERVED) == served
    assert set(SERVED) | set(ASKED) == set(RequestCode)
    assert set(map(int, RequestCode)).isdisjoint(REFUSED)


async def test_refused_codes() -> None:
    """They are answered with 3, what was asked and why it is not served; others by the number."""
    rig = Rig()
    for code, (name, why) in REFUSED.items():
        answer = rig.call(code)

        assert (answer.code, answer.remark) == (
            3,
            f"REQUEST_CODE: {name} ({code}) is not supported: {why}",
        )
    unknown = rig.call(77_777)

    assert (unknown.code, unknown.remark) == (
        3,
        "REQUEST_CODE: request type 77777 is not supported",
    )


@pytest.mark.parametrize("shown_by", sorted({row[4] for row in compatibility_rows() if row[4]}))
def test_rows_are_shown_by_tests_that_name_the_code(shown_by: str) -> None:
    """By its name or its number; what a row is shown by can be run."""
    text = (TESTS / f"{shown_by}.py").read_text()
    codes = {row[1]: row[0] for row in compatibility_rows() if row[4] == shown_by}

    assert [] == [
        name
        for name, code in codes.items()
        if re.search(rf"(?<!\w)({name}|{code})(?!\w)", text) is None
    ]
