"""RocketMQ's request-reply between clients of one kind: Java, Go."""

from __future__ import annotations

from pathlib import Path

import pytest

from interop.conftest import Client
from interop.serving import serving
from interop.talking import talking

pytestmark = [
    pytest.mark.slow,
    pytest.mark.interop,
    pytest.mark.timeout(900),  # the Go client is built from its sources, once a machine
]

COUNT = 5


def test_questions_are_answered(tmp_path: Path, java_client: Client) -> None:
    """Each gets its own answer (325, 326); the replier is told so; silence ends in time."""
    with serving(tmp_path / "store") as broker:
        with talking(java_client("Asking", broker.namesrv, "Questions", str(COUNT))) as program:
            program.hear("DONE")

        answers = [f"question{number}: re question{number}" for number in range(COUNT)]
        assert program.heard_so_far("ANSWER ") == [*answers, "silence: RequestTimeoutException"]
        replied = [f"question{number} SEND_OK" for number in range(COUNT)]
        assert sorted(program.heard_so_far("REPLIED ")) == replied
        assert program.heard_so_far("FAILED ") == []


def test_questions_of_go_are_answered(tmp_path: Path, go_client: Client) -> None:
    """Also the first one, for whose asker the replier has to wait; silence ends in time."""
    with serving(tmp_path / "store") as broker:
        with talking(go_client("asking", broker.namesrv, "Questions", str(COUNT))) as program:
            program.hear("DONE")

        answers = [f"question{number}: re question{number}" for number in range(COUNT)]
        silence = "silence: send request message to Questions OK, but wait reply message timeout"
        *answered, unanswered = program.heard_so_far("ANSWER ")
        assert answered == answers
        assert unanswered.startswith(silence)
        replied = [f"question{number} true" for number in range(COUNT)]
        assert sorted(program.heard_so_far("REPLIED ")) == replied
        assert program.heard_so_far("FAILED ") == []
