"""Which segments of a log are lost."""

from __future__ import annotations

import pytest

from timermq.timerstore.lost_segments import lost_segments

SIZE = 100


@pytest.mark.parametrize(
    ("there", "sealed", "lost"),
    [
        ([], [0], []),
        ([0, 100], [0, 100], []),
        ([300], [300], []),
        ([0, 300], [], [100, 200]),
        ([300, 400], [100, 200, 300], [100, 200]),
        ([300, 400], [0, 100, 300], []),
        ([300, 500], [200], [200, 400]),
        ([0, 900], [0], []),
        ([0, 50, 200], [], []),
    ],
    ids=[
        "none is left",
        "all are there",
        "cleaned before",
        "between others",
        "the oldest, which have seals",
        "cleaned, whose seals a crash has left",
        "both",
        "too many to believe it",
        "a file of another log",
    ],
)
def test_lost_segments(there: list[int], sealed: list[int], lost: list[int]) -> None:
    """Those between others, and those that were not cleaned."""

    def names(starts: list[int]) -> list[str]:
        return [f"{start:020d}" for start in starts]

    assert lost_segments(names(there), names(sealed), SIZE) == names(lost)
