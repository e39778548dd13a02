"""The first half minute of the Java client's push consumer: what is due meanwhile comes on time.

When its queues change, its pulls are of a newer subscription than the broker knows from heartbeats,
unless the client tells that by one more: it leaves that out while another is under way.
"""

from __future__ import annotations

from pathlib import Path

import pytest
import trio

from interop.conftest import Client
from interop.consuming import consumers, messages, send
from interop.serving import serving
from interop.starts import ASKED, run_starts

pytestmark = [pytest.mark.slow, pytest.mark.interop]

HEARTBEAT_SECONDS = 30
"""Between two heartbeats of a Java client."""


def test_ten_starts(tmp_path: Path, java_client: Client) -> None:
    """Each gets its timer, and no pull is refused for its subscription."""
    with serving(tmp_path / "store") as broker:
        command = java_client("StartClient", broker.namesrv, "starts", "10", "5", "3000")
        starts, log = run_starts(command, tmp_path)

    assert len(starts) == 10
    assert [one.topic for one in starts if one.received_ms < 0] == []
    assert "starts-9-group" in log
    assert "SUBSCRIPTION_NOT" not in log


def test_pulls_of_a_version_that_no_heartbeat_tells(tmp_path: Path, java_client: Client) -> None:
    """The broker asks the client, and the next timer comes long before the next heartbeat."""
    with serving(tmp_path / "store") as broker:
        trio.run(send, broker.namesrv, messages("T", "first", queue_id=0))
        with consumers(java_client("ConsumeClient", broker.namesrv), tmp_path) as java:
            java.start("ahead", "concurrent", "G", "T")
            java.wait_until(lambda: java.bodies() == ["first"])
            java.tell("ahead", "ahead", "T")
            java.wait_for("AHEAD")
            # It ends the pull that is held of the old version; all that come behind are ahead.
            trio.run(send, broker.namesrv, messages("T", "end", queue_id=0))
            java.wait_until(lambda: ASKED in broker.log.read_text())
            trio.run(send, broker.namesrv, messages("T", "next", queue_id=0))
            java.wait_until(lambda: java.bodies() == ["first", "end", "next"])
            got = java.deliveries()[-1]

    assert got.received_ms - got.stored_ms < HEARTBEAT_SECONDS * 1000 / 2
