"""Real clients send in every way that they have: each message arrives once, where it belongs."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from interop.serving import Transcript, serving

pytestmark = [
    pytest.mark.slow,
    pytest.mark.interop,
    pytest.mark.timeout(900),  # the Go client is built from its sources, once a machine
]

ORDERED = [f"ordered{number}" for number in range(8)]
QUEUE_OF_RANK = {0: 0, 2: 2, 9: 3}
"""Priorities, and the queues that they choose of four."""
RANKED = {f"{word}{rank}": rank for rank in QUEUE_OF_RANK for word in ("rank", "late")}
"""Bodies of messages with a priority, sent for at once or for later."""


def transcript_of(command: Sequence[str]) -> Transcript:
    """What a client printed that ran to its end."""
    run = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    transcript = Transcript.of(run.stdout)
    assert transcript.done, run.stdout[-2000:] + run.stderr[-2000:]
    return transcript


def check_in_order(transcript: Transcript) -> None:
    """What was sent by one key stands in one queue, one after the other."""
    ordered = [transcript.only(body) for body in ORDERED]
    assert len({one.queue_id for one in ordered}) == 1
    offsets = [one.queue_offset for one in ordered]
    assert offsets == sorted(offsets)


def test_cpp_client(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Sync, async, one-way and ordered; its pull consumer finds them all."""
    monkeypatch.setenv("HOME", str(tmp_path))  # where it writes its log
    bodies = ["sync", "async", "oneway", *ORDERED]
    with serving(tmp_path / "store") as broker:
        sender = [sys.executable, str(Path(__file__).parent / "cpp_sender.py")]
        transcript = transcript_of(
            [*sender, broker.namesrv, "CppTopic", "CppGroup", str(len(bodies))]
        )

    for body in bodies:
        transcript.only(body)
    check_in_order(transcript)


def test_go_client(tmp_path: Path, go_client: Callable[..., list[str]]) -> None:
    """Sync, async, one-way, batch, ordered, by moment and by level."""
    at_once = ["sync", "async", "oneway", "batch0", "batch1", "batch2", *ORDERED]
    later = ["at", "level1", "level2"]
    with serving(tmp_path / "store") as broker:
        transcript = transcript_of(
            go_client("sending", broker.namesrv, "GoTopic", "GoGroup", str(len(at_once + later)))
        )

    for body in at_once:
        transcript.only(body)
    for body in later:
        deliver_ms = int(transcript.sent[body][1])
        assert deliver_ms <= transcript.only(body).stored_ms, body
    check_in_order(transcript)


def test_java_client(tmp_path: Path, java_client: Callable[..., list[str]]) -> None:
    """Sync, async, one-way, ordered, a body that the client packs, and by priority, also later."""
    bodies = ["sync", "async", "oneway", "large", *ORDERED, *RANKED]
    with serving(tmp_path / "store") as broker:
        transcript = transcript_of(
            java_client("SendClient", broker.namesrv, "JavaTopic", "JavaGroup", str(len(bodies)))
        )

    for body in bodies:
        transcript.only(body)
    check_in_order(transcript)
    for body, rank in RANKED.items():
        assert transcript.only(body).queue_id == QUEUE_OF_RANK[rank], body
    for rank in QUEUE_OF_RANK:
        assert int(transcript.sent[f"late{rank}"][1]) <= transcript.only(f"late{rank}").stored_ms
