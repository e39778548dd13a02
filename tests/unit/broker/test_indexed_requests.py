"""Look-ups by key while the index is far behind: they wait aside, and read nothing themselves."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import attrs
import pytest
import trio
from trio.testing import MockClock

from broker_rig import ROOT, STORE, RecordingSession, commands_in, open_broker
from fakes import ManualClock
from timermq.broker.broker import Broker
from timermq.broker.indexed_requests import INDEX_WAIT_S
from timermq.pipeline.admission.recall_handle import encode_handle
from timermq.remoting import Command
from timermq.simulator.disks.memory_disk import MemoryDisk
from timermq.timerstore.index_follower import LOOK_UP_LAG_MAX, IndexFollower
from timermq.timerstore.message import Message, pack_host
from timermq.timerstore.message_store import MessageStore

Task = Callable[[], Awaitable[None]]

HOST = pack_host("127.0.0.1", 10_911)
BODY = b"x" * STORE.max_message_size
WAITING = b"UNIQ_KEY\x01K1\x02KEYS\x01order-7\x02"
ANY_TIME = {"beginTimestamp": "0", "endTimestamp": "9999999999999", "maxNum": "32"}
HANDLE = encode_handle("T", "broker-a", 1_700_000_005_001, "K1")
LOOK_UPS = [
    (12, {"topic": "T", "key": "order-7", **ANY_TIME}),
    (370, {"topic": "T", "recallHandle": HANDLE}),
    (9005, {"topic": "T", "uniqueKey": "K1"}),
]


class Rig:
    """A broker over a store that was served without an index; no task runs but as it is told."""

    def __init__(self) -> None:
        clock, disk = ManualClock(), MemoryDisk()
        store = MessageStore.open(
            disk,
            ROOT,
            attrs.evolve(STORE, message_index_enable=False),
            now_ms=clock.now_ms,
            store_host=HOST,
        )
        store.put([Message("T", 0, b"", WAITING, born_host=HOST)])
        while store.commit_log.max_offset <= LOOK_UP_LAG_MAX:
            store.put([Message("T", 0, BODY, born_host=HOST)])
        store.abandon()
        self.broker: Broker = open_broker(clock, disk=disk)
        self.tasks: list[Task] = []
        self.peer = RecordingSession()
        self.peer.session.start_soon = self._keep

    def _keep(self, task: Task) -> bool:
        self.tasks.append(task)
        return True

    @property
    def index(self) -> IndexFollower:
        """The index of the store."""
        index = self.broker.store.index
        assert index is not None
        return index

    def ask(self, code: int, ext: dict[str, str]) -> list[Command]:
        """What is answered at once."""
        command = Command(code, opaque=1, ext=ext)
        return commands_in(self.broker.dispatcher.handle(self.peer.session, [command]))


@pytest.mark.parametrize(("code", "ext"), LOOK_UPS)
async def test_a_look_up_waits_for_the_index(
    autojump_clock: MockClock, code: int, ext: dict[str, str]
) -> None:
    """Nothing is read for it in the step that takes it; what is there is found then."""
    rig = Rig()
    position = rig.index.position

    assert ([], 1) == (rig.ask(code, ext), len(rig.tasks))

    async with trio.open_nursery() as nursery:
        nursery.start_soon(rig.tasks[0])
        await trio.sleep(INDEX_WAIT_S / 2)
        assert (position, []) == (rig.index.position, rig.peer.sent)
        rig.index.catch_up()

    (answer,) = rig.peer.sent
    remark = answer.remark or ""
    assert answer.code == 0 or remark.startswith("RECALL_TOO_LATE")
    assert answer.ext.get("verdict", "too_late") == "too_late"


@pytest.mark.parametrize(("code", "ext"), LOOK_UPS)
async def test_a_look_up_is_refused_before_it_says_that_nothing_is_there(
    autojump_clock: MockClock, code: int, ext: dict[str, str]
) -> None:
    """While the index stays behind, as without room for it: its client may ask again."""
    rig = Rig()
    rig.ask(code, ext)
    await rig.tasks[0]()

    (answer,) = rig.peer.sent
    assert answer.code == 2
    assert (answer.remark or "").startswith("INDEX_BEHIND: ")
    assert trio.current_time() == INDEX_WAIT_S


async def test_a_look_up_near_the_end_is_answered_at_once() -> None:
    """It brings the index up to date itself."""
    rig = Rig()
    while rig.index.is_behind:
        rig.index.index_slice()
    rig.broker.store.put([Message("T", 0, b"", b"KEYS\x01new\x02", born_host=HOST)])
    (answer,) = rig.ask(12, {"topic": "T", "key": "new", **ANY_TIME})

    assert (0, []) == (answer.code, rig.tasks)
