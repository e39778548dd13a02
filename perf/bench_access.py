"""What does access control cost a message?

The same sends (code 310, as the Java client sends them) and the same pulls (code 11, of 32
messages, as consumers ask) go through two brokers in turns, signed to one that checks signatures
and rights, unsigned to one that does not: bytes in, frames read, messages put into a store on a
real disk or taken from it, answers out. No sockets and no waiting, so that nothing hides the
difference; a served message costs more on both sides. Both sides stand in one run, in CPU time of
the process: the best of several rounds each, and the median of the ratios.

Run: ``python perf/bench_access.py``; ``--count`` messages a round, ``--keep`` writes the result.
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

import attrs
import trio
from result_files import report

from timermq.broker.broker import Broker
from timermq.broker.endpoint import Endpoint
from timermq.broker.options import BrokerOptions
from timermq.broker.session import Answer, Session, pack_born_host
from timermq.client import Credentials
from timermq.pipeline.clock.clock import SystemClock, WatchedClock
from timermq.pipeline.state.timer_options import TimerOptions
from timermq.pipeline.timer_message_store import TimerMessageStore
from timermq.remoting import Command, FrameConnection, LanguageCode, SendHeader, encode_frame
from timermq.remoting.send_run.send_v2 import decode_send_v2
from timermq.remoting.send_run.signed_send_v2 import decode_signed_send_v2
from timermq.timerstore.message_store import MessageStore
from timermq.timerstore.os_disk import OsDisk
from timermq.timerstore.store_options import StoreOptions

ADDRESS = "127.0.0.1:10911"
CHUNK = 65_536
"""Bytes that are read from a busy socket at a time."""
BODY = bytes(range(128))
RULES = """\
accounts:
- accessKey: producer
  secretKey: bench-secret
  topicPerms: [Bench=PUB|SUB]
  groupPerms: [bench=SUB]
"""
QUEUES = 4
PULLED = 32
"""Messages of a pull."""
FLOOR = 0.6
"""Part of the throughput that must be left."""


@attrs.frozen(eq=False)
class Side:
    """A broker with access control, or one without, and a session on it."""

    broker: Broker
    session: Session

    @classmethod
    def at(cls, folder: Path, options: BrokerOptions) -> Side:
        """A new one; its store stands in ``folder``."""
        clock = WatchedClock(SystemClock(), TimerOptions())
        store = MessageStore.open(
            OsDisk(), str(folder), StoreOptions(), now_ms=clock.now_ms, store_host=bytes(8)
        )
        endpoint = Endpoint(
            listeners=(), address=ADDRESS, listen=ADDRESS, namesrv_listen=None, store_host=bytes(8)
        )
        broker = Broker(
            endpoint=endpoint,
            timer_store=TimerMessageStore(store, TimerOptions(slots_total=7_200), clock),
            options=options,
            clock=clock,
        )
        session = Session(
            remote_address="127.0.0.1:50000",
            born_host=pack_born_host("127.0.0.1", 50_000),
            queue=lambda _: None,
            flush=lambda: None,
            start_soon=lambda _: False,
            close=lambda _: None,
        )
        return cls(broker, session)

    def seconds(self, data: bytes, count: int) -> float:
        """CPU time for all requests in ``data``, so many."""
        access = self.broker.access
        decode = decode_send_v2 if access is None else decode_signed_send_v2
        answers: list[Answer] = []
        began = time.process_time()
        frames = FrameConnection(decode_send=decode)
        for at in range(0, len(data), CHUNK):
            frames.receive_data(data[at : at + CHUNK])
            answers += self.broker.dispatcher.handle(self.session, frames.requests())
        spent = time.process_time() - began
        done = FrameConnection()
        for answer in answers:
            done.receive_data(answer if isinstance(answer, bytes) else encode_frame(answer))
        codes = [answer.code for answer in done.events()]
        if codes != [0] * count:
            raise RuntimeError(f"bench_access: expected {count} times code 0, found {set(codes)}")
        return spent


def sends(count: int, account: Credentials | None) -> bytes:
    """The frames of so many sends, each with an id of its own; signed where there is an account."""
    frames: list[bytes] = []
    for number in range(count):
        properties = b"UNIQ_KEY\x01%032X\x02WAIT\x01true\x02TAGS\x01t\x02" % number
        header = SendHeader(
            topic="Bench",
            queue_id=number % QUEUES,
            producer_group="bench",
            born_ms=1_700_000_000_000,
            properties=properties,
        )
        command = Command(
            310, opaque=number, language=LanguageCode.JAVA, ext=header.to_v2(), body=BODY
        )
        frames.append(encode_frame(command if account is None else account.sign(command)))
    return b"".join(frames)


def pulls(count: int, account: Credentials | None) -> bytes:
    """The frames of pulls that take so many messages, from all queues in turns."""
    frames: list[bytes] = []
    for number in range(count // PULLED):
        ext = {
            "consumerGroup": "bench", "topic": "Bench", "queueId": str(number % QUEUES),
            "queueOffset": str(number // QUEUES * PULLED), "maxMsgNums": str(PULLED),
            "sysFlag": "4", "commitOffset": "0", "suspendTimeoutMillis": "15000",
            "subVersion": "0", "subscription": "*", "expressionType": "TAG",
        }  # fmt: skip
        command = Command(11, opaque=number, language=LanguageCode.JAVA, ext=ext)
        frames.append(encode_frame(command if account is None else account.sign(command)))
    return b"".join(frames)


async def measure(count: int, rounds: int) -> dict[str, float]:
    """Of sends and of pulls: microseconds of CPU a message on both sides, and what is left."""
    accounts = {"open": None, "guarded": Credentials("producer", "bench-secret")}
    sent = {which: sends(count, account) for which, account in accounts.items()}
    pulled = {which: pulls(count, account) for which, account in accounts.items()}
    with tempfile.TemporaryDirectory(prefix="timermq-access-") as name:
        folder = Path(name)
        (folder / "plain_acl.yml").write_text(RULES)
        guarded = BrokerOptions(acl_enable=True, acl_file=str(folder / "plain_acl.yml"))
        sides = {
            "open": Side.at(folder / "open", BrokerOptions()),
            "guarded": Side.at(folder / "guarded", guarded),
        }
        for which, side in sides.items():  # the topic is made, caches are warm
            side.seconds(sent[which], count)
        spent_on_sends: dict[str, list[float]] = {which: [] for which in sides}
        spent_on_pulls: dict[str, list[float]] = {which: [] for which in sides}
        for _ in range(rounds):
            for which, side in sides.items():
                spent_on_sends[which].append(side.seconds(sent[which], count))
                spent_on_pulls[which].append(side.seconds(pulled[which], count // PULLED))
                await trio.lowlevel.checkpoint()
        for side in sides.values():
            side.broker.store.abandon()
    pull_costs = {f"pull_{key}": one for key, one in costs(spent_on_pulls, count).items()}
    return costs(spent_on_sends, count) | pull_costs


def costs(spent: Mapping[str, Sequence[float]], count: int) -> dict[str, float]:
    """Microseconds a message on both sides, and what is left of the throughput."""
    # Of rounds beside each other: other work on the machine hits both of a pair alike.
    ratios = [open_ / guarded_ for open_, guarded_ in zip(*spent.values(), strict=True)]
    best = {which: min(times) / count * 1e6 for which, times in spent.items()}
    return {
        "open_us": round(best["open"], 2),
        "guarded_us": round(best["guarded"], 2),
        "left": round(statistics.median(ratios), 3),
    }


def main() -> int:
    """Measure, print and perhaps keep; 1 when less is left than must be."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--count", type=int, default=4_096, help="messages a round")
    parser.add_argument("--rounds", type=int, default=40)
    parser.add_argument("--keep", action="store_true", help="write results/access.json")
    args = parser.parse_args()
    result = trio.run(measure, args.count, args.rounds)
    report("access", {"count": args.count, **result, "floor": FLOOR}, keep=args.keep)
    return 0 if min(result["left"], result["pull_left"]) >= FLOOR else 1


if __name__ == "__main__":
    raise SystemExit(main())
