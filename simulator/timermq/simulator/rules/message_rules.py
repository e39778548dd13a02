"""The promises about one message: UNSENT, PLACE, ONCE, NOT_BEFORE, NOT_LOST, CANCEL, RESCHEDULE."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import starmap

import attrs

from .broken import Broken, Rule
from .histories import Arrival, Attempt, Fate, Histories, Life, Mark
from .order_of_requests import STEPS_MAX, as_of, has_order


@attrs.frozen
class MessageRules:
    """Judges messages one by one.

    Args:
        histories: What was seen.
        others_send: Whether messages may arrive that no history sent.
    """

    histories: Histories
    others_send: bool = False

    def broken(self, life: Life) -> Iterator[Broken]:
        """The promises about one message that were not kept."""
        stored = [one for one in life.attempts if not one.is_refused]
        if not stored:
            yield from self._unsent(life)
            return
        yield from self._misplaced(life, stored)
        yield from self._twice(life, stored)
        if self.is_uncertain(life):
            yield from self._early(life, stored)
        elif life.requests:
            yield from self._unexplained(life)
        else:
            yield from self._early(life, stored)
            yield from self._lost(life, stored)

    def is_uncertain(self, life: Life) -> bool:
        """Whether requests and loss cannot be judged.

        A power cut may have undone answers; or there are requests, and more than one send: a
        cancel is for what is stored under the id at that time, which is not known.
        """
        spans = [(one.answered or one.sent, one.sent) for one in life.attempts]
        spans += [(one.answered or one.asked, one.asked) for one in life.requests]
        return any(starmap(self.histories.may_be_undone, spans)) or (
            bool(life.requests) and (len(life.attempts) > 1 or len(life.requests) > STEPS_MAX)
        )

    def must_arrive(self, life: Life) -> bool:
        """Whether a message without requests has to be there by now."""
        return not life.requests and any(
            one.latest_ms <= self.histories.horizon_ms(one.send.topic) for one in life.attempts
        )

    # -- the rules ----------------------------------------------------------------------------

    def _unsent(self, life: Life) -> Iterator[Broken]:
        if life.arrivals and not (self.others_send and not life.attempts):
            yield self._broken(
                Rule.UNSENT,
                life,
                "no arrival: it was refused" if life.attempts else "a send of it",
                "; ".join(map(str, life.arrivals)) if life.attempts else "none",
            )

    def _misplaced(self, life: Life, stored: list[Attempt]) -> Iterator[Broken]:
        topics = {one.send.topic for one in stored}
        queues = {_queue(one) for one in stored}
        offsets = {_offset(one) for one in stored}
        for arrival in self.histories.lasting(life.arrivals):
            fits = arrival.queue.topic in topics
            fits = fits and (None in queues or arrival.queue.number in queues)
            if not fits or not (None in offsets or arrival.offset in offsets):
                asked = " or ".join(sorted(map(_destination, stored)))
                yield self._broken(Rule.PLACE, life, asked, str(arrival), [arrival])

    def _twice(self, life: Life, stored: list[Attempt]) -> Iterator[Broken]:
        lasting = self.histories.lasting(life.arrivals)
        if len(lasting) > len(stored):
            yield self._broken(
                Rule.ONCE,
                life,
                f"at most {len(stored)} place(s)",
                "; ".join(map(str, lasting)),
                lasting,
            )

    def _early(self, life: Life, stored: list[Attempt]) -> Iterator[Broken]:
        if life.requests and any(
            one.moved_to_ms or one.verdict == "unknown" for one in life.requests
        ):
            return
        earliest_ms = min(one.earliest_ms for one in stored)
        for arrival in life.arrivals:
            if arrival.stored_ms < earliest_ms:
                yield self._broken(
                    Rule.NOT_BEFORE,
                    life,
                    f"{earliest_ms} or later",
                    f"{arrival}, {earliest_ms - arrival.stored_ms} ms before",
                    [arrival],
                )

    def _lost(self, life: Life, stored: list[Attempt]) -> Iterator[Broken]:
        if self._all_gone(life) and self.must_arrive(life):
            due_ms = min(one.latest_ms for one in stored)
            yield self._broken(
                Rule.NOT_LOST,
                life,
                f"an arrival: acknowledged, due {due_ms:.0f}",
                f"none until {self.histories.horizon_ms(stored[0].send.topic)}",
            )

    def _unexplained(self, life: Life) -> Iterator[Broken]:
        """Each arrival by itself: one too many is the business of ONCE.

        One that a power cut undid, or may have, is judged by what had been asked until it was
        seen; what was answered behind the cut may know nothing of it.
        """
        histories, lasting = self.histories, self.histories.lasting(life.arrivals)
        undone = [one for one in life.arrivals if one not in lasting]
        for arrival in undone:
            until_then = as_of(histories, life, arrival.seen)
            if not has_order(histories, until_then, arrival):
                yield self._why_unexplained(until_then, arrival)
        unknown = [one for one in undone if histories.fate(one) is Fate.UNKNOWN]
        possible: list[list[Arrival | None]] = [[one] for one in lasting] or [[None, *unknown]]
        for arrivals in possible:
            if not any(has_order(histories, life, one) for one in arrivals):
                yield self._why_unexplained(life, arrivals[0])

    def _all_gone(self, life: Life) -> bool:
        """Whether it stands nowhere, as far as everybody saw."""
        return all(self.histories.fate(one) is Fate.GONE for one in life.arrivals)

    def _why_unexplained(self, life: Life, arrival: Arrival | None) -> Broken:
        verdicts = [one.verdict for one in life.requests]
        answers = ", ".join(verdicts)
        if arrival is None:
            horizon_ms = self.histories.horizon_ms(life.attempts[0].send.topic)
            if has_order(self.histories, life, None, must_arrive=False):
                expected = f"an arrival: acknowledged, then {answers}"
                return self._broken(Rule.NOT_LOST, life, expected, f"none until {horizon_ms}")
            expected = "an arrival" if "too_late" in verdicts else "an order that explains"
            found = f"no arrival until {horizon_ms}" if "too_late" in verdicts else "none"
            return self._broken(Rule.CANCEL, life, f"{expected}: answered {answers}", found)
        if "cancelled" in verdicts:
            return self._broken(Rule.CANCEL, life, "no arrival: cancelled", str(arrival), [arrival])
        moments = sorted({one.moved_to_ms for one in life.requests if one.moved_to_ms is not None})
        if moments:
            expected = f"it at its new moment {' or '.join(map(str, moments))}"
            found = f"{arrival} for {arrival.deliver_ms or 'no moment'}"
            return self._broken(Rule.RESCHEDULE, life, expected, found, [arrival])
        early = next(self._early(life, life.attempts), None)
        if early is not None:
            return early
        expected = f"an order that explains: answered {answers}"
        return self._broken(Rule.CANCEL, life, expected, str(arrival), [arrival])

    def _broken(
        self,
        rule: Rule,
        life: Life,
        expected: str,
        found: str,
        arrivals: Iterable[Arrival] = (),
    ) -> Broken:
        marks: list[Mark | None] = []
        for attempt in life.attempts:
            marks += [attempt.sent, attempt.answered]
        for request in life.requests:
            marks += [request.asked, request.answered]
        marks += [one.seen for one in arrivals or life.arrivals]
        return Broken(
            rule=rule,
            message_id=life.message_id,
            expected=expected,
            found=found,
            lines=tuple(self.histories.place(one) for one in marks if one is not None),
        )


def _queue(attempt: Attempt) -> int | None:
    return attempt.send.queue if attempt.ack is None else attempt.ack.queue


def _offset(attempt: Attempt) -> int | None:
    """The queue offset of a message without a moment; None: it is not known."""
    if attempt.ack is None or attempt.send.is_delayed or attempt.ack.deliver_ms is not None:
        return None
    return attempt.ack.offset


def _destination(attempt: Attempt) -> str:
    queue, offset = _queue(attempt), _offset(attempt)
    place = attempt.send.topic if queue is None else f"{attempt.send.topic}/{queue}"
    return place if offset is None else f"{place}@{offset}"
