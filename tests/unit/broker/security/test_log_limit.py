"""Refusals are told once a minute, with how many there were."""

from __future__ import annotations

import trio
import trio.testing

from timermq.broker.security.log_limit import LOG_INTERVAL_S, LogLimit


async def test_a_line_a_minute_tells_of_all_before_it(
    autojump_clock: trio.testing.MockClock,
) -> None:
    """The first at once; nothing is counted twice, and nothing is left out."""
    log_limit = LogLimit()
    told = [log_limit.take() for _ in range(4)]
    await trio.sleep(LOG_INTERVAL_S)
    told += [log_limit.take(), log_limit.take()]

    assert [1, 0, 0, 0, 4, 0] == told
