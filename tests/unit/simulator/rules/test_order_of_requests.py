"""Cancels and moves: answers that some order explains, and answers that none does."""

from __future__ import annotations

from typing import Literal

import pytest

from story import Story, VerdictName, broken, judge
from timermq.client.history import ClockStep, Crash, Start
from timermq.simulator.rules.broken import Rule

DUE_MS = 5_000
NEW_MS = 8_000


def waiting() -> Story:
    """A message that waits for DUE_MS."""
    return Story().sent("M", deliver_ms=DUE_MS)


# -- one request -----------------------------------------------------------------------------


def test_cancelled() -> None:
    """What is cancelled never arrives."""
    assert [] == broken(waiting().cancel("M", "cancelled").end())
    assert [(Rule.CANCEL, "M")] == broken(
        waiting().cancel("M", "cancelled").arrive("M", 0, stored_ms=DUE_MS).end()
    )


def test_too_late() -> None:
    """What is too late to cancel has arrived."""
    arrived = waiting().at(DUE_MS + 10).cancel("M", "too_late")

    assert [] == broken(arrived.arrive("M", 0, stored_ms=DUE_MS).end())
    assert [(Rule.CANCEL, "M")] == broken(waiting().at(DUE_MS + 10).cancel("M", "too_late").end())


def test_too_late_before_it_arrived() -> None:
    """``too_late`` is true when it is said: a message stored afterwards was not there."""
    story = waiting().at(DUE_MS - 100).cancel("M", "too_late")

    assert [(Rule.CANCEL, "M")] == broken(story.arrive("M", 0, stored_ms=DUE_MS).end())


def test_too_late_where_no_observer_looked() -> None:
    """Without an observer who saw everything its arrival may be unseen."""
    story = waiting().at(DUE_MS + 10).cancel("M", "too_late")

    assert [] == broken(story.end(drained=False))


def test_not_found() -> None:
    """An acknowledged message that waits is found."""
    assert [(Rule.CANCEL, "M")] == broken(
        waiting().cancel("M", "not_found").arrive("M", 0, stored_ms=DUE_MS).end()
    )
    assert [] == broken(Story().cancel("M", "not_found").sent("M", deliver_ms=DUE_MS))
    assert [] == broken(Story().send("M").unknown("M").cancel("M", "not_found").end())


@pytest.mark.parametrize(
    ("later_ms", "key", "is_explained"),
    [(DUE_MS + 10, "K", True), (DUE_MS + 10, "", False), (DUE_MS - 10, "K", False)],
    ids=["behind its moment", "by its id", "before its moment"],
)
def test_not_found_by_a_key_after_it_was_cancelled(
    later_ms: int, key: str, is_explained: bool
) -> None:
    """Its record, which has the key, may be cleaned when its moment is over; its delete stays."""
    story = Story().send("M", deliver_ms=DUE_MS, keys=("K",)).ack("M", deliver_ms=DUE_MS)
    story.cancel("M", "cancelled").at(later_ms)
    story.answer(story.ask_cancel("" if key else "M", key=key), "not_found", message_id="M")

    assert ([] if is_explained else [(Rule.CANCEL, "M")]) == broken(story.end())


def test_not_found_after_it_arrived() -> None:
    """What has arrived may have been cleaned away."""
    story = waiting().arrive("M", 0, stored_ms=DUE_MS).cancel("M", "not_found")

    assert [] == broken(story.end())


@pytest.mark.parametrize("arrives", [True, False])
def test_a_cancel_without_an_answer(arrives: bool) -> None:
    """It may have been done or not."""
    story = waiting().cancel("M", "unknown")
    if arrives:
        story.arrive("M", 0, stored_ms=DUE_MS)

    assert [] == broken(story.end())


def test_a_refused_cancel_does_nothing() -> None:
    """The message arrives as if nothing had been asked."""
    assert [(Rule.NOT_LOST, "M")] == broken(waiting().cancel("M", "refused").end())
    assert [] == broken(waiting().cancel("M", "refused").arrive("M", 0, stored_ms=DUE_MS).end())


def test_a_refused_cancel_makes_nothing_early() -> None:
    """The promise about the moment stays."""
    story = waiting().cancel("M", "refused").arrive("M", 0, stored_ms=DUE_MS - 1)

    assert [(Rule.NOT_BEFORE, "M")] == broken(story.end())


def test_moved_later() -> None:
    """What is moved arrives at the new moment, not at the old one."""
    assert [] == broken(waiting().move("M", NEW_MS).arrive("M", 0, stored_ms=NEW_MS).end())
    assert [(Rule.RESCHEDULE, "M")] == broken(
        waiting().move("M", NEW_MS).arrive("M", 0, stored_ms=DUE_MS).end()
    )


def test_moved_earlier() -> None:
    """A message that arrives for the old moment is recognised by what it carries."""

    def story(deliver_ms: int, stored_ms: int) -> Story:
        story = Story().sent("M", deliver_ms=NEW_MS).move("M", DUE_MS)
        return story.arrive("M", 0, stored_ms=stored_ms, deliver_ms=deliver_ms).end()

    assert [] == broken(story(DUE_MS, NEW_MS))
    assert [(Rule.RESCHEDULE, "M")] == broken(story(NEW_MS, NEW_MS))


def test_moved_and_lost() -> None:
    """What is moved must arrive."""
    assert [(Rule.NOT_LOST, "M")] == broken(waiting().move("M", NEW_MS).end(NEW_MS))
    assert [] == broken(waiting().move("M", NEW_MS).end(NEW_MS - 1))


def test_moved_and_at_both_moments() -> None:
    """That is once too often, and once at the wrong moment."""
    story = waiting().move("M", NEW_MS).arrive("M", 0, stored_ms=DUE_MS)

    assert [(Rule.ONCE, "M"), (Rule.RESCHEDULE, "M")] == broken(
        story.arrive("M", 1, stored_ms=NEW_MS).end()
    )


@pytest.mark.parametrize("stored_ms", [DUE_MS, NEW_MS])
def test_a_move_without_an_answer(stored_ms: int) -> None:
    """Either moment is right; none is not."""
    story = waiting().move("M", NEW_MS, "unknown").arrive("M", 0, stored_ms=stored_ms)

    assert [] == broken(story.end())


def test_a_move_without_an_answer_is_not_early() -> None:
    """Before both moments is too early."""
    story = waiting().move("M", NEW_MS, "unknown").arrive("M", 0, stored_ms=DUE_MS - 1)

    assert [(Rule.CANCEL, "M")] == broken(story.end())


# -- several -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("first", "second", "is_right"),
    [
        ("cancelled", "cancelled", True),
        ("cancelled", "not_found", False),
        ("cancelled", "too_late", False),
        ("unknown", "cancelled", True),
        ("not_found", "cancelled", False),
    ],
)
def test_one_cancel_behind_another(first: VerdictName, second: VerdictName, is_right: bool) -> None:
    """What a verdict says stays true."""
    story = waiting().cancel("M", first).cancel("M", second).end()

    assert ([] if is_right else [(Rule.CANCEL, "M")]) == broken(story)


def test_what_is_cancelled_is_not_moved() -> None:
    """A move behind a cancel finds nothing."""
    wrong = waiting().cancel("M", "cancelled").move("M", NEW_MS).end()

    assert [] == broken(waiting().cancel("M", "cancelled").move("M", NEW_MS, "not_found").end())
    assert [(Rule.CANCEL, "M")] == broken(wrong)


def test_what_is_moved_is_cancelled() -> None:
    """A cancel behind a move takes the moved message back."""
    assert [] == broken(waiting().move("M", NEW_MS).cancel("M", "cancelled").end())


def concurrent(move_first: bool, stored_ms: int | None) -> Story:
    """Two moves that were asked for before either was answered."""
    story = waiting()
    one, other = story.ask_move("M", NEW_MS), story.ask_move("M", NEW_MS + 500)
    answers = [(one, NEW_MS), (other, NEW_MS + 500)]
    for op, deliver_ms in answers if move_first else reversed(answers):
        story.answer(op, "moved", deliver_ms=deliver_ms)
    if stored_ms is not None:
        story.arrive("M", 0, stored_ms=stored_ms, deliver_ms=stored_ms)
    return story.end()


@pytest.mark.parametrize("move_first", [True, False])
@pytest.mark.parametrize("stored_ms", [NEW_MS, NEW_MS + 500])
def test_concurrent_moves(move_first: bool, stored_ms: int) -> None:
    """Either may have been the last, whichever was answered first."""
    assert [] == broken(concurrent(move_first, stored_ms))


def test_concurrent_moves_and_neither_moment() -> None:
    """But one of the two it was."""
    assert [(Rule.RESCHEDULE, "M")] == broken(concurrent(True, DUE_MS))
    assert [(Rule.NOT_LOST, "M")] == broken(concurrent(True, None))


def test_moves_one_after_the_other() -> None:
    """The last of several moves is the one that counts."""
    story = waiting().move("M", NEW_MS).move("M", NEW_MS + 500)

    assert [(Rule.RESCHEDULE, "M")] == broken(
        story.arrive("M", 0, stored_ms=NEW_MS, deliver_ms=NEW_MS).end()
    )


def test_a_cancel_that_races_with_the_arrival() -> None:
    """Asked before and answered after it, both verdicts are possible, each with what follows."""

    def story(verdict: VerdictName, arrives: bool) -> Story:
        story = waiting().at(DUE_MS - 5)
        op = story.ask_cancel("M")
        if arrives:
            story.arrive("M", 0, stored_ms=DUE_MS)
        return story.at(DUE_MS + 10).answer(op, verdict).end()

    assert [] == broken(story("too_late", True))
    assert [] == broken(story("cancelled", False))
    assert [(Rule.CANCEL, "M")] == broken(story("too_late", False))
    assert [(Rule.CANCEL, "M")] == broken(story("cancelled", True))


# -- names, files, clocks ---------------------------------------------------------------------


def test_a_cancel_by_key() -> None:
    """A key means the message that has it."""
    story = Story().send("M", deliver_ms=DUE_MS, keys=("k",)).ack("M")
    story.answer(story.ask_cancel(key="k"), "cancelled")

    assert [(Rule.CANCEL, "M")] == broken(story.arrive("M", 0, stored_ms=DUE_MS).end())


def two_with_one_key() -> Story:
    """Two messages with the key k."""
    story = Story().send("M", "N", deliver_ms=DUE_MS, keys=("k",)).ack("M").ack("N")
    return story.arrive("N", 0, stored_ms=DUE_MS)


def test_a_cancel_by_a_key_of_several() -> None:
    """The answer names the message; without it each may have been meant."""
    named, unnamed = two_with_one_key(), two_with_one_key()
    named.answer(named.ask_cancel(key="k"), "cancelled", message_id="N")
    unnamed.answer(unnamed.ask_cancel(key="k"), "cancelled")

    assert [(Rule.NOT_LOST, "M"), (Rule.CANCEL, "N")] == broken(named.end())
    assert [] == broken(unnamed.end())
    assert 1 == judge(unnamed).ledger["uncertain"]


def undone(cut_ms: int, flush: Literal["ASYNC_FLUSH", "SYNC_FLUSH"]) -> Story:
    """A message that arrived, and a power cut a while later."""
    story = Story().tell(Start(at_ms=0, who="n", flush=flush)).sent("M", deliver_ms=DUE_MS)
    story.arrive("M", 0, stored_ms=DUE_MS).tell(Crash(at_ms=cut_ms, who="n", kind="power"))
    return story.at(cut_ms + 1_000)


def test_a_request_for_what_a_power_cut_undid() -> None:
    """The message waits again, so it can be moved or cancelled: its first arrival is no breach."""
    lost_ms, kept_ms = DUE_MS + 100, DUE_MS + 900

    def moved(cut_ms: int, flush: Literal["ASYNC_FLUSH", "SYNC_FLUSH"]) -> Story:
        return undone(cut_ms, flush).move("M", NEW_MS).arrive("M", 1, stored_ms=NEW_MS).end()

    assert [] == broken(moved(lost_ms, "ASYNC_FLUSH"))
    assert [] == broken(undone(lost_ms, "ASYNC_FLUSH").cancel("M", "cancelled").end())
    assert [] == broken(undone(lost_ms, "ASYNC_FLUSH").cancel("M", "too_late").end())
    for story in (moved(kept_ms, "ASYNC_FLUSH"), moved(lost_ms, "SYNC_FLUSH")):
        assert (Rule.RESCHEDULE, "M") in broken(story)
    kept = undone(kept_ms, "ASYNC_FLUSH").cancel("M", "cancelled").end()
    assert [(Rule.CANCEL, "M")] == broken(kept)


def test_a_verdict_about_what_a_power_cut_undid() -> None:
    """It arrives again where it stood: cancelled is a lie then, moved is none."""
    cut_ms = DUE_MS + 100

    def seen_again(story: Story, stored_ms: int) -> Story:
        return story.reader("late").arrive("M", 0, stored_ms=stored_ms).end()

    moved = undone(cut_ms, "ASYNC_FLUSH").move("M", NEW_MS)
    assert [] == broken(seen_again(moved, NEW_MS))
    cancelled = undone(cut_ms, "ASYNC_FLUSH").cancel("M", "cancelled")
    assert [(Rule.CANCEL, "M")] == broken(seen_again(cancelled, NEW_MS))
    stands = undone(cut_ms, "ASYNC_FLUSH").move("M", NEW_MS)
    assert [(Rule.RESCHEDULE, "M")] == broken(seen_again(stands, DUE_MS))


def test_too_late_for_what_a_power_cut_undid() -> None:
    """It must arrive all the same, unless nothing tells that it is gone."""
    late = undone(DUE_MS + 100, "ASYNC_FLUSH").cancel("M", "too_late")
    assert [] == broken(late.end())
    other = undone(DUE_MS + 100, "ASYNC_FLUSH").cancel("M", "too_late")
    other.sent("N").reader("late").arrive("N", 0).end()
    assert [(Rule.CANCEL, "M")] == broken(other)


def test_a_power_cut_excuses_neither_loss_nor_haste() -> None:
    """What it undid must arrive at the moved moment, and was due when it was first seen."""
    cut_ms = DUE_MS + 100
    moved_and_lost = undone(cut_ms, "ASYNC_FLUSH").move("M", NEW_MS).end()
    assert [(Rule.NOT_LOST, "M")] == broken(moved_and_lost)

    early = Story().tell(Start(at_ms=0, who="n", flush="ASYNC_FLUSH")).sent("M", deliver_ms=DUE_MS)
    early.arrive("M", 0, stored_ms=DUE_MS - 1).tell(Crash(at_ms=cut_ms, who="n", kind="power"))
    early.at(cut_ms + 1_000).move("M", NEW_MS).arrive("M", 1, stored_ms=NEW_MS).end()
    assert [(Rule.NOT_BEFORE, "M")] == broken(early)

    cancelled = Story().tell(Start(at_ms=0, who="n", flush="ASYNC_FLUSH"))
    cancelled.sent("M", deliver_ms=DUE_MS).cancel("M", "cancelled")
    cancelled.arrive("M", 0, stored_ms=DUE_MS).tell(Crash(at_ms=cut_ms, who="n", kind="power"))
    assert [(Rule.CANCEL, "M")] == broken(cancelled.at(cut_ms + 1_000).end())


def test_requests_of_another_process() -> None:
    """Between files the clock says what was before; when it was set, nothing does."""

    def files(*steps: ClockStep) -> tuple[Story, Story]:
        producer = Story().sent("M", deliver_ms=DUE_MS)
        other = Story(who="q", now_ms=2_000).cancel("M", "not_found")
        for step in steps:
            other.tell(step)
        return producer, other.arrive("M", 0, stored_ms=DUE_MS).end()

    assert [(Rule.CANCEL, "M")] == broken(*files())
    assert [] == broken(*files(ClockStep(at_ms=2_500, who="n", by_ms=-1_000)))


def test_requests_for_a_message_that_was_sent_again() -> None:
    """Which of the two was meant is not known: it is counted, and not judged."""
    story = Story().send("M", deliver_ms=DUE_MS).unknown("M").sent("M", deliver_ms=DUE_MS)
    report = judge(story.cancel("M", "cancelled").arrive("M", 0, stored_ms=DUE_MS).end())

    assert report.is_clean
    assert 1 == report.ledger["uncertain"]
