"""Requests to a master: what its answers say, of ours and of RocketMQ's."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable

import outcome
import pytest
import trio
import trio.testing

from broker_rig import Peer
from timermq.broker.replication.follow_state import FollowError
from timermq.broker.replication.master_calls import (
    MasterCalls,
    MasterFacts,
    MasterLog,
    MasterTimer,
    RefusedCallError,
)
from timermq.remoting.command import Command
from timermq.timerlog.timer_checkpoint import CHECKPOINT

Answer = Callable[[Command], Command | None]


async def asked(answer: Answer, ask: Callable[[MasterCalls], Awaitable[object]]) -> object:
    """The result of a call to a master that answers like this; None closes the connection."""
    ours, theirs = trio.testing.memory_stream_pair()
    master = Peer(theirs)

    async def serve() -> None:
        while (command := await master.receive()) is not None:
            answered = answer(command)
            if answered is None:
                await theirs.aclose()
                return
            await master.send(answered)

    result: outcome.Outcome[object] | None = None
    async with trio.open_nursery() as nursery:
        nursery.start_soon(serve)
        result = await outcome.acapture(ask, MasterCalls(ours))
        nursery.cancel_scope.cancel()
    assert result is not None
    return result.unwrap()


def body(text: str) -> Answer:
    """A master that answers everything with this."""
    return lambda command: command.answer(0, body=text.encode())


async def test_the_settings_of_a_master() -> None:
    """RocketMQ's say where followers link; ours say what they are as well."""
    text = "brokerName=b\nhaListenPort=10912\nmappedFileSizeCommitLog=1024\n"
    expected = MasterFacts(broker_name="b", ha_port=10_912, segment_size=1_024, is_ours=False)
    assert await asked(body(text), MasterCalls.facts) == expected
    ours = await asked(body(text + "timermqReplication=1\n"), MasterCalls.facts)
    assert isinstance(ours, MasterFacts)
    assert ours.is_ours


@pytest.mark.parametrize(
    ("runtime", "now_ms"),
    [
        ("[ 0 days, 0 hours, 1 minutes, 9 seconds ]", 1_070_000),
        (
            "[ 1,001 days, 1 hours, 0 minutes, 0 seconds ]",
            1_000_000 + (1_001 * 86_400 + 3_600 + 1) * 1_000,
        ),
        ("for ever", None),
    ],
)
async def test_the_ends_of_a_log(runtime: str, now_ms: int | None) -> None:
    """With what the clock shows, by the time since the start, a second more at most."""
    table = {
        "commitLogMinOffset": "-1",
        "commitLogMaxOffset": "77",
        "bootTimestamp": "1000000",
        "runtime": runtime,
    }
    found = await asked(body(json.dumps({"table": table})), MasterCalls.log)
    assert found == MasterLog(start=0, end=77, now_ms=now_ms)


async def test_the_positions_of_timers() -> None:
    """A master without timers answers with nothing."""
    page = CHECKPOINT.struct.pack(5_000, 1, 20, 30, 0, 0, 0)
    found = await asked(lambda one: one.answer(0, body=page), MasterCalls.timer)
    assert found == MasterTimer(read_ms=5_000, queue_offset=20)
    assert await asked(body(""), MasterCalls.timer) is None


async def test_tables_of_rocketmq_before_5_4_come_whole() -> None:
    """Its JSON has numbers as keys, without quotes."""
    text = '{"dataVersion":{"counter":1},"topicConfigTable":{"A":{},"B":{}}}'
    found = await asked(body(text), MasterCalls.topics)
    assert found == {
        "dataVersion": {"counter": 1},
        "topicConfigTable": {"A": {}, "B": {}},
    }
    offsets = await asked(body('{"offsetTable":{"T@G":{0:7,1:9}}}'), MasterCalls.consumer_offsets)
    assert offsets == {"offsetTable": {"T@G": {0: 7, 1: 9}}}


async def test_a_table_that_changes_between_two_pages_is_read_again() -> None:
    """No entry of the old one is left, and none of the new one is missing."""
    tables = [(1, ["A", "B", "C"]), (2, ["B", "D", "E"])]
    calls: list[dict[str, str]] = []

    def answer(command: Command) -> Command:
        calls.append(dict(command.ext))
        counter, names = tables[min(len(calls) // 2, 1)]
        version = {"counter": counter}
        begin = int(command.ext["groupSeq"])
        if json.loads(command.ext["dataVersion"] or "null") != version:
            begin = 0
        page: dict[str, object] = {one: {} for one in names[begin : begin + 2]}
        data = json.dumps({"dataVersion": version, "subscriptionGroupTable": page})
        return command.answer(0, ext={"totalGroupNum": "3"}, body=data.encode())

    found = await asked(answer, MasterCalls.groups)
    assert found == {
        "dataVersion": {"counter": 2},
        "subscriptionGroupTable": {"B": {}, "D": {}, "E": {}},
    }
    assert [one["groupSeq"] for one in calls] == ["0", "2", "2"]


async def test_refusals_and_broken_connections_are_told_apart() -> None:
    """The first is of one question, the second of all."""
    with pytest.raises(RefusedCallError, match="request 61 is refused with 3: no"):
        await asked(lambda one: one.answer(3, remark="no"), MasterCalls.pending)
    with pytest.raises(FollowError, match="closed the connection"):
        await asked(lambda _: None, MasterCalls.pending)
    with pytest.raises(FollowError, match="answer to 61"):
        await asked(body("{"), MasterCalls.pending)
