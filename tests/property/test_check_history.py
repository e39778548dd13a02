"""Histories of a tiny broker that keeps its promises are clean; one event changed is found."""

from __future__ import annotations

from typing import Literal, TypeVar

import attrs
import msgspec
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from timermq.client.history import (
    Ack,
    Cancel,
    Deliver,
    Event,
    Refused,
    Reschedule,
    Send,
    Verdict,
)
from timermq.simulator.rules.broken import Rule
from timermq.simulator.rules.check import Report, check
from tiny_broker import UNSYNCED_MS, Asked, Cut, Planned, TinyBroker

T = TypeVar("T", bound=Event)


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


cuts = st.builds(Cut, st.integers(80, 450), st.integers(0, UNSYNCED_MS))


def _run(plan: list[Planned], lateness_ms: int) -> list[Event]:
    return TinyBroker(lateness_ms).run(plan)


histories = st.builds(_run, plans, st.integers(0, 3))
few = settings(max_examples=25)


def judge(events: list[Event]) -> Report:
    """The report on one file."""
    return check({"h": enumerate(events, start=2)})


def rules_of(events: list[Event]) -> set[Rule]:
    """The rules that a history breaks, each once."""
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
def test_a_message_without_a_producer(events: list[Event], data: st.DataObject) -> None:
    """An id that was not sent is found."""
    one = pick(events, Deliver, data)

    assert Rule.UNSENT in rules_of(
        changed(events, one, msgspec.structs.replace(one, message_id="other"))
    )


@few
@given(histories, st.data())
def test_a_message_elsewhere(events: list[Event], data: st.DataObject) -> None:
    """A message that appears on another topic is found."""
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
    """A gap in the offsets of a queue is found."""
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
