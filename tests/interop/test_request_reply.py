"""RocketMQ's request-reply between two Java clients."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from interop.serving import serving
from interop.talking import talking

pytestmark = [pytest.mark.slow, pytest.mark.interop]

COUNT = 5


def test_questions_are_answered(tmp_path: Path, java_client: Callable[..., list[str]]) -> None:
    """Each gets its own answer; the replier is told that it was taken; silence ends in time."""
    with serving(tmp_path / "store") as broker:
        with talking(java_client("Asking", broker.namesrv, "Questions", str(COUNT))) as program:
            program.hear("DONE")

        answers = [f"question{number}: re question{number}" for number in range(COUNT)]
        assert program.heard_so_far("ANSWER ") == [*answers, "silence: RequestTimeoutException"]
        replied = [f"question{number} SEND_OK" for number in range(COUNT)]
        assert sorted(program.heard_so_far("REPLIED ")) == replied
        assert program.heard_so_far("FAILED ") == []
