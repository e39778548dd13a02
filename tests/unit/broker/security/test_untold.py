"""Refusals are told once a minute, with how many there were."""

from __future__ import annotations

import trio
import trio.testing

from timermq.broker.security.untold import TOLD_EVERY, Untold


async def test_a_line_a_minute_tells_of_all_before_it(
    autojump_clock: trio.testing.MockClock,
) -> None:
    """The first at once; nothing is counted twice, and nothing is left out."""
    untold = Untold()
    told = [untold.take() for _ in range(4)]
    await trio.sleep(TOLD_EVERY)
    told += [untold.take(), untold.take()]

    assert [1, 0, 0, 0, 4, 0] == told
