"""For how long does one look at the tables hold the event loop?

Topics are registered with every name server each 30 s and when one comes, and written when one
comes; consumers' offsets are written every 5 s. All of it is done between two turns of the loop, so
what it takes is what a timer may be late for it. Milliseconds of CPU, the best of several rounds,
beside the calibration loop.

Expected: a topic has sixteen keys and values, an offset two; C prints a registration, and files,
which have keys that JSON has not, are printed by a walk in Python of a quarter microsecond a value.

Run: ``python perf/bench_tables.py``; exits with 1 when something takes more than the bound, in
milliseconds of the reference machine.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable

from timermq.bench.calibration import REFERENCE_MS, calibrate
from timermq.broker.consumer_offset import ConsumerOffsetTable
from timermq.broker.namesrv.own_broker import OwnBroker
from timermq.broker.options import BrokerOptions
from timermq.broker.topic_config import TopicConfig, TopicConfigTable
from timermq.remoting.registration import encode_registration
from timermq.timerstore.fastjson import fastjson

TOPICS = 5_000
GROUPS, TOPICS_OF_GROUP, QUEUES = 1_000, 5, 8
BOUND_MS = 100
"""A timer may be late by 250 ms among crowds; this is one of several things that hold it up."""
ROUNDS = 5


def topic_table() -> TopicConfigTable:
    """So many topics of eight queues."""
    topics = TopicConfigTable(BrokerOptions(), now_ms=lambda: 0, level_max=18)
    for number in range(TOPICS):
        topics.put(TopicConfig(topic_name=f"Topic{number}"))
    return topics


def offset_table() -> ConsumerOffsetTable:
    """The offsets of `GROUPS` groups on every queue of their topics."""
    offsets = ConsumerOffsetTable(now_ms=lambda: 0, version_step=1_000)
    for group in range(GROUPS):
        for topic in range(TOPICS_OF_GROUP):
            for queue_id in range(QUEUES):
                offsets.commit(
                    group=f"group-{group}", topic=f"Topic{topic}", queue_id=queue_id, offset=1 << 20
                )
    return offsets


def cpu_ms(work: Callable[[], object]) -> float:
    """CPU time of the best of several rounds, milliseconds."""
    best = float("inf")
    for _ in range(ROUNDS):
        begun = time.process_time()
        work()
        best = min(best, time.process_time() - begun)
    return best * 1_000


def main() -> int:
    """Print what each look takes; 1 when one is beyond the bound."""
    topics, offsets = topic_table(), offset_table()
    own = OwnBroker(options=BrokerOptions(), topics=topics, address="127.0.0.1:10911")
    calibration = calibrate()
    looks: dict[str, Callable[[], object]] = {
        f"registration of {TOPICS:,} topics": lambda: encode_registration(
            own.version(), [one.to_json() for one in own.registered_topics().values()]
        ),
        f"topics.json of {TOPICS:,}": lambda: fastjson(topics.to_json()),
        f"{GROUPS * TOPICS_OF_GROUP * QUEUES:,} offsets of {GROUPS:,} groups": lambda: fastjson(
            offsets.to_json()
        ),
    }
    beyond = 0
    for name, look in looks.items():
        took = cpu_ms(look)
        normal = took * REFERENCE_MS / calibration
        beyond += normal > BOUND_MS
        print(f"{name:36} {took:7.1f} ms {normal:7.1f} on the reference machine ({BOUND_MS})")
    print(f"calibration {calibration:.2f} ms")
    return 1 if beyond else 0


if __name__ == "__main__":
    sys.exit(main())
