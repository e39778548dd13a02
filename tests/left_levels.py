"""Stores as a RocketMQ broker leaves them with messages that wait for classic levels."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from simulation.staged_service import HOST, ROOT
from timermq.timerstore.config_file import fastjson, save_json_now
from timermq.timerstore.delay_levels import SCHEDULE_TOPIC
from timermq.timerstore.delay_offset import PATH
from timermq.timerstore.disk import Disk
from timermq.timerstore.message import Message
from timermq.timerstore.message_store import MessageStore
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
