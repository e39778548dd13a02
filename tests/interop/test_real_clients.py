"""Unmodified RocketMQ clients against a serving broker: sent, waited for, received, once.

C++ sends by SEND_MESSAGE, Java by SEND_MESSAGE_V2, and cancels by RECALL_MESSAGE.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from interop.conftest import Client
from interop.serving import Transcript, serving
from interop.stored_records import stored_records

HERE = Path(__file__).parent

pytestmark = [pytest.mark.slow, pytest.mark.interop]


def check_none_early(transcript: Transcript, bodies: list[str]) -> None:
    """Each body was stored on its topic not before its moment, and arrived once."""
    for body in bodies:
        got = transcript.only(body)
        deliver_ms = int(transcript.sent[body][1])

        assert deliver_ms <= got.stored_ms, (body, got, deliver_ms)


def test_cpp_client(tmp_path: Path) -> None:
    """The C++ client sends by time, delay, batch and levels 1 to 4, and gets each once."""
    with serving(tmp_path / "store") as broker:
        run = subprocess.run(
            [
                *(sys.executable, str(HERE / "cpp_client.py")),
                *(broker.namesrv, "CppTopic", "CppGroup", "36", "4"),
            ],
            env={**os.environ, "HOME": str(tmp_path)},
            capture_output=True,
            text=True,
            timeout=200,
            check=False,
        )
    transcript = Transcript.of(run.stdout)

    assert transcript.done, run.stdout[-2000:] + run.stderr[-2000:]
    check_none_early(transcript, ["at", "delay", *(f"level{level}" for level in range(1, 5))])
    assert [transcript.times_got(b) for b in ("first", "batch0", "batch1", "batch2")] == [
        1,
        1,
        1,
        1,
    ]
    assert int(transcript.sent["batch"][0]) <= transcript.only("batch2").stored_ms


@pytest.mark.parametrize("either_client", ["java_client", "java_client_5_3"], indirect=True)
def test_java_client(tmp_path: Path, either_client: Client) -> None:
    """The Java client: all setters of a delay, a recall, a traced batch; each message once."""
    with serving(tmp_path / "store") as broker:
        run = subprocess.run(
            either_client("TimerClient", broker.namesrv, "JavaTopic", "JavaGroup", "12"),
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )
    transcript = Transcript.of(run.stdout)

    assert transcript.done, run.stdout[-2000:] + run.stderr[-2000:]
    check_none_early(transcript, ["at"])
    for body in ("first", "delay", "seconds", "level1", "level2", "batch0", "batch1", "batch2"):
        transcript.only(body)
    assert transcript.recalled == {"recalled": "true", "nonsense": "refused"}
    assert transcript.times_got("recalled") == 0
    traced = [
        one
        for one in stored_records(tmp_path / "store", "JavaTopic")
        if "traceparent" in one.properties_dict()
    ]
    assert [one.body for one in traced] == [b"batch0", b"batch1", b"batch2"]
    assert len({one.unique_id for one in traced}) == 3
