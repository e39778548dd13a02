"""Real clients send in all their ways while the broker is killed and started again.

Each acknowledged message stands on its topic exactly once, as promised: in order, by batch, not
before its moment, when its transaction was committed. A send whose answer the kill took away may
have been stored or not.
"""

from __future__ import annotations

import sys
from collections import Counter, defaultdict
from collections.abc import Mapping
from pathlib import Path

import pytest
import trio

from interop.conftest import Client
from interop.serving import StartBroker
from interop.stored_records import stored_records
from interop.talking import Talking, talking
from timermq.client import Consumer
from timermq.timerstore.record import Record

pytestmark = [
    pytest.mark.slow,
    pytest.mark.interop,
    pytest.mark.timeout(900),  # the Go client is built from its sources, once a machine
]

FAST = (
    "--set", "transaction_check_interval_ms=500",
    "--set", "transaction_time_out_ms=500",
    "--set", "transaction_check_max=1000",
)  # fmt: skip
ALL = ("sync", "async", "batch", "ordered", "delayed")
TRANSACTIONAL = "transactional"
COUNT = 40
"""Messages acknowledged of each way before the kill, and again behind it."""
BATCH = 4
"""Messages of one way that the kill may meet at once."""
CPP_RETRIES = 5
"""Times that the C++ client sends again what was not answered in time (its default)."""
ARRIVED_SECONDS = 60.0

Acknowledged = Mapping[str, Mapping[int, str]]
"""Way to number to the moment asked for, or ``-``."""


def acknowledged(client: Talking) -> Acknowledged:
    """What the client has said so far."""
    ways: dict[str, dict[int, str]] = defaultdict(dict)
    for line in client.heard_so_far("ACK"):
        way, number, moment = line.split()
        ways[way][int(number)] = moment
    return ways


def hear_more(client: Talking, *ways: str) -> None:
    """Wait until so many more of each of these ways are acknowledged."""
    for way in ways:
        client.hear(f"ACK {way} ", len(client.heard_so_far(f"ACK {way} ")) + COUNT)


def promised(ways: Acknowledged) -> dict[str, set[int]]:
    """Way to what has to arrive: every third transaction is rolled back."""
    return {
        way: {number for number in numbers if way != TRANSACTIONAL or number % 3 != 1}
        for way, numbers in ways.items()
    }


async def receive(namesrv: str, wanted: Mapping[str, set[int]]) -> None:
    """Wait until all of these have arrived."""
    left = {way: set(numbers) for way, numbers in wanted.items()}
    topics = dict.fromkeys(wanted, "*")
    with trio.fail_after(ARRIVED_SECONDS):
        async with Consumer(namesrv, group="Receiver", topics=topics, start_from="first") as all_:
            async for one in all_:
                left[one.topic].discard(int(one.body))
                if not any(left.values()):
                    return


def check(program: list[str], store: Path, start: StartBroker, *ways: str, again: int = 0) -> None:
    """Kill in the middle of all ways, and look at what the store has.

    Args:
        program: The client's command line, but for the name server.
        store: Of the broker.
        start: Starts it.
        ways: What the client can do.
        again: Messages of a way that it may have sent a second time by itself.
    """
    broker = start(store, *FAST)
    with talking([*program, broker.namesrv]) as client:
        hear_more(client, *ways)
        broker.kill()
        broker = start(store, *FAST, listen=broker.listen, namesrv=broker.namesrv)
        hear_more(client, *ways)
        client.say("stop")
        client.hear("STOPPED")
        said = acknowledged(client)
        trio.run(receive, broker.namesrv, promised(said))
    assert broker.stop() == 0
    arrived: dict[str, list[Record]] = defaultdict(list)
    for record in stored_records(store):
        arrived[record.topic].append(record)

    assert set(said) == set(ways)
    for way, wanted in promised(said).items():
        times = Counter(int(one.body) for one in arrived[way])
        assert [number for number in wanted if times[number] == 0] == [], f"{way}: lost"
        assert sum(times[number] - 1 for number in wanted) <= again, f"{way}: twice"
    check_ways(said, arrived)


def check_ways(said: Acknowledged, arrived: Mapping[str, list[Record]]) -> None:
    """What each way promises beside."""
    ordered = [one for one in arrived["ordered"] if int(one.body) in said["ordered"]]
    assert len({one.queue_id for one in ordered}) == 1
    assert [int(one.body) for one in ordered] == sorted(int(one.body) for one in ordered)
    for one in arrived["delayed"]:
        moment = said["delayed"].get(int(one.body), "0")
        assert one.store_ms >= int(moment), "early"
    for number in {number // BATCH for number in said["batch"]}:
        assert stands_whole(number, arrived["batch"]), f"batch {number}"
    assert not [one for one in arrived[TRANSACTIONAL] if int(one.body) % 3 == 1], "rolled back"


def stands_whole(number: int, records: list[Record]) -> bool:
    """Does a batch stand in one queue, one message behind the other? C++ tries again in another."""
    offsets: dict[int, dict[int, int]] = defaultdict(dict)
    for one in records:
        at = int(one.body)
        if at // BATCH == number:
            offsets[one.queue_id][at] = one.queue_offset
    return any(
        [queue.get(number * BATCH + at, -1) - min(queue.values()) for at in range(BATCH)]
        == list(range(BATCH))
        for queue in offsets.values()
    )


def test_java(tmp_path: Path, java_client: Client, start: StartBroker) -> None:
    """By callback, in batches and in order; delayed by a moment; transactions."""
    program = java_client("StreamClient")
    check(program, tmp_path / "store", start, *ALL, TRANSACTIONAL)


def test_go(tmp_path: Path, go_client: Client, start: StartBroker) -> None:
    """In batches and in order; delayed by a level; transactions.

    By callback it does not survive a broker that dies: without an answer 2.1.2 panics.
    """
    program = go_client("streaming")
    ways = [way for way in ALL if way != "async"]
    check(program, tmp_path / "store", start, *ways, TRANSACTIONAL)


def test_cpp(tmp_path: Path, start: StartBroker, monkeypatch: pytest.MonkeyPatch) -> None:
    """By callback, in batches and in order; delayed by a moment. It tries by itself."""
    monkeypatch.setenv("HOME", str(tmp_path))  # where it writes its log
    program = [sys.executable, str(Path(__file__).parent / "cpp_streamer.py")]
    check(program, tmp_path / "store", start, *ALL, again=CPP_RETRIES * BATCH)
