"""Drawn cancels and moves, judged by the two rules by which RocketMQ compares deletes.

The model is RocketMQ's: of a slot all deletes are read first, then each message of the slot whose
name they have is left out. Versions differ in the name. What rolls meets its deletes in its last
slot only, so rolls change nothing here.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable

import attrs
from hypothesis import given
from hypothesis import strategies as st

from fakes import ManualClock
from simulation.staged_service import timed
from timermq.pipeline.records.cancel_verdict import Verdict, Wanted
from timermq.pipeline.records.timer_record import TIMER_TOPIC
from timermq.timerstore.record import Record, decode_record
from unit.pipeline.stages_by_hand import SLOT_MS, StagesByHand

Name = Callable[[str, str], str]
"""What RocketMQ looks for among the deletes, of the real topic and the unique key."""


def with_topic(topic: str, key: str) -> str:
    """5.3.2 and 5.3.3, and later ones with ``appendTopicForTimerDeleteKey``."""
    return f"{topic}+{key}"


def key_alone(topic: str, key: str) -> str:
    """Up to 5.3.1, and from 5.4 on."""
    return key


@attrs.frozen
class Step:
    """A cancel, or a move so many milliseconds behind the slot's begin."""

    number: int
    by_key: bool
    behind_ms: int | None


STEPS = st.lists(
    st.builds(
        Step,
        st.integers(0, 3),
        st.booleans(),
        st.one_of(st.none(), st.integers(1, 1_000), st.integers(1, 3_000)),
    ),
    max_size=12,
)
KEYS = st.sampled_from(["m", "T+m", "m#moved", "m#moved7"])


def arrivals(entries: list[Record], name: Name) -> Counter[tuple[str, int]]:
    """Body and slot of what RocketMQ delivers of the entries of the timer topic."""
    deletes: dict[int, set[str]] = defaultdict(set)
    waiting: list[tuple[int, str, str]] = []
    for one in entries:
        properties = one.properties_dict()
        slot_ms = int(properties["TIMER_OUT_MS"])
        deleted = properties.get("TIMER_DEL_UNIQKEY")
        if deleted is None:
            wanted = name(properties["REAL_TOPIC"], properties["UNIQ_KEY"])
            waiting.append((slot_ms, wanted, one.body.decode()))
        else:
            deletes[slot_ms].add(deleted)
    return Counter((body, slot) for slot, wanted, body in waiting if wanted not in deletes[slot])


@given(KEYS, STEPS)
def test_what_rocketmq_delivers(prefix: str, steps: list[Step]) -> None:
    """Nothing that was cancelled, and what was moved once, in its last slot; by either rule."""
    rig = StagesByHand(ManualClock())
    names = [(f"{prefix}-{number}", "TU"[number % 2]) for number in range(4)]
    for body, topic in names:
        message = timed(body, SLOT_MS + 500, topic=topic)
        message.properties += f"KEYS\x01order-{body}\x02".encode()
        rig.link(message)
    expected = {body: SLOT_MS for body, _ in names}
    for step in steps:
        body, topic = names[step.number]
        key = f"order-{body}" if step.by_key else body
        wanted = Wanted(topic, key, is_unique_key=not step.by_key)
        cancellation = rig.service.cancellation
        if step.behind_ms is None:
            assert cancellation.cancel(wanted).verdict is Verdict.CANCELLED
            expected.pop(body, None)
        else:
            moved = cancellation.reschedule(wanted, SLOT_MS + step.behind_ms)
            assert (moved.out_ms is not None) == (body in expected)
            if moved.out_ms is not None:
                expected[body] = moved.out_ms

    queue = rig.store.queue(TIMER_TOPIC, 0)
    assert queue is not None
    units = queue.units(0, queue.max_offset).tolist()
    records = rig.store.commit_log.records_at((at, size) for at, size, _ in units)
    entries = [decode_record(record) for record in records if record is not None]
    assert len(entries) == len(units)
    for name in (with_topic, key_alone):
        assert arrivals(entries, name) == Counter(expected.items())
