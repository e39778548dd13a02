"""Tables of a master at its follower: taken over as they are, or told."""

from __future__ import annotations

import trio
from structlog.testing import capture_logs
from trio.testing import MockClock

from broker_rig import Peer, RunningBroker, send_ext
from pair_rig import pair


async def call(running: RunningBroker, code: int, **ext: str) -> None:
    """A request that has to be done."""
    peer: Peer = running.connect()
    answer = await peer.call(code, ext)
    assert answer.code == 0, answer.remark


async def test_a_topic_that_the_master_deletes_goes(autojump_clock: MockClock) -> None:
    """With its queues; made again it begins at 0, as at the master."""
    async with pair() as two:
        master = await two.start_master()
        peer = master.connect()
        await peer.call(10, send_ext("Gone"), b"old")
        follower = await two.start_follower()
        await trio.sleep(15)
        theirs = follower.broker
        assert theirs.store.queue("Gone", 0) is not None

        await call(master, 215, topic="Gone")
        await trio.sleep(15)
        assert theirs.tables.topics.get("Gone") is None
        assert theirs.store.queue("Gone", 0) is None
        await peer.call(10, send_ext("Gone"), b"new")
        await trio.sleep(15)
        queue = theirs.store.queue("Gone", 0)
        assert queue is not None
        assert (queue.min_offset, queue.max_offset) == (0, 1)


async def test_offsets_never_point_behind_the_copied_log(autojump_clock: MockClock) -> None:
    """They wait until that much of the log is here."""
    async with pair() as two:
        master = await two.start_master()
        follower = await two.start_follower()
        await trio.sleep(5)
        for number in range(50):
            await master.connect().call(10, send_ext("T"), b"%d" % number)
            await call(
                master,
                15,
                topic="T",
                queueId="0",
                consumerGroup="G",
                commitOffset=str(number + 1),
            )
            await trio.sleep(0.3)
            offset = follower.broker.tables.offsets.query(group="G", topic="T", queue_id=0)
            queue = follower.broker.store.queue("T", 0)
            assert (offset or 0) <= (0 if queue is None else queue.max_offset)
        await trio.sleep(10)
        assert follower.broker.tables.offsets.query(group="G", topic="T", queue_id=0) == 50


async def test_what_a_master_refuses_is_told_and_the_rest_copied(
    autojump_clock: MockClock,
) -> None:
    """Once a minute: RocketMQ's masters may have no timers, or do not know a request."""
    async with pair() as two:
        master = await two.start_master()
        for code in (60, 61, 201):
            del master.broker.dispatcher.handlers[code]
        await master.connect().call(10, send_ext("T"), b"x")
        with capture_logs() as logs:
            follower = await two.start_follower()
            await trio.sleep(50)
        told = [one["what"] for one in logs if one["event"] == "not copied from the master"]
        assert sorted(told) == ["groups", "pending messages", "timer positions"]
        assert follower.broker.tables.topics.get("T") is not None
        assert follower.broker.tables.follow_state.is_linked
