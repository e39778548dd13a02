"""Tests of the bodies of WATCH: views and snapshots, and malformed ones."""

from __future__ import annotations

from pathlib import Path

import attrs
import cbor2
import pytest

from timermq.remoting import Counters, RemoteProtocolError, Snapshot, WatchView
from top_samples import IDLE

PROTOCOL_PAGE = Path(__file__).parents[3] / "docs/protocol.md"


def test_view_comes_back() -> None:
    """What a watcher asks for is read as it was written."""
    view = WatchView(width_ms=60_000, count=80, topic="Ord", interval_ms=1_000)

    assert view == WatchView.decode(view.encode())


def test_no_body_is_the_default_view() -> None:
    """A WATCH without a body asks for seconds."""
    assert WatchView() == WatchView.decode(b"")


def test_unknown_names_are_passed_over() -> None:
    """A newer client may say more."""
    assert WatchView(count=3) == WatchView.decode(cbor2.dumps({"count": 3, "later": [1]}))


@pytest.mark.parametrize(
    ("body", "remark"),
    [
        (cbor2.dumps({"width_ms": 999}), "width_ms: expected 1000 to 86400000, found 999"),
        (cbor2.dumps({"width_ms": 2**70}), None),
        (cbor2.dumps({"count": 513}), "count: expected 1 to 512, found 513"),
        (cbor2.dumps({"count": "3"}), "Expected `int`, got `str` - at `$.count`"),
        (cbor2.dumps({"interval_ms": 1}), "interval_ms: expected 250 to 60000, found 1"),
        (cbor2.dumps({"topic": "t" * 128}), "topic: expected 0 to 127, found 128"),
        (cbor2.dumps([1]), "Expected `object`, got `array`"),
        (b"\xa1", None),
        (cbor2.dumps(IDLE.to_json()) + b"\x00", None),
    ],
)
def test_malformed_views(body: bytes, remark: str | None) -> None:
    """Each is refused with what was expected."""
    with pytest.raises(RemoteProtocolError) as caught:
        WatchView.decode(body)

    assert caught.value.remark.startswith("WATCH_BODY: ")
    assert remark is None or f"WATCH_BODY: {remark}" == caught.value.remark


def test_snapshot_comes_back() -> None:
    """A picture is read as it was written."""
    assert IDLE == Snapshot.decode(IDLE.encode())


def test_snapshot_of_another_version() -> None:
    """A counter that the broker does not have is 0; a field that it must have is missed."""
    fields = IDLE.to_json()
    del fields["counters"]["early"]

    assert IDLE == Snapshot.decode(cbor2.dumps(fields))

    del fields["pending"]
    with pytest.raises(RemoteProtocolError, match="missing required field `pending`"):
        Snapshot.decode(cbor2.dumps(fields))


def test_the_protocol_page_has_every_field() -> None:
    """docs/protocol.md names each field of the three maps."""
    page = PROTOCOL_PAGE.read_text()
    fields = [one.name for kind in (WatchView, Snapshot, Counters) for one in attrs.fields(kind)]

    assert [] == [name for name in fields if f"`{name}`" not in page]
