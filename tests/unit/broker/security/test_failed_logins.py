"""Tests of failed logins: slower and slower, bounded, told."""

import pytest
import trio
from structlog.testing import capture_logs
from trio.testing import MockClock

from broker_rig import RecordingSession
from timermq.broker.security import delayed_refusals, failed_logins
from timermq.broker.security.delayed_refusals import DelayedRefusals
from timermq.broker.security.failed_logins import FailedLogins, peer_of
from timermq.remoting import Command


def peer(address: str = "10.0.0.1:5000") -> RecordingSession:
    """A peer with an address."""
    one = RecordingSession()
    one.session.remote_address = address
    return one


async def delays(
    logins: FailedLogins, peers: list[RecordingSession], pause: float = 0
) -> list[float]:
    """How late the answers to some failures are, one after the other."""
    found: list[float] = []
    for one in peers:
        await trio.sleep(pause)
        begun = trio.current_time()
        one.sent.clear()
        logins.add(one.session, Command(16), "wrong signature")
        await one.wait_sent()
        found.append(round(trio.current_time() - begun, 1))
    return found


async def test_each_failure_is_answered_later(
    nursery: trio.Nursery, autojump_clock: MockClock
) -> None:
    """Twice as late as the one before, up to two seconds; other addresses are not concerned."""
    late = DelayedRefusals()
    logins = FailedLogins(late)
    await nursery.start(late.run)

    assert await delays(logins, [peer()] * 7) == [0.1, 0.2, 0.4, 0.8, 1.6, 2.0, 2.0]
    assert await delays(logins, [peer("10.0.0.1:6000"), peer("10.0.0.2:5000")]) == [2.0, 0.1]
    assert logins.count == 9


async def test_an_address_that_was_quiet_begins_anew(
    nursery: trio.Nursery, autojump_clock: MockClock
) -> None:
    """After ten minutes without a failure."""
    late = DelayedRefusals()
    logins = FailedLogins(late)
    await nursery.start(late.run)

    assert await delays(logins, [peer()] * 3) == [0.1, 0.2, 0.4]
    assert await delays(logins, [peer()], pause=590) == [0.8]
    assert await delays(logins, [peer()], pause=601) == [0.1]


async def test_who_does_not_wait_is_cut_off(autojump_clock: MockClock) -> None:
    """More answers than may be held for an address close the connection that asks on."""
    logins = FailedLogins(DelayedRefusals())
    one, other = peer(), peer("10.0.0.2:1")
    for _ in range(delayed_refusals.HELD_PER_PEER_MAX):
        logins.add(one.session, None, "not signed")
    assert [one.closed_for] == [None]
    logins.add(other.session, None, "not signed")
    logins.add(one.session, None, "not signed")

    assert (one.closed_for, other.closed_for) == ("too many refused requests", None)


async def test_answers_held_are_bounded(
    monkeypatch: pytest.MonkeyPatch, autojump_clock: MockClock
) -> None:
    """The answers held are bounded for all addresses together."""
    monkeypatch.setattr(delayed_refusals, "HELD_MAX", 3)
    logins = FailedLogins(DelayedRefusals())
    peers = [peer(f"10.0.0.{last}:1") for last in range(4)]
    for one in peers:
        logins.add(one.session, None, "not signed")

    assert [one.closed_for is None for one in peers] == [True, True, True, False]


async def test_addresses_are_bounded(
    monkeypatch: pytest.MonkeyPatch, nursery: trio.Nursery, autojump_clock: MockClock
) -> None:
    """The one that was quiet for longest is forgotten."""
    monkeypatch.setattr(failed_logins, "ADDRESSES_MAX", 2)
    late = DelayedRefusals()
    logins = FailedLogins(late)
    await nursery.start(late.run)
    one, two, three = (peer(f"10.0.0.{last}:1") for last in range(3))

    assert await delays(logins, [one, two, one, three]) == [0.1, 0.1, 0.2, 0.1]
    assert await delays(logins, [one, two]) == [0.4, 0.1]


async def test_a_closed_connection_gets_no_answer(
    nursery: trio.Nursery, autojump_clock: MockClock
) -> None:
    """And what is held for it makes room all the same."""
    late = DelayedRefusals()
    await nursery.start(late.run)
    one = peer()
    late.hold("x", one.session, Command(16), 1)
    one.session.is_open = False
    await trio.sleep(2)

    assert one.sent == []
    assert late.held == 0


async def test_failures_are_told_once_a_minute(autojump_clock: MockClock) -> None:
    """By address, with how many there were meanwhile."""
    logins = FailedLogins(DelayedRefusals())
    with capture_logs() as logs:
        for _ in range(5):
            logins.add(peer().session, None, "unknown key")
            await trio.sleep(1)
        logins.add(peer("10.0.0.2:1").session, None, "not signed")
        await trio.sleep(60)
        logins.add(peer().session, None, "wrong signature")

    shown = [(log["event"], log["remote"], log["failures"], log["reason"]) for log in logs]
    assert shown == [
        ("logins failed", "10.0.0.1", 1, "unknown key"),
        ("logins failed", "10.0.0.2", 1, "not signed"),
        ("logins failed", "10.0.0.1", 5, "wrong signature"),
    ]


@pytest.mark.parametrize(
    ("remote", "expected"),
    [
        ("10.0.0.1:5", "10.0.0.1"),
        ("::ffff:10.0.0.1:5", "10.0.0.1"),
        ("2001:db8:1:2:3:4:5:6:80", "2001:db8:1:2::/64"),
        ("::1:80", "::1"),
        ("fe80::1%eth0:80", "fe80::/64"),
        ("name:80", "name"),
    ],
)
def test_what_failures_count_for(remote: str, expected: str) -> None:
    """An address; of IPv6 the network, whose addresses are the peer's to choose."""
    assert peer_of(remote) == expected
