"""The promises about queues: ORDER and OFFSETS."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise

import attrs

from .broken import Broken, Rule
from .histories import Arrival, Attempt, Fate, Histories, Life, Queue


@attrs.frozen
class _Shared:
    """The key that messages with an order share."""

    queue: Queue
    moment_ms: int | None
    who: str
    file: int


@attrs.frozen
class _Placed:
    attempt: Attempt
    arrival: Arrival


def broken_offsets(histories: Histories) -> Iterator[Broken]:
    """Two messages at one place, and gaps where somebody saw the whole queue."""
    for queue, places in histories.queues.items():
        for arrivals in places.values():
            lasting = histories.lasting(arrivals)
            for second in lasting[1:]:
                yield Broken(
                    rule=Rule.OFFSETS,
                    message_id=second.message_id,
                    expected=f"{lasting[0].message_id} at {queue}@{second.offset}",
                    found=str(second),
                    lines=tuple(histories.place(one.seen) for one in (lasting[0], second)),
                )
        if histories.horizon_ms(queue.topic) < 0:
            continue
        for before, behind in pairwise(sorted(places)):
            if behind != before + 1 and not _may_begin_at(histories, queue, before, behind):
                first, second = places[before][0], places[behind][0]
                yield Broken(
                    rule=Rule.OFFSETS,
                    message_id=second.message_id,
                    expected=f"{queue}@{before + 1} behind {queue}@{before}",
                    found=f"{queue}@{behind}",
                    lines=tuple(map(histories.place, (first.seen, second.seen))),
                )


def _may_begin_at(histories: Histories, queue: Queue, before: int, offset: int) -> bool:
    """Whether a queue may begin at an offset, behind a gap: a power cut has taken its last message.

    Those before had been cleaned. What was in the queue tells that the offsets in between were
    given out, and none is given out twice; so nothing before is seen behind the cut. Where damage
    has taken what tells it, the queue says that it skips to the end of its file.
    """
    if any(before < one <= offset for one in histories.skips.get(queue, ())):
        return True
    arrivals = [one for there in histories.queues[queue].values() for one in there]
    return histories.unsynced_ms is not None and any(
        all(
            histories.is_before(one.seen_last, cut)
            if one.offset < offset
            else histories.is_before(cut, one.seen)
            for one in arrivals
        )
        and any(lowest >= offset for lowest in histories.read_behind([cut], queue))
        for cut in histories.power_cuts
    )


def in_order(histories: Histories) -> dict[_Shared, list[_Placed]]:
    """Messages whose order can be told: sent once, acknowledged, arrived once, never moved.

    And acknowledged before their moment: one that is past when it comes means now, which is a later
    moment than that of messages that were to be there by then and are late themselves.
    """
    groups: dict[_Shared, list[_Placed]] = {}
    for life in histories.lives.values():
        if len(life.attempts) != 1 or len(life.arrivals) != 1 or _may_be_moved(life):
            continue
        (attempt,), (arrival,) = life.attempts, life.arrivals
        send = attempt.send
        is_known = attempt.moment_ms is not None or not send.is_delayed
        if attempt.ack is None or not is_known or histories.fate(arrival) is not Fate.LASTING:
            continue
        if _may_mean_now(attempt):
            continue
        shared = _Shared(arrival.queue, attempt.moment_ms, send.who, attempt.sent.file)
        groups.setdefault(shared, []).append(_Placed(attempt, arrival))
    return groups


def broken_order(histories: Histories) -> Iterator[Broken]:
    """A message behind one that was sent after it was acknowledged, or after it in one request."""
    for shared, placed in in_order(histories).items():
        placed.sort(key=lambda one: one.attempt.sent.line)
        answered = sorted(placed, key=_answered_line)
        at, highest, previous = 0, None, None
        for one in placed:
            while _answered_line(answered[at]) < one.attempt.sent.line:
                highest = _higher(highest, answered[at])
                at += 1
            first = _higher(highest, previous if _is_together(previous, one) else None)
            if (
                first is not None
                and first.arrival.offset > one.arrival.offset
                and not _may_be_delivered_again(histories, first.arrival, one.arrival)
            ):
                yield _out_of_order(histories, shared, first, one)
            previous = _higher(previous, one) if _is_together(previous, one) else one


def _may_be_delivered_again(histories: Histories, first: Arrival, second: Arrival) -> bool:
    """Whether the first may have stood before the second, and be delivered again behind it.

    A power cut may take the one out of the middle of what is not synced. A start would end the log
    there; a repair keeps what stands behind it.
    """
    if histories.unsynced_ms is None:
        return False
    reach_ms, steps_ms = histories.unsynced_ms + histories.steps_ms, histories.steps_ms
    return any(
        cut.line < repair.line
        and cut.at_ms - reach_ms <= second.stored_ms <= cut.at_ms + steps_ms
        and repair.at_ms - steps_ms <= first.stored_ms
        for repair in histories.repairs
        for cut in histories.power_cuts
        if cut.file == repair.file
    )


def _may_mean_now(attempt: Attempt) -> bool:
    moment_ms, answered = attempt.moment_ms, attempt.answered
    return moment_ms is not None and answered is not None and moment_ms <= answered.at_ms


def _may_be_moved(life: Life) -> bool:
    return any(one.verdict in ("moved", "unknown") for one in life.requests)


def _answered_line(one: _Placed) -> int:
    assert one.attempt.answered is not None, "acknowledged"
    return one.attempt.answered.line


def _is_together(previous: _Placed | None, one: _Placed) -> bool:
    """Whether both left in one request."""
    if previous is None or one.attempt.send.op < 0:
        return False
    return previous.attempt.send.op == one.attempt.send.op


def _higher(one: _Placed | None, other: _Placed | None) -> _Placed | None:
    if one is None or other is None:
        return one or other
    return one if one.arrival.offset > other.arrival.offset else other


def _out_of_order(histories: Histories, shared: _Shared, first: _Placed, second: _Placed) -> Broken:
    moment = "no moment" if shared.moment_ms is None else f"the moment {shared.moment_ms}"
    marks = [mark for one in (first, second) for mark in (one.attempt.sent, one.arrival.seen)]
    return Broken(
        rule=Rule.ORDER,
        message_id=second.attempt.send.message_id,
        expected=f"it behind {first.attempt.send.message_id}, with {moment}: sent after it",
        found=f"{second.arrival}, the other at offset {first.arrival.offset}",
        lines=tuple(map(histories.place, marks)),
    )
