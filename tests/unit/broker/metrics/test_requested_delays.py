"""How far ahead messages are put on the wheel, by topic."""

from __future__ import annotations

import trio
from trio.testing import MockClock

from broker_rig import running_broker, send_ext
from timermq.broker.metrics.requested_delays import HASH_COUNT, RequestedDelays
from timermq.timerstore.java_hash import java_hash
from unit.broker.metrics.pieces import steps


async def test_a_crowd_of_topics_is_hashed_in_pieces(autojump_clock: MockClock) -> None:
    """And not at all where nothing was asked for."""
    topics = [*(f"T{number}" for number in range(4 * HASH_COUNT)), "OrdersAa", "OrdersBB"]
    assert java_hash("OrdersAa") == java_hash("OrdersBB")
    delays = RequestedDelays()
    async with running_broker() as running:
        log = running.broker.timer_store.files.timer_log
        delays.begin(log)
        assert steps(delays.by_topic(topics)) == (0, {})
        for topic in ("T7", "T7", "Gone", "OrdersAa"):
            ext = send_ext(topic, "TIMER_DELAY_SEC\x0160\x02")
            await running.connect().call(10, ext, b"x")
        await trio.sleep(1)
        for _ in delays.read(log):
            pass
        turns, found = steps(delays.by_topic(topics))

    counts = {topic: one.count for topic, one in found.items()}
    assert (turns, counts) == (4, {"T7": 2, "OrdersAa": 1}), "each is counted once"
    assert steps(delays.by_topic(["Gone"])) == (0, {}), "what was not named is forgotten"
