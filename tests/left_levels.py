"""Stores as a RocketMQ broker leaves them with messages that wait for classic levels."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import attrs

from fakes import ManualClock
from simulation.staged_service import HOST, ROOT, SMALL_FILES
from timermq.pipeline.records.deduplication import origin_of
from timermq.pipeline.records.system_topics import TIMER_TOPIC
from timermq.timerstore.config_file import fastjson, save_json_now
from timermq.timerstore.delay_levels import SCHEDULE_TOPIC
from timermq.timerstore.delay_offset import PATH, DelayOffsets
from timermq.timerstore.disk import Disk
from timermq.timerstore.message import Message
from timermq.timerstore.message_store import MessageStore
from timermq.timerstore.record import decode_record
from timermq.timerstore.store_options import StoreOptions


def waiting(body: str, level: int, *, topic: str = "T", queue_id: int = 0) -> Message:
    """What RocketMQ stores of a message sent with a level; named by its body."""
    return Message(SCHEDULE_TOPIC, level - 1, body.encode(), _text(body, level, topic, queue_id))


def delivered(body: str, level: int, *, topic: str = "T", queue_id: int = 0) -> Message:
    """What RocketMQ stores when it delivers that message: the same text."""
    return Message(topic, queue_id, body.encode(), _text(body, level, topic, queue_id))


def _text(body: str, level: int, topic: str, queue_id: int) -> bytes:
    stated = f"UNIQ_KEY={body};DELAY={level};TAGS=a;REAL_TOPIC={topic};REAL_QID={queue_id};"
    return stated.replace("=", "\x01").replace(";", "\x02").encode()


def leave(
    disk: Disk,
    options: StoreOptions,
    now_ms: Callable[[], int],
    messages: Sequence[Message],
    offsets: Mapping[int, int] | None,
) -> None:
    """Store messages as RocketMQ would, each at its time, and say how far the levels are."""
    store = MessageStore.open(disk, ROOT, options, now_ms=now_ms, store_host=HOST)
    for message in messages:
        (result,) = store.put([message])
        assert result.status.is_stored, result.remark
    store.abandon()
    if offsets is not None:
        version = {"counter": 1, "stateVersion": 0, "timestamp": now_ms()}
        text = fastjson({"dataVersion": version, "offsetTable": dict(offsets)})
        save_json_now(disk, f"{ROOT}/{PATH}", text)


def left_store(
    disk: Disk,
    messages: Sequence[Message],
    offsets: Mapping[int, int] | None,
    moved: tuple[int, int] | None,
) -> MessageStore:
    """A store that RocketMQ left so, served by a broker of ours, which moved one message or none.

    Args:
        disk: Takes it.
        messages: In the order of their storing, 0.6 s apart.
        offsets: How far the levels are.
        moved: Level and queue offset of the message that was moved.
    """
    clock = ManualClock()

    def ticking_ms() -> int:
        clock.time_ms += 600
        return clock.time_ms

    leave(disk, SMALL_FILES, ticking_ms, messages, offsets)
    store = MessageStore.open(disk, ROOT, SMALL_FILES, now_ms=clock.now_ms, store_host=HOST)
    if moved is not None:
        level, offset = moved
        queue = store.queue(SCHEDULE_TOPIC, level - 1)
        assert queue is not None
        origin = origin_of(int(queue.units(offset, 1)["phy_offset"][0]))
        store.put([Message(TIMER_TOPIC, 0, b"b", prepared_offset=origin)])
    return store


@attrs.frozen
class WayBack:
    """What RocketMQ does with the levels of a store as it finds it: all from the offsets on."""

    repeated: dict[str, int]
    """What it delivers although it is on the wheel: body to the time at which it was moved."""
    lost: list[str]
    """Bodies of what it passes over, and is neither delivered nor anywhere else."""
    kept: dict[int, int]
    """The offsets."""


def way_back(disk: Disk, options: StoreOptions, now_ms: Callable[[], int]) -> WayBack:
    """Look at a store, live or killed, as RocketMQ would find it after a kill at this moment."""
    known = DelayOffsets.load(disk, ROOT)
    offsets = {} if known is None else known.offsets
    store = MessageStore.open(disk, ROOT, options, now_ms=now_ms, store_host=HOST, read_only=True)
    log = store.commit_log
    records = [
        decode_record(log.read(phy_offset, size))
        for phy_offset, size in log.scan(log.min_offset, check_crc=True)
    ]
    store.abandon()
    waiting_records = [one for one in records if one.topic == SCHEDULE_TOPIC]
    moved = {origin_of(one.prepared_transaction_offset): one.store_ms for one in records}
    delivered_bodies = {
        one.body for one in records if one.topic == "T" and one.prepared_transaction_offset >= 0
    }
    repeated: dict[str, int] = {}
    lost: list[str] = []
    for one in waiting_records:
        is_next = one.queue_offset >= offsets.get(one.queue_id + 1, 0)
        moved_ms = moved.get(one.phy_offset)
        if is_next and moved_ms is not None:
            repeated[one.body.decode()] = moved_ms
        elif not is_next and moved_ms is None and one.body not in delivered_bodies:
            lost.append(one.body.decode())
    return WayBack(repeated, lost, offsets)
