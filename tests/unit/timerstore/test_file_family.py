"""Which kind of file stands at a path."""

from __future__ import annotations

import pytest

from timermq.timerstore.file_family import FileFamily, family_of


@pytest.mark.parametrize(
    ("path", "family"),
    [
        ("/s/commitlog", FileFamily.COMMIT_LOG),
        ("/s/commitlog/00000000000000000000", FileFamily.COMMIT_LOG),
        ("/s/consumequeue/T/0/00000000000000000000", FileFamily.CONSUME_QUEUE),
        ("/s/index/20240101000000000", FileFamily.INDEX),
        ("/s/timerlog/00000000000000000000", FileFamily.TIMER_LOG),
        ("/s/timerwheel", FileFamily.TIMER_WHEEL),
        ("/s/timerwheel.tmp", FileFamily.TIMER_WHEEL),
        ("/s/checkpoint", FileFamily.STORE_CHECKPOINT),
        ("/s/config/timercheck", FileFamily.TIMER_CHECKPOINT),
        ("/s/config", FileFamily.CONFIG),
        ("/s/config/topics.json", FileFamily.CONFIG),
        ("/s/config/timermetrics.bak", FileFamily.CONFIG),
        ("/s/abort", FileFamily.ABORT),
        ("/s/lock", FileFamily.LOCK),
        ("/s", FileFamily.OTHER),
        ("/s/notes", FileFamily.OTHER),
        ("/elsewhere/commitlog", FileFamily.OTHER),
    ],
)
def test_a_path_tells_its_family(path: str, family: FileFamily) -> None:
    """The first name below the root decides; the timer checkpoint stands among the tables."""
    assert family is family_of("/s", path)
