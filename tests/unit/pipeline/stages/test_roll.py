"""Roll targets: on the way, spread, and never past the real target."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from timermq.pipeline.stages.roll import lands_from, roll_targets


@given(
    window=st.integers(2, 200_000),
    beyond=st.integers(0, 400_000),
    offset_py=st.integers(0, 2**50),
    precision_ms=st.sampled_from([100, 1000]),
)
def test_target_is_on_the_way(window: int, beyond: int, offset_py: int, precision_ms: int) -> None:
    """A roll waits at least half a window and at most one, and leaves a third for the last leg."""
    write_ms = 1_700_000_000_000
    target = write_ms + (window + beyond) * precision_ms
    rolled = roll_targets(
        np.array([target]),
        np.array([offset_py]),
        write_ms=write_ms,
        window_ms=window * precision_ms,
        precision_ms=precision_ms,
    )
    slots = (int(rolled[0]) - write_ms) // precision_ms

    assert window // 2 <= slots <= window
    assert int(rolled[0]) + window // 3 * precision_ms <= target
    assert int(rolled[0]) % precision_ms == 0
    # Known later too, by who has another window.
    assert lands_from(int(rolled[0]), int(rolled[0]) - write_ms, precision_ms) <= target


def test_burst_is_spread() -> None:
    """A burst of admissions does not become a burst of rolls."""
    offsets = np.arange(100_000, dtype=np.int64) * 312
    targets = np.full(100_000, 1_700_000_000_000 + 259_200_000)
    rolled = roll_targets(
        targets,
        offsets,
        write_ms=1_700_000_000_000,
        window_ms=172_800_000,
        precision_ms=1000,
    )
    _, counts = np.unique(rolled, return_counts=True)

    assert rolled.max() - rolled.min() > 80_000
    assert counts.max() <= 12
