"""The end of a simulation: until when it lasts, and what the store says when nothing waits."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence

from timermq.broker.broker import Broker
from timermq.client.history import Ack, ClockStep, Event, Refused, Reschedule, Send

EXPECTED_REASON = "illegal_topic"
"""Why the records of a plan that no timer can be made of are in quarantine."""
LEVEL_MAX_MS = 30_000
"""The longest delay of the levels that plans use."""
SETTLE_SECONDS = 700.0
"""Longer than a broker may take to notice a step of the clock."""
SETTLE_MAX = 30
"""Times that it is waited for."""


def last_moment_ms(events: Sequence[Event]) -> int:
    """The last moment that anybody has asked for, was promised, or may have believed in.

    A broker that believed a clock years ahead stands there; what has left that slot counts until it
    is over.
    """
    refused = {event.message_id for event in events if isinstance(event, Refused)}
    moments = [
        event.deliver_ms or 0
        for event in events
        if isinstance(event, Send | Ack | Reschedule) and event.message_id not in refused
    ]
    delays = [
        event.at_ms + (event.delay_ms or 0) + LEVEL_MAX_MS
        for event in events
        if isinstance(event, Send)
    ]
    believed = [
        event.at_ms
        for event in events
        if isinstance(event, ClockStep) and -event.by_ms > SETTLE_MAX * SETTLE_SECONDS * 1000
    ]
    return max([*moments, *delays, *believed], default=0)


def is_drained(broker: Broker) -> bool:
    """Whether nothing waits any more."""
    timers = broker.timer_store.statistics()
    return timers.pending == 0 and timers.commit_queue_offset == timers.queue_offset_max


def faults_in(
    broker: Broker, kept: Collection[str], is_expected: Callable[[int, str], bool]
) -> Iterator[str]:
    """The faults of a store in which nothing should wait any more.

    Args:
        broker: Serves it.
        kept: Unique keys of what must be in quarantine.
        is_expected: Whether a record may be in quarantine, by its position and the reason.
    """
    timers = broker.timer_store.statistics()
    if not is_drained(broker):
        yield (
            f"{timers.pending} timers still wait, queue {timers.commit_queue_offset} of "
            f"{timers.queue_offset_max}"
        )
    entries = [entry for entry, _ in broker.timer_store.quarantine.entries()]
    odd = [
        entry.text
        for entry in entries
        if entry.reason != EXPECTED_REASON and not is_expected(entry.origin_py, entry.reason)
    ]
    if odd:
        yield f"in quarantine, though it was not poisoned: {odd[0]}"
    missing = set(kept) - {entry.unique_id or "" for entry in entries}
    if missing:
        yield f"not in quarantine any more: {', '.join(sorted(missing))}"
