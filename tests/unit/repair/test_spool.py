"""Numbers by segment, in memory or in the temporary file."""

from __future__ import annotations

import numpy as np
import pytest

from timermq.repair import spool
from timermq.repair.spool import Spool


@pytest.mark.parametrize("held_max", [2, 1000])
def test_rows_come_back_in_order(monkeypatch: pytest.MonkeyPatch, held_max: int) -> None:
    """Each segment has its rows, whether or not they were stored meanwhile."""
    monkeypatch.setattr(spool, "ROWS_HELD_MAX", held_max)
    kept = Spool(2)
    for number in range(9):
        kept.add(number % 3, (number, -number))
    rows = np.array([[10, 11], [20, 21], [30, 31]], np.int64)
    more = Spool(2)
    for _ in range(2):
        more.extend(np.array([5, 6, 5]), rows)
    found = {segment: kept.take(segment).tolist() for segment in sorted(kept.segments())}
    five, none = more.take(5).tolist(), more.take(9).tolist()
    kept.close()
    more.close()

    assert {n: [[n + k, -n - k] for k in (0, 3, 6)] for n in range(3)} == found
    assert [[10, 11], [30, 31]] * 2 == five
    assert [] == none
