"""What overload costs a broker: `make overload` prints figures; 1 when one is beyond its bound.

Each question is asked of a broker in a process of its own: two thousand idle connections, two
hundred that send a byte a second, a consumer that asks and never reads, a flood of topics. Beside
them a well-behaved client sends, and its slowest answer is a figure. The last two are asked of a
broker with its defaults, and of one with small limits, which a short flood reaches. At last, a slot
with a million timers: memory while it drains, and how late its last message is.

Run: ``python perf/overload.py [--keep]``, which writes results/overload.json.
"""

from __future__ import annotations

import argparse
import multiprocessing
import sys
import time
from collections.abc import Callable

import attrs
import result_files
from served import Figure, Server, call, kept_answer, raise_file_limit, report, serving

from timermq.bench.broker_process import broker_process
from timermq.bench.load import pull, send
from timermq.bench.measure import own_memory
from timermq.broker.options import BrokerOptions
from timermq.remoting import Command, RequestCode
from timermq.remoting.connection import encode_frame

IDLE, SLOW, FLOOD = 2_000, 200, 5_000
FLOOD_MB_MAX = 60
SMALL = {"topics_max": 200, "unread_output_size_max": 1 << 20}
"""Limits that are reached soon."""
DEFAULTS = BrokerOptions()
PULL_FRAMES = 4_000
SLOT_TIMERS = 1_000_000
SLOT_LOAD_RATE = 15_000
"""Sends a second that are expected at least while the slot is filled."""


def send_command(topic: str, opaque: int) -> bytes:
    """The frame of a send of 1,000 bytes."""
    ext = {
        "producerGroup": "P", "topic": topic, "defaultTopic": "TBW102",
        "defaultTopicQueueNums": "1", "queueId": "0", "sysFlag": "0", "bornTimestamp": "0",
        "flag": "0", "properties": "",
    }  # fmt: skip
    return encode_frame(Command(RequestCode.SEND_MESSAGE, opaque=opaque, ext=ext, body=b"x" * 1000))


def slowest(server: Server, seconds: float, meanwhile: Callable[[], None]) -> float:
    """The slowest of a client's answers, milliseconds."""
    worst, until, opaque = 0.0, time.monotonic() + seconds, 0
    with server.connect() as client:
        while time.monotonic() < until:
            opaque += 1
            code, took = call(client, send_command("Well", opaque))
            assert code == 0, code
            worst = max(worst, took)
            meanwhile()
            time.sleep(0.01)
    return worst * 1000


@attrs.frozen
class Limits:
    """What a broker is told to take, and how it is told."""

    topics_max: int = DEFAULTS.topics_max
    unread_output_size_max: int = DEFAULTS.unread_output_size_max

    def set_flags(self) -> list[str]:
        """For its command line; what is a default is not said."""
        return [f"--set={name}={value}" for name, value in self._other().items()]

    def label(self, name: str) -> str:
        """How a figure that hangs on a setting tells it; nothing for a default."""
        value = self._other().get(name)
        return "" if value is None else f"{name}={value}"

    def _other(self) -> dict[str, int]:
        mine: dict[str, int] = attrs.asdict(self)
        return {name: value for name, value in mine.items() if value != getattr(DEFAULTS, name)}


def idle(server: Server) -> list[Figure]:
    """What connections that say nothing cost in memory and in answers."""
    before = server.own_size()
    connections = [server.connect() for _ in range(IDLE)]
    worst = slowest(server, 3, lambda: None)
    size = (server.own_size() - before) / IDLE
    for connection in connections:
        connection.close()
    return [
        Figure(f"{IDLE} idle connections, each", size / 1000, "kB", 40),
        Figure("slowest answer beside them", worst, "ms", 1_000),
    ]


def slow(server: Server) -> list[Figure]:
    """Connections that send a byte a second of a frame that never ends."""
    frame = send_command("Slow", 1)
    before = server.own_size()
    connections = [server.connect() for _ in range(SLOW)]
    sent = [0, 0.0]

    def trickle() -> None:
        if time.monotonic() - sent[1] >= 1:
            at = int(sent[0])
            for connection in connections:
                connection.sendall(frame[at : at + 1])
            sent[0], sent[1] = at + 1, time.monotonic()

    worst = slowest(server, 5, trickle)
    grown = server.own_size() - before
    for connection in connections:
        connection.close()
    return [
        Figure(f"{SLOW} connections of a byte a second", grown / 1e6, "MB", 40),
        Figure("slowest answer beside them", worst, "ms", 1_000),
    ]


def never_reads(server: Server, limits: Limits) -> list[Figure]:
    """A peer that asks for 32 records again and again and takes no answer."""
    with server.connect() as client:
        assert [call(client, send_command("Well", at))[0] for at in range(64)] == [0] * 64
    before, peak = server.own_size(), 0
    ext = {
        "consumerGroup": "C", "topic": "Well", "queueId": "0", "queueOffset": "0",
        "maxMsgNums": "32", "sysFlag": "4", "commitOffset": "0", "suspendTimeoutMillis": "0",
        "subVersion": "0", "subscription": "*", "expressionType": "TAG",
    }  # fmt: skip
    frame = encode_frame(Command(RequestCode.PULL_MESSAGE, opaque=1, ext=ext))
    peer = server.connect()
    peer.settimeout(0.2)
    asked, stalled = 0, False
    assert call(peer, frame)[0] == 0
    for _ in range(PULL_FRAMES):
        try:
            peer.sendall(frame)
        except OSError:
            stalled = True
            break
        asked += 1
        if asked % 100 == 0:
            peak = max(peak, server.own_size())
    worst = slowest(server, 2, lambda: None)
    peak = max(peak, server.own_size())
    peer.close()
    print(f"# never reads: {asked} pulls asked, {'stalled' if stalled else 'all taken'}")
    bound, label = 2 * limits.unread_output_size_max / 1e6, limits.label("unread_output_size_max")
    grown = (peak - before) / 1e6
    return [
        Figure("a consumer that never reads", grown, "MB", bound + 20, label),
        Figure("slowest answer beside it", worst, "ms", 1_000, label),
    ]


def flood(server: Server, limits: Limits) -> list[Figure]:
    """Sends to ever new topics: from the limit on they are refused."""
    before, refused = server.own_size(), 0
    with server.connect() as client:
        for at in range(FLOOD):
            refused += call(client, send_command(f"Flood{at}", at))[0] == 1
    grown, label = server.own_size() - before, limits.label("topics_max")
    let_in = FLOOD - refused
    each = grown / max(let_in, 1) / 1000
    return [
        Figure(f"of {FLOOD} topics in a flood let in", let_in, "topics", limits.topics_max, label),
        Figure("memory of the flood", grown / 1e6, "MB", FLOOD_MB_MAX, label),
        Figure("… of each topic let in", each, "kB", None, label),
    ]


def crowded_slot() -> list[Figure]:
    """A million messages for one millisecond, with a consumer that takes them."""
    with broker_process() as broker, multiprocessing.Pool(2) as pool:
        empty = own_memory(broker.process_id)
        workload = broker.workload("Crowded", SLOT_TIMERS)
        instant_ms = int((time.time() + SLOT_TIMERS / SLOT_LOAD_RATE) * 1000)
        workload = attrs.evolve(workload, deliver_ms=instant_ms)
        pool.apply_async(send, (workload,)).get()
        if time.time() * 1000 > instant_ms:
            raise RuntimeError(f"overload: fewer than {SLOT_LOAD_RATE} sends a second got in")
        pulled, most = pool.apply_async(pull, (workload, "crowd", 120.0)), 0
        while not pulled.ready():
            most = max(most, own_memory(broker.process_id))
            time.sleep(0.05)
        late = pulled.get()[1] - instant_ms / 1000
    return [
        Figure(f"a slot with {SLOT_TIMERS:,} timers, over empty", (most - empty) / 1e6, "MB", 150),
        Figure("its last message late", late, "s", None),
    ]


def main() -> int:
    """Ask everything; 1 when a figure is beyond its bound."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--keep", action="store_true", help="write results/overload.json")
    args = parser.parse_args()
    raise_file_limit()
    figures: list[Figure] = []
    for quiet in (idle, slow):
        with serving() as server:
            figures += quiet(server)
    for question in (never_reads, flood):
        for limits in (Limits(), Limits(**SMALL)):
            with serving(*limits.set_flags()) as server:
                figures += question(server, limits)
    figures += crowded_slot()
    if args.keep:
        result_files.report(
            "overload", {"answers": [kept_answer(one) for one in figures]}, keep=True
        )
    return report(figures)


if __name__ == "__main__":
    sys.exit(main())
