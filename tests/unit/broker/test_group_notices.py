"""Tests of the notices that a consumer group has changed."""

from __future__ import annotations

import itertools

import trio
from trio.testing import MockClock

from broker_rig import RecordingSession
from timermq.broker.client_registry import REST, GroupNotices
from timermq.broker.session import Session


def times_told(peer: RecordingSession) -> list[tuple[str, int]]:
    """The groups that the peer was told of, and how often one after another; forgets them."""
    groups = [one.ext["consumerGroup"] for one in peer.sent]
    peer.sent.clear()
    return [(group, len(list(run))) for group, run in itertools.groupby(groups)]


async def test_many_changes_are_two_notices(autojump_clock: MockClock) -> None:
    """The first at once; what follows while the group rests is one, when the rest is over."""
    peer = RecordingSession()
    notices = GroupNotices(lambda _: [peer.session], current_time=trio.current_time)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(notices.run)
        notices.changed("G")
        at_once = times_told(peer)
        for _ in range(10):
            notices.changed("G")
            await trio.sleep(REST / 20)
        in_its_rest = times_told(peer)
        await trio.sleep(REST)
        after_it = times_told(peer)
        await trio.sleep(2 * REST)
        later = times_told(peer)
        nursery.cancel_scope.cancel()

    assert (at_once, in_its_rest, after_it, later) == ([("G", 1)], [], [("G", 1)], [])


async def test_groups_rest_apart(autojump_clock: MockClock) -> None:
    """Each is told within a rest of its last change, whatever the others do."""
    peer = RecordingSession()
    notices = GroupNotices(lambda _: [peer.session], current_time=trio.current_time)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(notices.run)
        notices.changed("F")
        await trio.sleep(REST / 2)
        for group in ("G", "H", "G", "F"):
            notices.changed(group)
        at_once = times_told(peer)
        await trio.sleep(1.1 * REST)
        later = times_told(peer)
        nursery.cancel_scope.cancel()

    assert at_once == [("F", 1), ("G", 1), ("H", 1)]
    assert sorted(later) == [("F", 1), ("G", 1)]


async def test_who_came_in_the_rest_is_told_after_it(autojump_clock: MockClock) -> None:
    """And who has left is not."""
    here, comes = RecordingSession(), RecordingSession()
    members: list[Session] = [here.session]
    notices = GroupNotices(lambda _: members, current_time=trio.current_time)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(notices.run)
        notices.changed("G")
        members[:] = [comes.session]
        notices.changed("G")
        await trio.sleep(1.1 * REST)
        nursery.cancel_scope.cancel()

    assert (times_told(here), times_told(comes)) == ([("G", 1)], [("G", 1)])
