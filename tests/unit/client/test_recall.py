"""Recall on the client's side."""

from __future__ import annotations

import base64

import pytest

from timermq.client import BrokerRefusedError, Verdict
from timermq.client.recall import broker_of, verdict_of
from timermq.pipeline.admission.recall_handle import encode_handle
from timermq.remoting import Command


def test_the_broker_stands_in_the_handle() -> None:
    """A handle names the broker that gave it out."""
    assert "broker-b" == broker_of(encode_handle("T", "broker-b", 1_700_000_000_001, "K"))


@pytest.mark.parametrize(
    "handle",
    ["", "x", "é", "\ud800", "AAAA=", *(base64.b64encode(t).decode() for t in (b"v1 T", b"\xff"))],
)
def test_what_is_no_handle_names_no_broker(handle: str) -> None:
    """The broker says what is wrong with it."""
    assert broker_of(handle) is None


@pytest.mark.parametrize(
    ("code", "remark", "verdict"),
    [
        (0, None, Verdict.CANCELLED),
        (604, "RECALL_TOO_LATE: the moment 1 is past", Verdict.TOO_LATE),
        (604, "RECALL_NOT_FOUND: no delayed message K is pending", Verdict.NOT_FOUND),
    ],
)
def test_verdicts(code: int, remark: str | None, verdict: Verdict) -> None:
    """Done, too late and not found are answers."""
    assert verdict is verdict_of(Command(code, remark=remark))


@pytest.mark.parametrize(
    ("code", "remark"), [(604, "RECALL_TOPIC: for another topic"), (604, "handle error"), (16, "")]
)
def test_other_refusals_are_errors(code: int, remark: str) -> None:
    """A handle for another topic is the caller's mistake."""
    with pytest.raises(BrokerRefusedError):
        verdict_of(Command(code, remark=remark))
