"""For each promise about a message: a history that just keeps it, and one that breaks it alone."""

from __future__ import annotations

import pytest

from story import Story, broken, judge
from timermq.client.history import ClockStep, Crash, Deliver, End, Fault, Send, Start
from timermq.simulator.rules.broken import Rule

DUE_MS = 5_000


def test_a_message_on_time_is_clean() -> None:
    """Sent, acknowledged, stored in its very millisecond, seen, waited for."""
    story = Story().sent("M", deliver_ms=DUE_MS).arrive("M", 0, stored_ms=DUE_MS).end()

    assert [] == broken(story)


def test_lost() -> None:
    """An acknowledged message that is due and not there is lost."""
    assert [(Rule.NOT_LOST, "M")] == broken(Story().sent("M", deliver_ms=DUE_MS).end(DUE_MS))
    assert [] == broken(Story().sent("M", deliver_ms=DUE_MS).end(DUE_MS - 1))


def test_lost_without_a_moment() -> None:
    """A message without a moment is due when it is acknowledged."""
    story = Story().sent("M")
    acknowledged_ms = story.events[-1].at_ms

    assert [(Rule.NOT_LOST, "M")] == broken(story.end(acknowledged_ms))
    assert [] == broken(Story().sent("M").end(acknowledged_ms - 1))


@pytest.mark.parametrize("outcome", ["refused", "unknown", "no answer"])
def test_what_is_not_acknowledged_may_be_missing(outcome: str) -> None:
    """Refused or unanswered, it need not arrive."""
    story = Story().send("M", deliver_ms=DUE_MS)
    if outcome == "refused":
        story.refused("M")
    elif outcome == "unknown":
        story.unknown("M")

    assert [] == broken(story.end())


def test_nothing_is_lost_where_no_observer_saw_everything() -> None:
    """Without an end that is drained, or with one of other topics, nothing is missing."""
    other = End(at_ms=9_000, who="c", waited_until_ms=9_000, drained=True, topics=("Other",))

    assert [] == broken(Story().sent("M", deliver_ms=DUE_MS).end(drained=False))
    assert [] == broken(Story().sent("M", deliver_ms=DUE_MS).tell(other))


def test_a_group_has_seen_what_its_earliest_member_has() -> None:
    """Of two members each sees its queues only; another group sees all by itself."""

    def end(group: str, until_ms: int) -> End:
        return End(at_ms=9_000, who="c", waited_until_ms=until_ms, drained=True, group=group)

    both = Story().sent("M", deliver_ms=DUE_MS).tell(end("g", DUE_MS - 1)).tell(end("g", 9_000))
    alone = Story().sent("M", deliver_ms=DUE_MS).tell(end("g", DUE_MS - 1)).tell(end("h", 9_000))

    assert [] == broken(both)
    assert [(Rule.NOT_LOST, "M")] == broken(alone)


def test_early() -> None:
    """A millisecond before its moment is too early, also for a send without an answer."""
    early = Story().sent("M", deliver_ms=DUE_MS).arrive("M", 0, stored_ms=DUE_MS - 1).end()
    unanswered = Story().send("M", deliver_ms=DUE_MS).unknown("M")

    assert [(Rule.NOT_BEFORE, "M")] == broken(early)
    assert [(Rule.NOT_BEFORE, "M")] == broken(unanswered.arrive("M", 0, stored_ms=DUE_MS - 1))


def test_early_for_a_delay() -> None:
    """A delay counts from the send where the broker names no moment, else from its answer."""

    def story(stored_ms: int, answered_ms: int | None) -> Story:
        send = Send(at_ms=1_000, who="p", message_id="M", topic="T", delay_ms=500)
        return (
            Story().tell(send).ack("M", deliver_ms=answered_ms).arrive("M", 0, stored_ms=stored_ms)
        )

    assert [] == broken(story(1_500, None))
    assert [(Rule.NOT_BEFORE, "M")] == broken(story(1_499, None))
    assert [] == broken(story(1_501, 1_501))
    assert [(Rule.NOT_BEFORE, "M")] == broken(story(1_500, 1_501))


def test_twice() -> None:
    """Two places are two arrivals; the same place again is a consumer's redelivery."""
    story = Story().sent("M", deliver_ms=DUE_MS).arrive("M", 0, stored_ms=DUE_MS)
    twice = Story().sent("M", deliver_ms=DUE_MS).arrive("M", 0, stored_ms=DUE_MS)

    assert [] == broken(story.arrive("M", 0, stored_ms=DUE_MS).end())
    assert [(Rule.ONCE, "M")] == broken(twice.arrive("M", 1, stored_ms=DUE_MS).end())


def test_sent_again_after_no_answer() -> None:
    """A second send with the same id may store a second message, and no third."""

    def story(arrivals: int) -> Story:
        story = Story().send("M", deliver_ms=DUE_MS).unknown("M").sent("M", deliver_ms=DUE_MS)
        for offset in range(arrivals):
            story.arrive("M", offset, stored_ms=DUE_MS)
        return story.end()

    assert [(Rule.NOT_LOST, "M")] == broken(story(0))
    assert [] == broken(story(1))
    assert [] == broken(story(2))
    assert [(Rule.ONCE, "M")] == broken(story(3))


def test_never_sent() -> None:
    """What no file sent does not arrive, unless others send as well."""
    story = Story().arrive("M", 0).end()

    assert [(Rule.UNSENT, "M")] == broken(story)
    assert judge(story, others_send=True).is_clean


def test_refused() -> None:
    """What was refused does not arrive."""
    assert [(Rule.UNSENT, "M")] == broken(Story().send("M").refused("M").arrive("M", 0))
    assert not judge(Story().send("M").refused("M").arrive("M", 0), others_send=True).is_clean


@pytest.mark.parametrize(("topic", "queue"), [("Other", 0), ("T", 1)])
def test_another_place(topic: str, queue: int) -> None:
    """It arrives on its topic and queue."""
    story = Story().sent("M", deliver_ms=DUE_MS)
    story.arrive("M", 0, stored_ms=DUE_MS, topic=topic, queue=queue)

    assert [(Rule.PLACE, "M")] == broken(story)


def test_the_acknowledged_offset() -> None:
    """Of a message without a moment the acknowledgement names the place itself."""
    assert [] == broken(Story().sent("M", offset=7).arrive("M", 7))
    assert [(Rule.PLACE, "M")] == broken(Story().sent("M", offset=7).arrive("M", 8))


def power_cut(flush: str, *, acknowledged_before_ms: int) -> Story:
    """A message that is lost, and a power cut so long after its acknowledgement."""
    flushes = {"SYNC_FLUSH": Start(at_ms=0, who="n", flush="SYNC_FLUSH")}
    start = flushes.get(flush, Start(at_ms=0, who="n", flush="ASYNC_FLUSH"))
    story = Story().tell(start).sent("M", deliver_ms=DUE_MS)
    at_ms = story.events[-1].at_ms + acknowledged_before_ms
    return story.tell(Crash(at_ms=at_ms, who="n", kind="power")).end()


def test_a_power_cut_takes_what_is_not_synced() -> None:
    """With ASYNC_FLUSH what is younger than half a second may be lost; with SYNC_FLUSH nothing."""
    assert [] == broken(power_cut("ASYNC_FLUSH", acknowledged_before_ms=500))
    assert [(Rule.NOT_LOST, "M")] == broken(power_cut("ASYNC_FLUSH", acknowledged_before_ms=501))
    assert [(Rule.NOT_LOST, "M")] == broken(power_cut("SYNC_FLUSH", acknowledged_before_ms=1))


@pytest.mark.parametrize("has_begun", [False, True])
def test_a_power_cut_behind_a_kill_takes_what_that_had_not_synced(has_begun: bool) -> None:
    """However long ago the kill was, if no broker has begun to serve since: a start syncs all."""
    story = Story().tell(Start(at_ms=0, who="n", flush="ASYNC_FLUSH"))
    story.at(4_600).sent("M", deliver_ms=9_000).tell(Crash(at_ms=5_000, who="n", kind="kill"))
    if has_begun:
        story.tell(Fault(at_ms=14_000, who="n", kind="start"))
    story.tell(Crash(at_ms=15_000, who="n", kind="power")).at(15_000).end()

    assert ([(Rule.NOT_LOST, "M")] if has_begun else []) == broken(story)


def test_an_answer_written_down_behind_a_power_cut_may_be_from_before() -> None:
    """It was asked for before the cut; who sends several waits for the last of the answers."""

    def story(*, asked_behind: bool) -> Story:
        begun, cut = Story(), Crash(at_ms=5_000, who="n", kind="power")
        begun.tell(Start(at_ms=0, who="n", flush="ASYNC_FLUSH"))
        if asked_behind:
            return begun.tell(cut).sent("M", deliver_ms=9_000).end()
        return begun.send("M", deliver_ms=9_000).tell(cut).at(6_000).ack("M").end()

    assert [] == broken(story(asked_behind=False))
    assert [(Rule.NOT_LOST, "M")] == broken(story(asked_behind=True))


def test_an_answer_in_a_file_of_its_own_may_be_from_before_a_power_cut() -> None:
    """Between files the clock says what was asked before it."""

    def stories(asked_ms: int) -> tuple[Story, Story]:
        broker = Story().tell(Start(at_ms=0, who="n", flush="ASYNC_FLUSH"))
        broker.tell(Crash(at_ms=5_000, who="n", kind="power"))
        client = Story().at(asked_ms).send("M", deliver_ms=9_000).at(6_000).ack("M").end()
        return broker, client

    assert [] == broken(*stories(4_000))
    assert [(Rule.NOT_LOST, "M")] == broken(*stories(5_001))


def test_a_power_cut_takes_arrivals_back() -> None:
    """What was seen just before it may arrive again, and its place may go to another message."""

    def story(flush: str, cut_ms: int) -> Story:
        start = Start(at_ms=0, who="n", flush="ASYNC_FLUSH" if flush == "async" else "SYNC_FLUSH")
        return (
            Story()
            .tell(start)
            .sent("M", "N", deliver_ms=DUE_MS)
            .arrive("M", 0, stored_ms=DUE_MS)
            .tell(Crash(at_ms=cut_ms, who="n", kind="power"))
            .at(cut_ms + 1_000)
            .arrive("N", 0, stored_ms=cut_ms + 900)
            .arrive("N", 0, stored_ms=cut_ms + 900)  # and to another group
            .arrive("M", 1)
            .end()
        )

    assert [] == broken(story("async", DUE_MS + 100))
    assert {Rule.ONCE, Rule.OFFSETS} <= {rule for rule, _ in broken(story("async", DUE_MS + 900))}
    assert {Rule.ONCE, Rule.OFFSETS} <= {rule for rule, _ in broken(story("sync", DUE_MS + 100))}


def cut_after_arrival(*, cut_ms: int = DUE_MS + 100) -> Story:
    """A message that was seen, and a power cut that may have taken it back."""
    story = Story().tell(Start(at_ms=0, who="n", flush="ASYNC_FLUSH")).sent("M", deliver_ms=DUE_MS)
    story.arrive("M", 1, stored_ms=DUE_MS).tell(Crash(at_ms=cut_ms, who="n", kind="power"))
    return story.at(cut_ms + 1_000)


def test_what_is_seen_again_behind_a_power_cut_stands() -> None:
    """A second place is one too many then."""
    assert [] == broken(cut_after_arrival().arrive("M", 2).end())
    again = cut_after_arrival().arrive("M", 1, stored_ms=DUE_MS)
    assert [(Rule.ONCE, "M")] == broken(again.arrive("M", 2).end())


def test_what_a_power_cut_undid_arrives_again_at_its_old_place() -> None:
    """Stored at another time it is another arrival; the first is none any more."""
    again = cut_after_arrival().reader("late").arrive("M", 1)
    assert [] == broken(again.end())
    assert [(Rule.ONCE, "M")] == broken(again.arrive("M", 2).end())


def test_what_a_power_cut_undid_must_arrive_again() -> None:
    """Who reads the whole queue afterwards would see it."""
    assert [] == broken(cut_after_arrival().end())
    late = cut_after_arrival().reader("late").sent("N").arrive("N", 0).end()
    assert [(Rule.NOT_LOST, "M")] == broken(late)


def test_a_power_cut_does_not_reach_behind_itself() -> None:
    """What was acknowledged after it is there, and before it when the clock was set since then."""
    steps = (-60_000, 60_000)
    for by_ms in steps:
        story = cut_after_arrival().tell(ClockStep(at_ms=0, who="n", by_ms=by_ms))
        story.sent("N", deliver_ms=story.now_ms + 10)
        assert [(Rule.NOT_LOST, "N")] == broken(story.end())
    for by_ms in steps:
        story = Story().tell(Start(at_ms=0, who="n", flush="ASYNC_FLUSH")).sent("M")
        story.tell(ClockStep(at_ms=story.now_ms, who="n", by_ms=by_ms)).at(story.now_ms + by_ms)
        story.tell(Crash(at_ms=story.now_ms + 100, who="n", kind="power"))
        assert [] == broken(story.end()), "it may be younger than half a second"


def test_a_kill_takes_nothing() -> None:
    """After a kill everything acknowledged is there."""
    story = Story().tell(Start(at_ms=0, who="n", flush="ASYNC_FLUSH")).sent("M", deliver_ms=DUE_MS)
    story.tell(Crash(at_ms=story.now_ms, who="n", kind="kill"))

    assert [(Rule.NOT_LOST, "M")] == broken(story.end())


def test_files_are_taken_together() -> None:
    """Producer and consumer may each have a file; lines of a breach name both."""
    producer = Story().sent("M", deliver_ms=DUE_MS)
    consumer = Story(who="c").arrive("M", 0, stored_ms=DUE_MS - 1).end()
    (early,) = judge(producer, consumer).broken

    assert Rule.NOT_BEFORE is early.rule
    assert ("0.jsonl:2", "0.jsonl:3", "1.jsonl:2") == early.lines
    assert f"{DUE_MS} or later" == early.expected
    assert "it at T/0@0, stored 4999, 1 ms before" == early.found


def test_two_groups_see_one_arrival() -> None:
    """A place seen by consumers of two groups is one place."""
    story = Story().sent("M", deliver_ms=DUE_MS).arrive("M", 0, stored_ms=DUE_MS).end()
    seen = story.events[-2]
    assert isinstance(seen, Deliver)

    assert [] == broken(story.tell(seen))


def test_a_message_that_is_named_by_its_key() -> None:
    """A producer that does not learn the unique key names its message by a key."""
    story = Story().send("k1", deliver_ms=DUE_MS, keys=("k1",)).unknown("k1")
    story.arrive("M", 0, stored_ms=DUE_MS, keys=("k1",)).end()

    assert [] == broken(story)
    assert [(Rule.ONCE, "k1")] == broken(story.arrive("N", 1, stored_ms=DUE_MS, keys=("k1",)).end())
    assert [(Rule.UNSENT, "O")] == broken(Story().arrive("O", 0, keys=("k1",)))


def test_a_delay_begins_when_the_broker_has_it() -> None:
    """Between the asking and that the clock may have been set back."""

    def story(step_ms: int) -> Story:
        story = Story()
        at_ms = 1_000
        story.tell(Send(at_ms=at_ms, who="p", message_id="M", topic="T", delay_ms=4_000))
        story.tell(ClockStep(at_ms=at_ms, who="n", by_ms=step_ms))
        return story.ack("M").arrive("M", 0, stored_ms=at_ms + 4_000 - 900).end()

    assert [] == broken(story(-900))
    assert [(Rule.NOT_BEFORE, "M")] == broken(story(-899))
