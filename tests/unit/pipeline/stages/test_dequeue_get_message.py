"""Stage 4: the records of what is due, less those that are cancelled, gone or done."""

from __future__ import annotations

import attrs
import pytest
import trio

from fakes import ManualClock
from simulation.staged_service import ROOT, delete_of, timed
from timermq.pipeline.records.deduplication import AlreadyDone, Doubt
from timermq.pipeline.records.foreign_key import pending_key
from timermq.pipeline.records.undeliverable import Reason
from timermq.pipeline.stages.dequeue_get_message import WARM_MS, DequeueGetMessage
from timermq.pipeline.stages.timer_request import DeliverBatch, DequeueBatch, ReadMark
from timermq.timerlog import MAGIC_ROLL
from timermq.timerstore.message import Message
from timermq.timerstore.record_layout import BODY_AT
from unit.pipeline.stages_by_hand import CHANNEL_COUNT, SLOT_MS, TINY, StagesByHand, column

LATER_MS = SLOT_MS + 1_000
"""The whole slot is due."""


def due(*messages: Message) -> tuple[StagesByHand, DequeueBatch]:
    """Messages that wait in one slot, and the batch that stage 3 makes of them."""
    clock = ManualClock()
    rig = StagesByHand(clock)
    rig.link(*messages)
    clock.time_ms = LATER_MS
    return rig, rig.open(SLOT_MS)


A, B, C = (timed(body, SLOT_MS + 1 + index) for index, body in enumerate("abc"))


def bodies_in(batch: DeliverBatch) -> list[str]:
    """The unique keys of a batch's records."""
    return [
        record.partition(b"UNIQ_KEY\x01")[2].partition(b"\x02")[0].decode()
        for record in batch.block.records()
    ]


async def test_batches_and_marks_keep_their_order() -> None:
    """A mark passes behind the batch that it ends, and the channel closes behind all."""
    rig, batch = due(A, B)
    send, source = trio.open_memory_channel[DequeueBatch | ReadMark](CHANNEL_COUNT)
    sink, receive = trio.open_memory_channel[DeliverBatch | ReadMark](CHANNEL_COUNT)
    mark = ReadMark(LATER_MS, 77)
    for one in (batch, mark, batch):
        send.send_nowait(one)
    send.close()
    await rig.bodies.run(source, sink)
    first, second, third = [one async for one in receive]

    assert isinstance(first, DeliverBatch)
    assert bodies_in(first) == ["a", "b"]
    assert (first.is_last, first.undeliverable, first.left_out) == (True, [], [])
    assert second == mark
    assert isinstance(third, DeliverBatch)


async def test_a_large_batch_goes_in_parts() -> None:
    """By the bytes of the records; one that is larger alone goes alone. Only the last ends it."""
    rig, batch = due(A, B, C)
    sizes = batch.requests["size_py"].tolist()
    sent: dict[int, list[tuple[list[str], bool]]] = {}
    for size_max in (1, sum(sizes[:2]) - 1, sum(sizes[:2]), sum(sizes)):
        stage = DequeueGetMessage(
            store=rig.store,
            files=rig.service.files,
            state=rig.state,
            options=attrs.evolve(TINY, deliver_batch_size_max=size_max),
            counts=rig.counts,
        )
        send, source = trio.open_memory_channel[DequeueBatch | ReadMark](1)
        sink, receive = trio.open_memory_channel[DeliverBatch | ReadMark](CHANNEL_COUNT)
        send.send_nowait(batch)
        send.close()
        await stage.run(source, sink)
        sent[size_max] = [
            (bodies_in(one), one.is_last) async for one in receive if isinstance(one, DeliverBatch)
        ]
    alone = [(["a"], False), (["b"], False), (["c"], True)]

    assert list(sent.values()) == [
        alone,
        alone,
        [(["a", "b"], False), (["c"], True)],
        [(["a", "b", "c"], True)],
    ]


def test_a_cancelled_message_is_left_out() -> None:
    """It is counted, its topic has one less, and its record is named for a mark."""
    rig, batch = due(A, B, delete_of("a", SLOT_MS + 1))
    found = rig.bodies.read(batch.requests, batch.deletes)

    assert bodies_in(found) == ["b"]
    assert [offset_py for offset_py, _ in found.left_out] == [0]
    assert rig.counts.cancelled == 1
    assert rig.service.files.metrics.counts() == {"T": 1}


def test_a_message_that_rolls_is_not_cancelled_on_the_way() -> None:
    """Its delete rolls beside it, and takes effect in the final slot."""
    rig, batch = due(A, B)
    rolling = batch.requests.copy()
    rolling["magic"][0] |= MAGIC_ROLL
    name = b"\x01%d" % rolling["order_py"][0]
    found = rig.bodies.read(rolling, frozenset({name}))

    assert bodies_in(found) == ["a", "b"]
    assert bodies_in(rig.bodies.read(batch.requests, frozenset({name}))) == ["b"]


def test_a_record_that_is_gone_is_to_be_quarantined() -> None:
    """It is told as gone, and its neighbours go on in their order."""
    rig, batch = due(A, B, C)
    lost = batch.requests.copy()
    lost["offset_py"][1] = 1 << 40
    found = rig.bodies.read(lost, batch.deletes)

    assert bodies_in(found) == ["a", "c"]
    assert column(found, "deliver_ms") == [SLOT_MS + 1, SLOT_MS + 3]
    assert [(one.reason, one.offset_py) for one in found.undeliverable] == [(Reason.GONE, 1 << 40)]


@pytest.mark.parametrize(("waited_ms", "is_found"), [(WARM_MS, False), (WARM_MS + 1, True)])
def test_a_body_that_waited_long_is_compared_with_its_checksum(
    waited_ms: int, is_found: bool
) -> None:
    """What was written a short time ago comes from memory as it was written."""
    rig, batch = due(A, B)
    requests = batch.requests.copy()
    stored_ms = int(requests["deliver_ms"][0]) - 1 - 1_000
    requests["deliver_ms"] = stored_ms + waited_ms
    flip_body(rig, int(requests["offset_py"][1]))
    found = rig.bodies.read(requests, frozenset())

    assert [one.reason for one in found.undeliverable] == [Reason.CHECKSUM] * is_found
    assert len(found.block) == 2 - is_found


def test_a_body_that_rolls_is_always_compared() -> None:
    """A roll would write the damage into a new record, with a checksum that fits."""
    rig, batch = due(A, B)
    requests = batch.requests.copy()
    requests["magic"] |= MAGIC_ROLL
    flip_body(rig, int(requests["offset_py"][0]))

    assert bodies_in(rig.bodies.read(requests, frozenset())) == ["b"]


def test_what_rocketmq_delivered_is_left_out_once_for_each_delivery() -> None:
    """Two messages with one key and one delivery: one of them is done."""
    rig, batch = due(A, B)
    (record, _) = rig.bodies.read(batch.requests, frozenset()).block.records()
    rig.state.already_done = AlreadyDone(foreign={pending_key(record): [1 << 40]})
    requests = batch.requests[[0, 0, 1]]

    assert bodies_in(rig.bodies.read(requests, frozenset())) == ["a", "b"]
    assert rig.counts.repeated == 1


def test_what_a_damaged_record_may_have_delivered_is_in_doubt() -> None:
    """By its moment; what could not be due by then goes on."""
    rig, batch = due(A, B)
    doubt = Doubt(position=1 << 40, until_ms=SLOT_MS + 1, topics=None)
    rig.state.already_done = AlreadyDone(doubts=(doubt,))
    found = rig.bodies.read(batch.requests, frozenset())

    assert bodies_in(found) == ["b"]
    assert [one.reason for one in found.undeliverable] == [Reason.IN_DOUBT]


def flip_body(rig: StagesByHand, offset_py: int) -> None:
    """Change the first byte of a body on the disk."""
    (name,) = rig.disk.list_dir(f"{ROOT}/commitlog")
    rig.disk.rot(f"{ROOT}/commitlog/{name}", offset_py + BODY_AT, b"!")
