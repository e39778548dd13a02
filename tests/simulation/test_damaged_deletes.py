"""Records of cancels and moves that are damaged while they wait: what they say is made again.

Each record begins with a sector, and padding stands behind it, so that damage meets it alone.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

import attrs
import pytest
import trio
from trio.testing import MockClock

from fakes import START_MS, VirtualClock
from simulation.staged_service import ROOT, SMALL_FILES, SMALL_WHEEL, running, timed
from timermq.pipeline.records.cancel_verdict import Verdict, Wanted
from timermq.pipeline.records.delete_message import RECALL_TAG
from timermq.pipeline.records.system_topics import TIMER_TOPIC
from timermq.pipeline.records.timer_properties import DELETE_SECOND_NAME
from timermq.pipeline.timer_message_store import TimerMessageStore
from timermq.simulator.disks.memory_disk import MemoryDisk
from timermq.simulator.disks.memory_node import SECTOR_SIZE
from timermq.timerstore.message import Message
from timermq.timerstore.record import decode_record

FAR_MS = START_MS + 45_000
"""Beyond two roll windows."""
NEAR_MS = START_MS + 15_000
OTHER_MS = START_MS + 47_000
OVER_S = 60


FILES = attrs.evolve(SMALL_FILES, index_flush_interval_ms=500)
PADDING_SIZE = 92
"""Of a record of padding without its body."""


def pad(service: TimerMessageStore, left: int = SECTOR_SIZE) -> None:
    """Let the next record begin so many bytes before the end of a sector, or with one."""
    end = service.store.commit_log.max_offset + PADDING_SIZE
    body = b"x" * ((-left - end) % SECTOR_SIZE)
    service.store.put([Message(topic="P", queue_id=0, body=body)])
    assert service.store.commit_log.max_offset % SECTOR_SIZE == SECTOR_SIZE - left


@attrs.define(eq=False)
class Rig:
    """A service on a disk whose log is damaged between two of its processes."""

    disk: MemoryDisk
    clock: VirtualClock

    @classmethod
    def new(cls) -> Rig:
        """A rig with an empty disk and a new clock."""
        clock = VirtualClock()
        return cls(MemoryDisk(now_ms=clock.now_ms), clock)

    @asynccontextmanager
    async def serving(self, *, stop: bool = True) -> AsyncGenerator[TimerMessageStore]:
        """A process; then stopped in order, or killed."""
        async with running(
            self.disk, self.clock, store_options=FILES, timer_options=SMALL_WHEEL, stop=stop
        ) as service:
            yield service
            # The index is written down when something more has come, some time later.
            await trio.sleep(1)
            pad(service)
            await trio.sleep(0.5)
        if not stop:
            self.disk.process_kill()

    def spoil(self, position: int, size: int) -> None:
        """Let a record read as zeros."""
        file = self.disk.open(f"{ROOT}/commitlog/{0:020}")
        file.write(position, bytes(size))
        file.close()

    def lose_timer_files(self) -> None:
        """Let everything be enqueued again."""
        for name in self.disk.list_dir(f"{ROOT}/timerlog"):
            self.disk.remove(f"{ROOT}/timerlog/{name}")
        for path in ("timerwheel", "config/timercheck"):
            self.disk.remove(f"{ROOT}/{path}")

    async def names_in_the_end(self) -> list[str]:
        """What has arrived when all is due."""
        async with self.serving() as service:
            await trio.sleep(OVER_S)
            self.active = service.quarantine.active
            queue = service.store.queue("T", 0)
            assert queue is not None
            found = (
                service.store.get("T", 0, offset, count_max=1, bytes_max=1 << 20).records
                for offset in range(queue.max_offset)
            )
            return [decode_record(records[0]).body.decode() for records in found if records]

    active: int = 0
    """Messages in quarantine then."""


def deletes(service: TimerMessageStore, *, second: bool = False) -> list[tuple[int, int]]:
    """Position and size of each first delete in the timer topic, or of each second one."""
    log = service.store.commit_log
    return [
        (phy_offset, size)
        for phy_offset, size in log.walk(log.min_offset)
        if RECALL_TAG in (data := log.read(phy_offset, size))
        and TIMER_TOPIC.encode() in data
        and (DELETE_SECOND_NAME in data) is second
    ]


def cancel(service: TimerMessageStore, name: str) -> None:
    """Cancel a message by its unique key, with padding before and behind the record."""
    pad(service)
    assert service.cancellation.cancel(Wanted("T", name)).verdict is Verdict.CANCELLED
    pad(service)


def move(service: TimerMessageStore, name: str, deliver_ms: int) -> None:
    """Give it another moment; the message begins in the sector behind that of the delete."""
    pad(service, 100)
    found = service.cancellation.reschedule(Wanted("T", name), deliver_ms)
    assert found.verdict is Verdict.CANCELLED
    pad(service)


def put(service: TimerMessageStore, *names: str, deliver_ms: int = FAR_MS) -> None:
    """Store messages, each in a sector of its own."""
    for name in names:
        service.put([timed(name, deliver_ms)])
        pad(service)


@pytest.mark.parametrize("stop", [True, False], ids=["stopped", "killed"])
@pytest.mark.parametrize("rolls", [0, 1])
async def test_a_cancel_that_rolls_is_made_again(
    autojump_clock: MockClock, rolls: int, *, stop: bool
) -> None:
    """By the one message with its key, or by the delete that it was rolled from."""
    rig = Rig.new()
    async with rig.serving(stop=stop) as service:
        put(service, "gone")
        put(service, "kept", deliver_ms=NEAR_MS)
        cancel(service, "gone")
        await trio.sleep(22 * rolls + 2)
        pad(service)
        at = deletes(service)
        assert len(at) == rolls + 1
    rig.spoil(*at[-1])

    assert "gone" not in await rig.names_in_the_end()
    assert rig.active == 0


async def test_a_cancel_that_has_rolled_is_made_again_without_its_unit(
    autojump_clock: MockClock,
) -> None:
    """Only the padding beside it is damaged; by the record that it was rolled from."""
    rig = Rig.new()
    async with rig.serving() as service:
        put(service, "gone", deliver_ms=START_MS + 30_000)
        cancel(service, "gone")
        await trio.sleep(24)
        pad(service)
        at = deletes(service)
        assert len(at) == 2
    rig.spoil(sum(at[-1]) + PADDING_SIZE, 20)
    await trio.sleep(OVER_S)
    for name in rig.disk.list_dir(f"{ROOT}/timerlog"):
        rig.disk.remove(f"{ROOT}/timerlog/{name}")
    async with rig.serving() as service:
        put(service, "kept", deliver_ms=rig.clock.now_ms() + 1_000)

    assert await rig.names_in_the_end() == ["kept"]
    assert rig.active == 0


@pytest.mark.parametrize("has_index", [True, False])
async def test_a_move_that_rolls_is_made_again(
    autojump_clock: MockClock, *, has_index: bool
) -> None:
    """By the message that it makes way for; without an index, too."""
    rig = Rig.new()
    async with rig.serving(stop=False) as service:
        put(service, "kept", "moved")
        move(service, "moved", OTHER_MS)
        await trio.sleep(2)
        ((position, size),) = deletes(service)
    assert size > 100
    rig.spoil(position, 100)
    if not has_index:
        for name in rig.disk.list_dir(f"{ROOT}/index"):
            rig.disk.remove(f"{ROOT}/index/{name}")

    assert await rig.names_in_the_end() == ["kept", "moved"]
    assert rig.active == 0


async def test_a_move_that_is_not_in_the_wheel_yet_is_made_again(
    autojump_clock: MockClock,
) -> None:
    """The queue shows it with the tag of a delete, and its message behind it."""
    rig = Rig.new()
    async with rig.serving(stop=False) as service:
        put(service, "kept", "moved")
        await trio.sleep(2)
        move(service, "moved", OTHER_MS)
        service.store.dispatch()
        ((position, _),) = deletes(service)
    rig.spoil(position, 100)

    assert await rig.names_in_the_end() == ["kept", "moved"]
    assert rig.active == 0


async def test_a_cancel_in_its_slot_leaves_no_other_message_in_doubt(
    autojump_clock: MockClock,
) -> None:
    """What it cancels is known, so all others of the slot arrive."""
    rig = Rig.new()
    async with rig.serving(stop=False) as service:
        put(service, "kept", "gone", deliver_ms=NEAR_MS)
        cancel(service, "gone")
        await trio.sleep(2)
        at = deletes(service)[0]
    rig.spoil(*at)

    assert await rig.names_in_the_end() == ["kept"]
    assert rig.active == 0


@pytest.mark.parametrize("when", ["in its slot", "when it is enqueued"])
@pytest.mark.parametrize("how", ["cancelled", "moved"])
async def test_a_damaged_message_that_was_cancelled_is_left_out(
    autojump_clock: MockClock, how: str, when: str
) -> None:
    """It must not arrive, so it need not be quarantined, whichever stage meets it."""
    rig = Rig.new()
    async with rig.serving(stop=False) as service:
        put(service, "kept")
        (one,) = service.put([timed("old", FAR_MS)])
        if how == "moved":
            move(service, "old", OTHER_MS)
        else:
            cancel(service, "old")
        await trio.sleep(2)
    rig.spoil(one.result.phy_offset, one.result.size)
    if when != "in its slot":
        rig.lose_timer_files()

    assert await rig.names_in_the_end() == ["kept"] + ["old"] * (how == "moved")
    assert rig.active == 0


async def test_a_damaged_message_that_waits_is_quarantined(autojump_clock: MockClock) -> None:
    """Nothing cancels it: another cancel means another message."""
    rig = Rig.new()
    async with rig.serving(stop=False) as service:
        put(service, "kept", "gone")
        cancel(service, "gone")
        (one,) = service.put([timed("damaged", FAR_MS)])
        pad(service)
        await trio.sleep(2)
    rig.spoil(one.result.phy_offset, one.result.size)

    assert await rig.names_in_the_end() == ["kept"]
    assert rig.active == 1


async def test_a_delete_that_may_mean_two_messages_is_quarantined(
    autojump_clock: MockClock,
) -> None:
    """A key that is used again: nothing is guessed, and the damaged delete is kept by name."""
    rig = Rig.new()
    async with rig.serving(stop=False) as service:
        put(service, "twice", deliver_ms=START_MS + 1_000)
        await trio.sleep(2)
        put(service, "twice")
        assert service.cancellation.cancel(Wanted("T", "twice")).verdict is Verdict.TOO_LATE
        pad(service)
        await trio.sleep(1)
        at = deletes(service)[0]
    rig.spoil(*at)

    assert (await rig.names_in_the_end())[:1] == ["twice"]
    assert rig.active == 1
