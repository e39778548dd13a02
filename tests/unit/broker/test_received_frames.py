"""Bytes that a connection has received: read as frames, and counted beyond the free ones."""

from __future__ import annotations

from timermq.broker.pool import Pool
from timermq.broker.received_frames import FREE_SIZE, ReceivedFrames
from timermq.remoting import Command, FrameConnection

HUGE = (FREE_SIZE * 20).to_bytes(4)
"""The beginning of a frame of which the rest is still to come."""


def frames_of(pool: Pool, peer: str = "10.0.0.1") -> ReceivedFrames:
    """What a new connection has received."""
    return ReceivedFrames(FrameConnection(), pool, peer, f"{peer}:40000")


def request(opaque: int = 1, body: bytes = b"") -> bytes:
    """A request with this number, as a client sends it."""
    return FrameConnection().encode(Command(105, opaque=opaque, body=body))


def test_few_bytes_take_no_share() -> None:
    """A frame that arrives in pieces is nothing to count, in a full pool too."""
    pool = Pool(lambda: 0)
    received = frames_of(pool)
    received.add(HUGE + bytes(FREE_SIZE - 4))

    assert received.count() is None
    assert (received.size, pool.used) == (FREE_SIZE, 0)


def test_bytes_beyond_the_free_ones_take_a_share() -> None:
    """All of them count then; the end of the connection gives the share back."""
    pool = Pool(lambda: 1 << 20)
    received = frames_of(pool)
    received.add(HUGE + bytes(FREE_SIZE))

    assert received.count() is None
    assert received.count() is None
    assert pool.of("10.0.0.1") == FREE_SIZE + 4
    received.drop()
    received.drop()
    assert pool.used == 0


def test_a_share_follows_what_is_left_to_read() -> None:
    """Requests that were given out make room again."""
    pool = Pool(lambda: 1 << 20)
    received = frames_of(pool)
    received.add(request(body=bytes(FREE_SIZE)))
    received.count()
    assert pool.used > FREE_SIZE

    assert len(received.requests(None)) == 1
    assert received.count() is None
    assert pool.used == 0


def test_without_room_a_connection_that_wants_more_is_refused() -> None:
    """The other connections of its address count with it; who wants no more is not refused."""
    pool = Pool(lambda: 4 * FREE_SIZE)
    first, second = frames_of(pool), frames_of(pool)
    first.add(HUGE + bytes(2 * FREE_SIZE))
    assert first.count() is None
    second.add(HUGE + bytes(FREE_SIZE))

    assert second.count() == (
        f"{2 * FREE_SIZE + 4} bytes of frames from 10.0.0.1, no room for more"
    )
    assert pool.refused == 1
    assert first.count() is None


def test_whole_frames_before_a_fault_are_given_out() -> None:
    """Behind the fault nothing is read: it is no frame any more."""
    received = frames_of(Pool(lambda: 1 << 20))
    received.add(request(7) + (1).to_bytes(4) + b"?" + request(8))

    assert len(received.requests(None)) == 1
    assert received.failure is not None
    assert not received.has_more
    assert received.requests(None) == ()


def test_a_smaller_limit_counts_from_the_next_reading() -> None:
    """An operator has changed it while the frame was on its way."""
    received = frames_of(Pool(lambda: 1 << 20))
    received.add(request(body=bytes(2_000)))

    assert received.requests(1_000) == ()
    assert received.failure is not None
    assert "1000" in received.failure
