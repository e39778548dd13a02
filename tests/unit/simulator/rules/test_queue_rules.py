"""Order at one moment, and offsets."""

from __future__ import annotations

from typing import Literal

import pytest

from story import Story, broken
from timermq.client.history import Crash, Fault, Skip, Start
from timermq.simulator.rules.broken import Rule

DUE_MS = 5_000


def arrived(story: Story, *ids: str, deliver_ms: int | None = DUE_MS) -> Story:
    """The messages arrive in this order, all at their moment."""
    for offset, one in enumerate(ids):
        story.arrive(one, offset, stored_ms=DUE_MS, deliver_ms=deliver_ms)
    return story.end()


def test_one_after_the_other() -> None:
    """A message that was sent after another was acknowledged stands behind it."""

    def sent() -> Story:
        return Story().sent("M", deliver_ms=DUE_MS).sent("N", deliver_ms=DUE_MS)

    assert [] == broken(arrived(sent(), "M", "N"))
    assert [(Rule.ORDER, "N")] == broken(arrived(sent(), "N", "M"))


def test_other_moments_have_no_order() -> None:
    """The order of sending counts at equal time only."""
    story = Story().sent("M", deliver_ms=DUE_MS).sent("N", deliver_ms=DUE_MS - 1)

    assert [] == broken(arrived(story, "N", "M"))


def test_at_the_same_time() -> None:
    """Two sends that overlap have no order; two of one request have."""

    def overlapping(*ids: str) -> Story:
        story = Story().send("M", deliver_ms=DUE_MS).send("N", deliver_ms=DUE_MS)
        return arrived(story.ack("M").ack("N"), *ids)

    def together(*ids: str) -> Story:
        return arrived(Story().sent("M", "N", deliver_ms=DUE_MS), *ids)

    assert [] == broken(overlapping("M", "N"))
    assert [] == broken(overlapping("N", "M"))
    assert [] == broken(together("M", "N"))
    assert [(Rule.ORDER, "N")] == broken(together("N", "M"))


@pytest.mark.parametrize("is_repaired", [False, True])
def test_what_a_power_cut_took_from_the_middle_is_delivered_behind(is_repaired: bool) -> None:
    """A repair keeps what stands behind it; a start would have ended the log there."""
    story = Story().tell(Start(at_ms=0, who="n", flush="ASYNC_FLUSH"))
    story.sent("M", deliver_ms=DUE_MS).sent("N", deliver_ms=DUE_MS)
    story.tell(Crash(at_ms=DUE_MS + 10, who="n", kind="power"))
    if is_repaired:
        story.tell(Fault(at_ms=DUE_MS + 1_000, who="n", kind="repair"))
    story.at(DUE_MS + 5_000)
    story.arrive("N", 1, stored_ms=DUE_MS).arrive("M", 2, stored_ms=DUE_MS + 2_000).end()

    assert ([] if is_repaired else [(Rule.ORDER, "N")]) == broken(story)


def test_producers_have_no_order_among_each_other() -> None:
    """Only the messages of one are in its order."""
    first, second = Story().sent("M", deliver_ms=DUE_MS), Story(who="q", now_ms=2_000)

    assert [] == broken(first, arrived(second.sent("N", deliver_ms=DUE_MS), "N", "M"))


def test_a_moment_that_may_have_been_past() -> None:
    """A message that was acknowledged at its moment or later may have meant now: a later moment."""

    def story(acknowledged_ms: int) -> Story:
        story = Story().sent("M", deliver_ms=DUE_MS).send("N", deliver_ms=DUE_MS)
        story.at(acknowledged_ms).ack("N", deliver_ms=DUE_MS).at(DUE_MS + 10)
        return story.arrive("N", 0).arrive("M", 1).end()

    assert [] == broken(story(DUE_MS))
    assert [(Rule.ORDER, "N")] == broken(story(DUE_MS - 1))


def test_what_was_moved_has_a_new_place() -> None:
    """A moved message stands as if it had been sent when it was moved."""
    story = Story().sent("M", deliver_ms=DUE_MS - 1).sent("N", deliver_ms=DUE_MS)

    assert [] == broken(arrived(story.move("M", DUE_MS), "N", "M"))


def test_without_a_moment() -> None:
    """Plain messages stand in the order of sending too."""
    story = Story().sent("M").sent("N", offset=1)

    assert [(Rule.PLACE, "M"), (Rule.PLACE, "N"), (Rule.ORDER, "N")] == broken(
        arrived(story, "N", "M", deliver_ms=None)
    )


def test_a_gap() -> None:
    """Between the first and the last that was seen no offset is missing."""

    def story(second_offset: int, *, drained: bool = True) -> Story:
        story = Story().sent("M", "N", deliver_ms=DUE_MS).arrive("M", 3, stored_ms=DUE_MS)
        return story.arrive("N", second_offset, stored_ms=DUE_MS).end(drained=drained)

    assert [] == broken(story(4))
    assert [(Rule.OFFSETS, "N")] == broken(story(5))
    assert [] == broken(story(5, drained=False))


def test_a_queue_that_begins_behind_a_power_cut() -> None:
    """Its older messages were cleaned, the last one taken: that offset is not given out again."""

    def story(
        flush: Literal["SYNC_FLUSH", "ASYNC_FLUSH"], *again: str, group: str = "late"
    ) -> Story:
        story = Story(group="early").tell(Start(at_ms=0, who="n", flush=flush))
        story.sent("M", "N", deliver_ms=DUE_MS).arrive("M", 3, stored_ms=DUE_MS)
        story.tell(Crash(at_ms=story.now_ms, who="n", kind="power")).at(2 * DUE_MS).reader(group)
        for one in again:
            story.arrive(one, 3, stored_ms=DUE_MS)
        return story.arrive("N", 5).end()

    assert [] == broken(story("ASYNC_FLUSH"))
    broken_so = [(Rule.OFFSETS, "N")]
    assert broken_so == broken(story("SYNC_FLUSH")), "a power cut takes nothing"
    assert broken_so == broken(story("ASYNC_FLUSH", "M")), "it begins before"
    assert broken_so == broken(story("ASYNC_FLUSH", group="early")), "who read on saw no beginning"


def test_a_reader_of_nothing_has_seen_that_a_queue_begins_behind_a_power_cut() -> None:
    """All that it would have seen is cleaned; it began behind the cut, and says so."""

    def story(start_ms: int | None) -> Story:
        story = Story(group="early").tell(Start(at_ms=0, who="n", flush="ASYNC_FLUSH"))
        story.sent("M", "N", deliver_ms=DUE_MS).arrive("M", 3, stored_ms=DUE_MS)
        acts: list[Start | Crash] = [Crash(at_ms=2 * DUE_MS, who="n", kind="power")]
        if start_ms is not None:
            acts.append(Start(at_ms=start_ms, who="c"))
        for act in sorted(acts, key=lambda one: one.at_ms):
            story.tell(act)
        return story.at(3 * DUE_MS).arrive("N", 5).reader("late").end()

    assert [] == broken(story(2 * DUE_MS + 1))
    assert [(Rule.OFFSETS, "N")] == broken(story(2 * DUE_MS - 1)), "it began before the cut"
    assert [(Rule.OFFSETS, "N")] == broken(story(None)), "its beginning is not known"


def test_two_at_one_place() -> None:
    """An offset has one message."""
    story = Story().sent("M", "N", deliver_ms=DUE_MS).arrive("M", 0, stored_ms=DUE_MS)

    assert [(Rule.OFFSETS, "N")] == broken(story.arrive("N", 0, stored_ms=DUE_MS).end())


@pytest.mark.parametrize(("offset", "is_told"), [(10, True), (8, True), (3, False), (11, False)])
def test_a_queue_that_lost_its_end_says_which_offsets_it_skips(offset: int, is_told: bool) -> None:
    """Damage has taken what told where it had ended: none is given out twice, some never are."""
    story = Story().sent("M", "N", deliver_ms=DUE_MS).arrive("M", 3, stored_ms=DUE_MS)
    story.tell(Skip(at_ms=DUE_MS, who="n", topic="T", queue=0, offset=offset))
    story.arrive("N", 10, stored_ms=DUE_MS).end()

    assert ([] if is_told else [(Rule.OFFSETS, "N")]) == broken(story)
