"""A topic is deleted and made again, in every state that a crash may leave the disk in.

As ``test_crash_states``, with its selection. What was acknowledged of other topics is there; the
topic is there whole, or gone with its queues; once the deletion is acknowledged it is gone for
good, and what is sent afterwards begins it anew.
"""

from __future__ import annotations

import attrs
import pytest
import trio
import trio.testing

from broker_rig import Peer, pull_ext, running_broker, send_ext
from fakes import VirtualClock
from simulation.crash_selection import selected
from simulation.crash_states import CrashState, CrashStates
from simulation.crash_workloads import FILES
from simulation.recording_disk import Noted, Recording, RecordingDisk
from timermq.simulator.disks.memory_disk import MemoryDisk

SENT, GONE, ASKED, DELETED, AGAIN = "sent", "gone", "asked", "deleted", "again"
OLD = [b"old0", b"old1"]
NEW = [b"new0"]
STATES_MIN = 100


async def send(peer: Peer, topic: str, *bodies: bytes) -> None:
    """Send and wait until it is durable."""
    for body in bodies:
        answer = await peer.call(10, send_ext(topic, defaultTopicQueueNums="1"), body)
        assert answer.code == 0


async def record() -> Recording:
    """The life of one process, killed at the end."""
    recording = Recording(VirtualClock().now_ms)
    memory = MemoryDisk()
    disk = RecordingDisk(memory, recording)
    async with running_broker(disk=disk, store_options=FILES) as running:
        peer = running.connect()
        await send(peer, "T", *OLD)
        await send(peer, "other", *OLD)
        await send(peer, "gone", *OLD)
        for topic in ("T", "other"):
            commit = {"topic": topic, "queueId": "0", "consumerGroup": "G", "commitOffset": "2"}
            await peer.call(15, commit)
        await trio.sleep(10)
        recording.note(SENT)
        assert (await peer.call(215, {"topic": "gone"})).code == 0
        recording.note(GONE)
        recording.note(ASKED)
        assert (await peer.call(215, {"topic": "T"})).code == 0
        recording.note(DELETED)
        await send(peer, "T", *NEW)
        recording.note(AGAIN)
        await trio.sleep(2)
    return recording


@attrs.frozen
class Found:
    """What the next process has."""

    old: list[bytes]
    """Bodies of the topic that was deleted."""
    other: list[bytes]
    exists: bool
    """Whether there is a topic that was deleted and not sent to again."""
    offset: int | None
    """Where the group goes on in that topic, as the broker tells it."""


async def pulled(peer: Peer, topic: str) -> list[bytes]:
    """The bodies in a topic."""
    body = (await peer.call(11, pull_ext(topic))).body
    return [one for one in (*OLD, *NEW) if one in body]


async def reopened(state: CrashState) -> Found:
    """Open what a crash has left."""
    disk = MemoryDisk()
    state.write_to(disk)
    async with running_broker(disk=disk, store_options=FILES) as running:
        peer = running.connect()
        where = {"topic": "T", "queueId": "0", "consumerGroup": "G"}
        answer = await peer.call(14, where)
        return Found(
            old=await pulled(peer, "T"),
            other=await pulled(peer, "other"),
            exists=(await peer.call(351, {"topic": "gone"})).code == 0,
            offset=int(answer.ext["offset"]) if answer.code == 0 else None,
        )


def fault(notes: set[object], found: Found) -> str | None:
    """What is not as it must be."""
    if SENT in notes and found.other != OLD:
        return "another topic lost messages"
    if SENT in notes and ASKED not in notes and found.old != OLD:
        return "gone before that was asked for"
    if SENT in notes and DELETED not in notes and found.old not in (OLD, [], NEW):
        return "neither whole nor gone"
    if DELETED in notes and found.old not in ([], NEW):
        return "back after its deletion"
    if GONE in notes and found.exists:
        return "a topic is there without its messages"
    if DELETED in notes and found.offset not in (None, 0):
        return "the group would go on behind what is new"
    if AGAIN in notes and found.old != NEW:
        return "what was sent afterwards is lost"
    return None


@pytest.mark.slow
def test_a_deletion_is_whole_in_every_crash_state() -> None:
    """A deletion that was acknowledged stays, and what was sent after it is whole."""
    clock = trio.testing.MockClock(autojump_threshold=0)
    recording = trio.run(record, clock=clock)
    states = {state.digest(): state for state in CrashStates(recording.events, only_max=1)}
    faults: dict[str, str] = {}
    for state in selected(list(states.values())):
        notes = {
            one.note for one in recording.events[: state.event_count] if isinstance(one, Noted)
        }
        clock = trio.testing.MockClock(autojump_threshold=0)
        found = trio.run(reopened, state, clock=clock)
        wrong = fault(notes, found)
        if wrong is not None:
            faults[f"{state.event_count} {state.label}"] = f"{wrong}: {found}"

    assert faults == {}
    assert len(states) >= STATES_MIN
