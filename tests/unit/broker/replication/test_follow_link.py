"""The follower's side of a link: what it says, and for what it ends the link."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import pytest
import trio
import trio.testing

from fakes import ManualClock
from small_store import open_store, put_bodies
from timermq.broker.replication.follow_link import FollowLink, LinkTimes
from timermq.broker.replication.follow_state import FollowError, FollowState
from timermq.broker.replication.greeting import (
    MASTER_SIDE,
    Greeting,
    Proof,
    Refusal,
    encode_greeting,
    proof_of,
)
from timermq.broker.replication.ha_frames import (
    Epoch,
    encode_epoch_transfer_head,
    encode_epochs,
    encode_report,
    encode_transfer_head,
)
from timermq.simulator.disks.memory_disk import MemoryDisk
from timermq.timerstore.message_store import MessageStore

SECRET = b"a secret of sixteen bytes"
OWN = Greeting(broker_name="b", broker_id=1, segment_size=1_024, nonce="")
MASTERS = Greeting(broker_name="b", broker_id=0, segment_size=1_024, nonce="ab")
LinkWork = Callable[[FollowLink], Awaitable[object]]


def source() -> bytes:
    """The bytes of a log of three records."""
    store = open_store(MemoryDisk())
    put_bodies(store, *"abc")
    return store.commit_log.read(0, store.commit_log.max_offset)


class Linked:
    """A link, and the master's end of it."""

    def __init__(self) -> None:
        self.store: MessageStore = open_store(MemoryDisk(), ManualClock())
        self.store.park("copy")
        ours, self.master = trio.testing.memory_stream_pair()
        self.state = FollowState()
        times = LinkTimes(heartbeat=5, housekeeping=20)
        self.link = FollowLink(ours, self.store.log_copy, self.state, times, trio.current_time)

    async def fails(self, work: LinkWork, *sent: bytes) -> FollowError:
        """What ends a link whose master sends this."""
        with pytest.raises((FollowError, ExceptionGroup)) as caught:  # noqa: PT012 - the nursery
            async with trio.open_nursery() as nursery:
                for one in sent:
                    await self.master.send_all(one)
                await work(self.link)
                nursery.cancel_scope.cancel()
        error: BaseException = caught.value
        while isinstance(error, BaseExceptionGroup):
            (error,) = error.exceptions
        assert isinstance(error, FollowError)
        return error


def plain(starts_at: int | None = None) -> LinkWork:
    """The work of a link to RocketMQ's master."""
    return lambda link: link.copy_plain(starts_at=starts_at)


async def test_an_empty_follower_asks_for_the_byte_at_one(
    autojump_clock: trio.testing.MockClock,
) -> None:
    """RocketMQ's master takes 0 for its newest segment; the first byte of a log is known."""
    linked, data = Linked(), source()
    assert data[0] == 0
    frame = encode_transfer_head(1, len(data) - 1) + data[1:]
    error = await linked.fails(plain(0), frame)

    assert (error.name, "20 s" in error.text) == ("LINK", True)
    reports = bytes(await linked.master.receive_some(4_096))
    assert reports.startswith(encode_report(1) + encode_report(len(data)) * 2)
    assert linked.store.commit_log.read(0, 4_096) == data


@pytest.mark.parametrize(
    ("sent", "name"),
    [
        (encode_transfer_head(5, 3) + b"abc", "LOG"),
        (encode_transfer_head(0, 200) + b"x" * 200, "LOG"),
        (encode_transfer_head(0, -1), "FRAME"),
        (encode_transfer_head(0, 1 << 30), "FRAME"),
    ],
)
async def test_what_is_not_the_next_part_ends_the_link(
    autojump_clock: trio.testing.MockClock, sent: bytes, name: str
) -> None:
    """By the name of what was wrong with it."""
    assert (await Linked().fails(plain(), sent)).name == name


async def test_a_master_that_begins_elsewhere(autojump_clock: trio.testing.MockClock) -> None:
    """The byte that was asked for has to come first."""
    sent = encode_transfer_head(1_024, 3) + b"abc"
    assert (await Linked().fails(plain(0), sent)).name == "POSITION"


@pytest.mark.parametrize(
    ("sent", "secret", "name"),
    [
        (encode_greeting(Refusal("HA_SECRET", "no")), None, "HA_SECRET"),
        (encode_greeting(Proof("ab")), None, "GREETING"),
        (encode_transfer_head(0, 0) + b"some more", None, "GREETING"),
        (encode_greeting(MASTERS), SECRET, "SECRET"),
    ],
)
async def test_a_greeting_that_is_none(
    autojump_clock: trio.testing.MockClock, sent: bytes, secret: bytes | None, name: str
) -> None:
    """The master refuses, is another program, or does not know the secret."""
    error = await Linked().fails(lambda link: link.greet(OWN, secret), sent)
    assert error.name == name


async def test_a_master_of_other_segments(autojump_clock: trio.testing.MockClock) -> None:
    """It is named with both sizes before a byte is copied."""
    other = encode_greeting(Greeting(broker_name="b", broker_id=0, segment_size=9, nonce="ab"))
    error = await Linked().fails(lambda link: link.greet(OWN, None), other)
    assert (error.name, "expected 9" in error.text) == ("SEGMENT_SIZE", True)


async def test_bytes_before_the_epochs_are_refused(
    autojump_clock: trio.testing.MockClock,
) -> None:
    """Whether the logs are of one history is known by the epochs alone."""
    head = encode_epoch_transfer_head(0, 3, Epoch(1, 0), 0)
    error = await Linked().fails(lambda link: link.copy_epochs(1, head + b"abc", lambda _: 0))
    assert error.name == "HANDSHAKE"


async def test_frames_with_epochs(autojump_clock: trio.testing.MockClock) -> None:
    """What stands beside the bytes is kept, and they come to the log."""
    linked, data = Linked(), source()
    sent = encode_epochs(len(data), [Epoch(7, 0)])
    sent += encode_epoch_transfer_head(0, len(data), Epoch(7, 0), 12) + data
    error = await linked.fails(lambda link: link.copy_epochs(1, b"", lambda _: 0), sent)
    assert error.name == "LINK"
    state = linked.state
    assert (state.epoch, state.epoch_start, state.confirm_offset) == (7, 0, 12)
    assert linked.store.commit_log.read(0, 4_096) == data


async def test_a_proof_is_answered(autojump_clock: trio.testing.MockClock) -> None:
    """Both sides prove the secret with the numbers of this link."""
    linked = Linked()
    greeted: list[bytes] = []

    async def greet() -> None:
        greeted.append(await linked.link.greet(OWN, SECRET))

    async with trio.open_nursery() as nursery:
        nursery.start_soon(greet)
        said = bytes(await linked.master.receive_some(4_096))
        nonce = said.split(b'"nonce": "')[1].split(b'"')[0].decode()
        proof = proof_of(SECRET, MASTER_SIDE, nonce, MASTERS.nonce)
        answer = Greeting(
            broker_name="b", broker_id=0, segment_size=1_024, nonce=MASTERS.nonce, proof=proof
        )
        await linked.master.send_all(encode_greeting(answer) + b"rest")
        proved = bytes(await linked.master.receive_some(4_096))
    assert b'"proof"' in proved
    assert greeted == [b"rest"]
