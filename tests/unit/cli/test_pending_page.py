"""Pages of what waits, as brokers send them."""

from __future__ import annotations

import cbor2
import pytest

from timermq.cli.pending_page import PendingPage, PendingRow, decode_page
from timermq.client.errors import MalformedAnswerError

ROW = PendingRow(
    unique_id="U", topic="T", queue_id=0, deliver_ms=1, keys="", tags="", phy_offset=7, rolls=0
)


def test_a_page() -> None:
    """Rows and the next page's place; what a later broker adds is passed over."""
    page = PendingPage(rows=[ROW], next=[1, 2, 3, 4, 5])

    assert page == decode_page(
        cbor2.dumps({"rows": [{**ROW, "more": 1}], "next": page["next"]}), "h:1"
    )


MALFORMED: list[object] = [
    [],
    {},
    {"rows": [], "next": 7},
    {"rows": [{"topic": "T"}], "next": None},
    {"rows": [{**ROW, "deliver_ms": "soon"}], "next": None},
    {"rows": [{**ROW, "topic": cbor2.CBORTag(0, "x")}], "next": None},
    {"rows": cbor2.undefined, "next": None},
]


@pytest.mark.parametrize("page", MALFORMED)
def test_what_is_no_page(page: object) -> None:
    """Whatever else comes is the broker's fault, said in one line."""
    with pytest.raises(MalformedAnswerError, match=r"^h:1: pending timers: "):
        decode_page(cbor2.dumps(page), "h:1")
