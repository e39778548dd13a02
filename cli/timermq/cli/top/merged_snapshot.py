"""One picture of several brokers: counts are added, and of other values the worst is shown.

The buckets of all brokers are moved to the first moment of the newest snapshot. Messages before
that moment count in the first bucket, as overdue ones do. The uptime is the shortest among the
brokers that answer: rates are divided by it, and begin again when a broker has been started again.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from itertools import zip_longest
from typing import Any

import attrs

from timermq.remoting import Counters, Snapshot
from timermq.remoting.watch import SLOTS_MAX, TOPICS_MAX

CLOCK_SAFE = "SAFE"


def merge_snapshots(snapshots: Mapping[str, Snapshot], old: Iterable[str] = ()) -> Snapshot:
    """The picture of all of these brokers.

    Args:
        snapshots: The newest of each, by address; at least one.
        old: Addresses of brokers that do not answer now, whose snapshots are old.
    """
    if len(snapshots) == 1:
        return next(iter(snapshots.values()))
    ordered = [snapshots[address] for address in sorted(snapshots)]
    fresh = [snapshots[one] for one in sorted(set(snapshots) - set(old))] or ordered
    newest = max(fresh, key=lambda one: one.now_ms)
    unsafe = [one for one in (newest, *fresh) if one.clock != CLOCK_SAFE]
    first = unsafe[0] if unsafe else newest
    name = f"{len(ordered)} brokers"
    return attrs.evolve(
        first,  # with its clock
        broker=name,
        address=name,
        now_ms=newest.now_ms,
        uptime_ms=min(one.uptime_ms for one in fresh),
        from_ms=newest.from_ms,
        width_ms=newest.width_ms,
        buckets=_buckets(ordered, newest),
        slots=_slots(ordered),
        topics=_topics(ordered),
        topic_count=max(
            len({topic for one in ordered for topic, _ in one.topics}),
            *(one.topic_count for one in ordered),
        ),
        counters=_counters([one.counters for one in ordered]),
        lateness_bounds_ms=max((one.lateness_bounds_ms for one in ordered), key=len),
        refusal=_named(ordered, "refusal"),
        door_problem=_named(ordered, "door_problem"),
        held_up_error=_named(ordered, "held_up_error"),
        master=_named(ordered, "master"),
        master_error=_named(ordered, "master_error"),
        open_doors=tuple(door for one in ordered for door in one.open_doors),
        scrub_done_ratio=min(
            (one.scrub_done_ratio for one in fresh if one.scrub_done_ratio is not None),
            default=None,
        ),
        set_aside_reason=max(ordered, key=lambda one: one.set_aside_ms or 0).set_aside_reason,
        **_by_rule(ordered),
    )


_SUMS = (
    *("enqueue_lag", "pending", "held_pulls", "memory_size", "memory_own_size", "quarantined"),
    *("held_up", "failed_logins", "missing_rights", "tls_refused"),
    *("scrub_damaged", "scrub_mended", "scrub_left", "followers", "followers_in_sync"),
)
_GREATEST = (
    *("precision_ms", "write_ms", "read_lag_ms", "lateness_max_ms", "disk_used_ratio"),
    *("set_aside_ms", "failed_login_ms", "followers_behind", "followers_silent_ms"),
    *("master_behind", "master_behind_ms"),
)
_LEAST = ("read_ms", "commit_read_ms", "scrub_whole_ms", "held_up_since_ms")


def _by_rule(ordered: Sequence[Snapshot]) -> dict[str, Any]:
    """The fields that are added, or of which the greatest or the least counts; None is no value."""
    found: dict[str, Any] = {}
    for names, choose in ((_SUMS, sum), (_GREATEST, max), (_LEAST, min)):
        for name in names:
            values = [getattr(one, name) for one in ordered]
            known = [value for value in values if value is not None]
            found[name] = choose(known) if known else None
    return found


def _named(ordered: Sequence[Snapshot], field: str) -> str | None:
    """The texts of a trouble, each behind its broker's name; None without any."""
    found = [(one.broker, getattr(one, field)) for one in ordered]
    texts = [f"{name}: {text}" for name, text in found if text is not None]
    return "; ".join(texts) or None


def _buckets(ordered: Sequence[Snapshot], newest: Snapshot) -> tuple[int, ...]:
    buckets = [0] * len(newest.buckets)
    for one in ordered:
        for at, count in enumerate(one.buckets):
            index = (one.from_ms + at * one.width_ms - newest.from_ms) // newest.width_ms
            if index < len(buckets):
                buckets[max(index, 0)] += count
    return tuple(buckets)


def _slots(ordered: Sequence[Snapshot]) -> tuple[tuple[int, int], ...]:
    """The next slots of all, up to the end of the first full list: its broker tells no more."""
    counts: Counter[int] = Counter()
    for one in ordered:
        counts.update(dict(one.slots))
    end = min((one.slots[-1][0] for one in ordered if len(one.slots) >= SLOTS_MAX), default=None)
    known = sorted(row for row in counts.items() if end is None or row[0] <= end)
    return tuple(known[:SLOTS_MAX])


def _topics(ordered: Sequence[Snapshot]) -> tuple[tuple[str, int], ...]:
    counts: Counter[str] = Counter()
    for one in ordered:
        counts.update(dict(one.topics))
    return tuple(sorted(counts.items(), key=lambda row: (-row[1], row[0]))[:TOPICS_MAX])


def _counters(ordered: Sequence[Counters]) -> Counters:
    sums = {
        field.name: sum(getattr(one, field.name) for one in ordered)
        for field in attrs.fields(Counters)
        if field.name != "lateness"
    }
    lateness = map(sum, zip_longest(*(one.lateness for one in ordered), fillvalue=0))
    return attrs.evolve(Counters(lateness=tuple(lateness)), **sums)
