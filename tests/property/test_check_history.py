"""Histories of a tiny broker that keeps its promises are clean; one event changed is found."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Literal, TypeVar

import attrs
import msgspec
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from timermq.cli.check_history.broken import Rule
from timermq.cli.check_history.check import Report, check
from timermq.client.history import (
    Ack,
    Cancel,
    Crash,
    Deliver,
    End,
    Event,
    Refused,
    Reschedule,
    Send,
    Start,
    Unknown,
    Verdict,
)

LAST_MS = 1_000
"""Everything is due by then."""

Kind = Literal["cancel", "move"]
T = TypeVar("T", bound=Event)


@attrs.frozen
class Asked:
    """A cancel or a move: when it takes effect, how long asking and answering take."""

    kind: Kind
    at_ms: int
    before_ms: int
    behind_ms: int
    to_ms: int
    is_answered: bool
    is_done: bool


@attrs.frozen
class Planned:
    """A message: times as for ``Asked``."""

    at_ms: int
    before_ms: int
    behind_ms: int
    deliver_ms: int | None
    """May be past; None: none."""
    is_answered: bool
    is_stored: bool
    requests: tuple[Asked, ...]


_short = st.integers(0, 30)
_moments = st.sampled_from([50, 150, 250, 250, 250, 400])
asked = st.builds(
    Asked,
    st.sampled_from(["cancel", "move"]),
    st.integers(0, 400),
    _short,
    _short,
    st.integers(0, 500),
    st.sampled_from([True, True, True, False]),
    st.booleans(),
)
plans = st.lists(
    st.builds(
        Planned,
        st.integers(0, 200),
        _short,
        _short,
        st.none() | _moments,
        st.sampled_from([True, True, True, False]),
        st.booleans(),
        st.lists(asked, max_size=3).map(tuple),
    ),
    min_size=1,
    max_size=6,
)


@attrs.frozen
class Cut:
    """A power cut, and how much of the time before it is gone."""

    at_ms: int
    lost_ms: int


UNSYNCED_MS = 60
cuts = st.builds(Cut, st.integers(80, 450), st.integers(0, UNSYNCED_MS))


@attrs.define
class _Message:
    message_id: str
    order: int
    moment_ms: int
    """When it is due; of one that was past when it came, when it came."""
    deliver_ms: int | None
    is_gone: bool = False


class TinyBroker:
    """Does one thing at a time, and writes down what everybody sees."""

    def __init__(self, lateness_ms: int, cut: Cut | None = None) -> None:
        self._lateness_ms = lateness_ms
        self._cut = cut
        self._since_ms = 0
        """Nothing is stored before it: it came back then."""
        self._seen: list[tuple[int, Event]] = []
        self._waiting: dict[str, _Message] = {}
        self._gone: set[str] = set()
        self._arrived: set[str] = set()
        self._count = itertools.count()
        self._standing: list[Deliver] = []
        self._saved: tuple[dict[str, _Message], set[str], set[str], list[Deliver]] = (
            {},
            set(),
            set(),
            [],
        )
        """What of the four above is on the disk."""

    def run(self, plan: list[Planned]) -> list[Event]:
        """The history of a plan, in the order of the clock."""
        steps: list[tuple[int, int, Callable[[int], None]]] = []
        count = itertools.count()
        for number, one in enumerate(plan):
            steps.append((one.at_ms, next(count), self._sender(f"M{number}", one)))
            steps += [
                (request.at_ms, next(count), self._asker(f"M{number}", request))
                for request in one.requests
            ]
        if self._cut is not None:
            start = Start(at_ms=0, who="n", flush="ASYNC_FLUSH", unsynced_ms=UNSYNCED_MS)
            self._see(-LAST_MS, start)
            steps.append((self._cut.at_ms - self._cut.lost_ms, next(count), self._save))
            steps.append((self._cut.at_ms, next(count), self._lose_power))
        for now_ms, _, step in sorted(steps, key=lambda one: one[:2]):
            self._publish(now_ms)
            step(now_ms)
        self._publish(LAST_MS)
        self._see(2 * LAST_MS, End(at_ms=0, who="c", waited_until_ms=LAST_MS, drained=True))
        if self._cut is not None:
            for stood in self._standing:
                self._see(2 * LAST_MS, msgspec.structs.replace(stood, who="late", group="late"))
            end = End(at_ms=0, who="late", waited_until_ms=LAST_MS, drained=True, group="late")
            self._see(2 * LAST_MS, end)
        in_time = sorted(self._seen, key=lambda one: one[0])
        return [msgspec.structs.replace(event, at_ms=at_ms) for at_ms, event in in_time]

    def _see(self, at_ms: int, event: Event) -> None:
        self._seen.append((at_ms, event))

    def _save(self, _: int) -> None:
        self._saved = (
            dict(self._waiting),
            set(self._gone),
            set(self._arrived),
            list(self._standing),
        )

    def _lose_power(self, now_ms: int) -> None:
        """What was not on the disk is gone, and what was not answered yet never will be."""
        self._waiting, self._gone, self._arrived, self._standing = self._saved
        self._since_ms = now_ms
        seen = [(at_ms, event) for at_ms, event in self._seen if at_ms < now_ms]
        for at_ms, event in self._seen:
            if at_ms >= now_ms and isinstance(event, Ack | Unknown):
                seen.append((at_ms, Unknown(at_ms=0, who="p", message_id=event.message_id)))
            elif at_ms >= now_ms and isinstance(event, Verdict):
                seen.append((at_ms, Verdict(at_ms=0, who="q", op=event.op, verdict="unknown")))
        self._seen = seen
        self._see(now_ms, Crash(at_ms=0, who="n", kind="power"))

    def _publish(self, until_ms: int) -> None:
        """What is due a little before now stands on its topic, the oldest moment first."""
        due = [
            one for one in self._waiting.values() if one.moment_ms + self._lateness_ms < until_ms
        ]
        for one in sorted(due, key=lambda one: (one.moment_ms, one.order)):
            self._arrive(one, max(one.moment_ms + self._lateness_ms, self._since_ms))

    def _arrive(self, one: _Message, stored_ms: int) -> None:
        self._waiting.pop(one.message_id, None)
        self._arrived.add(one.message_id)
        arrival = Deliver(
            at_ms=0,
            who="c",
            message_id=one.message_id,
            topic="T",
            queue=0,
            offset=len(self._standing),
            stored_ms=stored_ms,
            deliver_ms=one.deliver_ms,
            received_ms=stored_ms,
        )
        self._standing.append(arrival)
        self._see(stored_ms + 1, arrival)

    def _sender(self, message_id: str, plan: Planned) -> Callable[[int], None]:
        def send(now_ms: int) -> None:
            deliver_ms = plan.deliver_ms
            order = next(self._count)
            asked = Send(
                at_ms=0, who="p", message_id=message_id, topic="T", deliver_ms=deliver_ms, op=order
            )
            self._see(now_ms - plan.before_ms - 1, asked)
            if plan.is_answered or plan.is_stored:
                message = _Message(message_id, order, max(deliver_ms or 0, now_ms), deliver_ms)
                if deliver_ms is None:
                    self._arrive(message, now_ms)
                else:
                    self._waiting[message_id] = message
            answer: Event = Unknown(at_ms=0, who="p", message_id=message_id)
            if plan.is_answered:
                offset = order
                if deliver_ms is None:
                    (offset,) = [
                        seen.offset
                        for _, seen in self._seen
                        if isinstance(seen, Deliver) and seen.message_id == message_id
                    ]
                answer = Ack(
                    at_ms=0,
                    who="p",
                    message_id=message_id,
                    queue=0,
                    offset=offset,
                    deliver_ms=deliver_ms,
                )
            self._see(now_ms + plan.behind_ms + 1, answer)

        return send

    def _asker(self, message_id: str, plan: Asked) -> Callable[[int], None]:
        def ask(now_ms: int) -> None:
            op = next(self._count)
            to_ms = now_ms + plan.to_ms
            question = (
                Cancel(at_ms=0, who="q", op=op, topic="T", message_id=message_id)
                if plan.kind == "cancel"
                else Reschedule(
                    at_ms=0, who="q", op=op, topic="T", message_id=message_id, deliver_ms=to_ms
                )
            )
            self._see(now_ms - plan.before_ms - 1, question)
            verdict: Literal["cancelled", "moved", "too_late", "not_found", "unknown"] = "unknown"
            if plan.is_answered or plan.is_done:
                verdict = self._decide(message_id, plan.kind, to_ms)
            answer = Verdict(
                at_ms=0,
                who="q",
                op=op,
                verdict=verdict if plan.is_answered else "unknown",
                deliver_ms=to_ms if verdict == "moved" and plan.is_answered else None,
            )
            self._see(now_ms + plan.behind_ms + 1, answer)

        return ask

    def _decide(
        self, message_id: str, kind: Kind, to_ms: int
    ) -> Literal["cancelled", "moved", "too_late", "not_found"]:
        if message_id in self._arrived:
            return "too_late"
        if message_id in self._gone:
            return "cancelled" if kind == "cancel" else "not_found"
        if message_id not in self._waiting:
            return "not_found"
        if kind == "cancel":
            self._gone.add(message_id)
            del self._waiting[message_id]
            return "cancelled"
        self._waiting[message_id] = _Message(message_id, next(self._count), to_ms, to_ms)
        return "moved"


def _run(plan: list[Planned], lateness_ms: int) -> list[Event]:
    return TinyBroker(lateness_ms).run(plan)


histories = st.builds(_run, plans, st.integers(0, 3))
few = settings(max_examples=25)


def judge(events: list[Event]) -> Report:
    """The report on one file."""
    return check({"h": enumerate(events, start=2)})


def rules_of(events: list[Event]) -> set[Rule]:
    """What is broken."""
    return {one.rule for one in judge(events).broken}


def changed(events: list[Event], old: Event, *new: Event) -> list[Event]:
    """The history with one event replaced."""
    at = next(at for at, event in enumerate(events) if event is old)
    return [*events[:at], *new, *events[at + 1 :]]


def pick(events: list[Event], kind: type[T], data: st.DataObject) -> T:
    """One of the events of a kind."""
    found = [event for event in events if isinstance(event, kind)]
    assume(found)
    return data.draw(st.sampled_from(found))


@settings(max_examples=100)
@given(histories)
def test_a_broker_that_keeps_its_promises(events: list[Event]) -> None:
    """Whatever is sent, cancelled, moved, and left without an answer: nothing is found."""
    assert () == judge(events).broken


@settings(max_examples=200)
@given(plans, st.integers(0, 3), cuts)
def test_a_broker_that_loses_power(plan: list[Planned], lateness_ms: int, cut: Cut) -> None:
    """What it forgets was young enough: nothing is found."""
    assert () == judge(TinyBroker(lateness_ms, cut).run(plan)).broken


@few
@given(plans, st.integers(10, UNSYNCED_MS), st.data())
def test_a_message_gone_behind_a_power_cut(
    plan: list[Planned], lost_ms: int, data: st.DataObject
) -> None:
    """Seen just before the cut and never again, it is missed, or a verdict behind the cut lies."""
    cut = Cut(300, lost_ms)
    due_ms = data.draw(st.integers(cut.at_ms - lost_ms + 1, cut.at_ms - 2))
    requests = data.draw(st.lists(asked, max_size=2)).copy()
    later = [
        attrs.evolve(one, at_ms=cut.at_ms + 1 + one.at_ms, before_ms=0, is_answered=True)
        for one in requests
    ]
    first = Planned(0, 1, 1, 0, True, True, ())
    gone = Planned(0, 1, 1, due_ms, True, True, tuple(later))
    events = TinyBroker(0, cut).run([first, gone, *plan])
    sights = [event for event in events if isinstance(event, Deliver) and event.message_id == "M1"]
    assume(any(event.at_ms > cut.at_ms for event in sights))
    rest = [
        event
        for event in events
        if not any(event is one for one in sights) or event.at_ms < cut.at_ms
    ]

    assert rules_of(rest) & {Rule.NOT_LOST, Rule.CANCEL}


@few
@given(histories, st.data())
def test_a_message_gone(events: list[Event], data: st.DataObject) -> None:
    """Without its arrival an acknowledged message is lost, or ``too_late`` a lie."""
    one = pick(events, Deliver, data)
    acknowledged = {event.message_id for event in events if isinstance(event, Ack)}
    unanswered = {
        event.op for event in events if isinstance(event, Verdict) and event.verdict == "unknown"
    }
    asked = [event for event in events if isinstance(event, Cancel | Reschedule)]
    assume(one.message_id in acknowledged)
    assume(
        not any(event.message_id == one.message_id and event.op in unanswered for event in asked)
    )

    assert rules_of(changed(events, one)) & {Rule.NOT_LOST, Rule.CANCEL}


@few
@given(histories, st.data())
def test_a_message_early(events: list[Event], data: st.DataObject) -> None:
    """Stored before everything that was asked for, it is early whatever was answered."""
    one = pick(events, Deliver, data)
    assume(one.deliver_ms is not None)
    moments = [
        event.deliver_ms
        for event in events
        if isinstance(event, Send | Reschedule) and event.message_id == one.message_id
    ]
    early_ms = min(moment for moment in moments if moment is not None) - 1
    wrong = msgspec.structs.replace(one, stored_ms=early_ms)

    assert rules_of(changed(events, one, wrong)) & {Rule.NOT_BEFORE, Rule.RESCHEDULE, Rule.CANCEL}


@few
@given(histories, st.data())
def test_a_message_twice(events: list[Event], data: st.DataObject) -> None:
    """A second place is found."""
    one = pick(events, Deliver, data)
    last = max(event.offset for event in events if isinstance(event, Deliver))
    again = msgspec.structs.replace(one, offset=last + 1)

    assert Rule.ONCE in rules_of(changed(events, one, one, again))


@few
@given(histories, st.data())
def test_a_message_of_nobody(events: list[Event], data: st.DataObject) -> None:
    """An id that was not sent is found."""
    one = pick(events, Deliver, data)

    assert Rule.UNSENT in rules_of(
        changed(events, one, msgspec.structs.replace(one, message_id="other"))
    )


@few
@given(histories, st.data())
def test_a_message_elsewhere(events: list[Event], data: st.DataObject) -> None:
    """Another topic is found."""
    one = pick(events, Deliver, data)

    assert Rule.PLACE in rules_of(changed(events, one, msgspec.structs.replace(one, topic="Other")))


@few
@given(histories, st.data())
def test_an_acknowledgement_that_was_a_refusal(events: list[Event], data: st.DataObject) -> None:
    """A refused message that arrives is found."""
    one = pick(events, Ack, data)
    arrived = {event.message_id for event in events if isinstance(event, Deliver)}
    assume(one.message_id in arrived)
    refusal = Refused(at_ms=one.at_ms, who=one.who, message_id=one.message_id)

    assert Rule.UNSENT in rules_of(changed(events, one, refusal))


@few
@given(histories, st.data(), st.sampled_from(["cancelled", "too_late"]))
def test_another_verdict(
    events: list[Event], data: st.DataObject, other: Literal["cancelled", "too_late"]
) -> None:
    """Cancelled and arrived, too late and not there: found, whatever else was asked."""
    one = pick(events, Verdict, data)
    question = next(
        event for event in events if isinstance(event, Cancel | Reschedule) and event.op == one.op
    )
    assume(isinstance(question, Cancel))
    arrived = {event.message_id for event in events if isinstance(event, Deliver)}
    assume((question.message_id in arrived) == (other == "cancelled"))
    wrong = msgspec.structs.replace(one, verdict=other)

    assert Rule.CANCEL in rules_of(changed(events, one, wrong))


@few
@given(st.integers(2, 5), st.data())
def test_two_places_exchanged(count: int, data: st.DataObject) -> None:
    """Messages of one moment that were sent one after the other are found in the wrong order."""
    plan = [Planned(10 * at, 1, 1, 250, True, True, ()) for at in range(count)]
    events = TinyBroker(0).run(plan)
    arrivals = [event for event in events if isinstance(event, Deliver)]
    first, second = data.draw(st.permutations(arrivals))[:2]
    wrong = changed(events, first, msgspec.structs.replace(first, offset=second.offset))
    wrong = changed(wrong, second, msgspec.structs.replace(second, offset=first.offset))

    assert set() == rules_of(events)
    assert {Rule.ORDER} == rules_of(wrong)


@few
@given(histories, st.data())
def test_an_offset_skipped(events: list[Event], data: st.DataObject) -> None:
    """A gap is found."""
    last = max(
        (event for event in events if isinstance(event, Deliver)),
        key=lambda one: one.offset,
        default=None,
    )
    assume(last is not None and last.offset > 0)
    assert last is not None
    wrong = msgspec.structs.replace(last, offset=last.offset + data.draw(st.integers(1, 3)))

    assert Rule.OFFSETS in rules_of(changed(events, last, wrong))


@few
@given(histories, st.data())
def test_an_offset_used_twice(events: list[Event], data: st.DataObject) -> None:
    """Two messages at one place are found."""
    arrivals = [event for event in events if isinstance(event, Deliver)]
    assume(len(arrivals) > 1)
    one, other = data.draw(st.permutations(arrivals))[:2]
    wrong = msgspec.structs.replace(one, offset=other.offset)

    assert Rule.OFFSETS in rules_of(changed(events, one, wrong))
