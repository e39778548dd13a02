"""Stores as RocketMQ leaves them: begun by it, or had by it between two of our processes.

It knows nothing of what is ours beside its numbers: blocks in both checkpoints end in a checksum of
these numbers, so they do not count when it has written them. What it has not done is not in the
files: it has served no client.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator

from timermq.client.history import Ack, Event, Send
from timermq.remoting.stored_message import property_text
from timermq.timerlog.timer_checkpoint import CHECKPOINT
from timermq.timerstore.config_file import fastjson, save_json_now
from timermq.timerstore.delay_levels import SCHEDULE_TOPIC
from timermq.timerstore.delay_offset import PATH as DELAY_OFFSET
from timermq.timerstore.disk import Disk
from timermq.timerstore.file_family import FileFamily, family_of
from timermq.timerstore.message import Message, pack_host
from timermq.timerstore.message_store import MessageStore
from timermq.timerstore.store_checkpoint import PAGE
from timermq.timerstore.store_options import StoreOptions

from .disks.disk_damage import read_image
from .disks.memory_disk import MemoryDisk
from .scenario import Begun, Loss
from .staged.staged_clock import START_MS
from .staged.staged_message import body_of
from .steps import Item, key_of, unique_key

WHO = "rocketmq"
AGE_MS = 8_000
"""So long before the beginning the first message was stored."""
APART_MS = 100

_LOST: dict[Loss, FileFamily] = {
    Loss.WHEEL: FileFamily.TIMER_WHEEL,
    Loss.TIMER_LOG: FileFamily.TIMER_LOG,
    Loss.TIMER_LOG_END: FileFamily.TIMER_LOG,
    Loss.TIMER_CHECKPOINT: FileFamily.TIMER_CHECKPOINT,
    Loss.STORE_CHECKPOINT: FileFamily.STORE_CHECKPOINT,
    Loss.INDEX: FileFamily.INDEX,
    Loss.SEALS: FileFamily.SEALS,
}


def begin(
    disk: MemoryDisk,
    root: str,
    begun: Begun,
    options: StoreOptions,
    tell: Callable[[Event], None],
) -> None:
    """Write such a store, as a kill of RocketMQ leaves it, and tell what its producers saw.

    Args:
        disk: Empty.
        root: The store's directory.
        begun: What is in it.
        options: Sizes of its files, and its levels.
        tell: Takes events for the history.
    """
    now_ms, known = START_MS, Counter[int]()
    store = MessageStore.open(
        disk,
        root,
        options,
        now_ms=lambda: now_ms,
        store_host=pack_host("127.0.0.1", 10_911),
    )
    for now_ms, item, message in sorted(_messages(begun, options), key=lambda one: one[0]):
        (result,) = store.put([message])
        assert result.status.is_stored, result.remark
        if message.topic == SCHEDULE_TOPIC:
            _tell_sent(tell, item, now_ms + options.delay_levels_ms[item.level - 1])
        else:
            known[item.level] += known[item.level] < (begun.known or 0)
    store.abandon()
    disk.process_kill()
    if begun.known is not None:
        version = {"counter": 1, "stateVersion": 0, "timestamp": now_ms}
        text = fastjson({"dataVersion": version, "offsetTable": dict(known)})
        save_json_now(disk, f"{root}/{DELAY_OFFSET}", text)
    for loss in (Loss.SEALS, Loss.STORE_CHECKPOINT):
        lose(disk, root, loss)
    for path in read_image(disk, root):
        disk.sync_now(disk.open(path))
        disk.sync_dir_now(path.rpartition("/")[0])
    disk.process_kill()


def _messages(begun: Begun, options: StoreOptions) -> Iterator[tuple[int, Item, Message]]:
    """Every record with the time at which it was stored."""
    arrived = Counter[int]()
    for nth, item in enumerate(begun.items):
        stored_ms = START_MS - AGE_MS + nth * APART_MS
        yield stored_ms, item, Message(SCHEDULE_TOPIC, item.level - 1, body_of(item), _text(item))
        due_ms = stored_ms + options.delay_levels_ms[item.level - 1]
        if due_ms < START_MS and arrived[item.level] < begun.arrived:
            arrived[item.level] += 1
            yield due_ms, item, Message(item.topic, item.queue_id, body_of(item), _text(item))


def _text(item: Item) -> bytes:
    """The properties; those of a message on its topic are the same."""
    pairs = {
        "KEYS": key_of(item.number),
        "UNIQ_KEY": unique_key(item.number),
        "DELAY": str(item.level),
        "REAL_TOPIC": item.topic,
        "REAL_QID": str(item.queue_id),
    }
    return property_text(pairs)


def _tell_sent(tell: Callable[[Event], None], item: Item, deliver_ms: int) -> None:
    name = unique_key(item.number)
    tell(
        Send(
            at_ms=START_MS,
            who=WHO,
            message_id=name,
            topic=item.topic,
            queue=item.queue_id,
            level=item.level,
            keys=(key_of(item.number),),
        )
    )
    tell(
        Ack(
            at_ms=START_MS,
            who=WHO,
            message_id=name,
            queue=item.queue_id,
            offset=0,
            deliver_ms=deliver_ms,
        )
    )


def hand_back(disk: Disk, root: str) -> bool:
    """RocketMQ has had a store that was stopped in order; False when that was not."""
    if not disk.exists(root) or disk.exists(f"{root}/{FileFamily.ABORT.value}"):
        return False
    numbers = (
        (FileFamily.TIMER_CHECKPOINT, CHECKPOINT.offset_of("counter")),
        (FileFamily.STORE_CHECKPOINT, PAGE.offset_of("master_flushed_offset")),
    )
    for family, at in numbers:
        path = f"{root}/{family.value}"
        if disk.exists(path):
            file = disk.open(path)
            number = int.from_bytes(file.read(at, 8)) + 1
            file.write(at, number.to_bytes(8))
            disk.sync_now(file)
            file.close()
    return True


def lose(disk: Disk, root: str, loss: Loss) -> bool:
    """A file is gone, durably; False when there was none."""
    if not disk.exists(root):
        return False
    family = _LOST[loss]
    paths = [path for path in sorted(read_image(disk, root)) if family_of(root, path) is family]
    if loss is Loss.TIMER_LOG_END:
        paths = paths[-1:]
    for path in paths:
        disk.remove(path)
        disk.sync_dir_now(path.rpartition("/")[0])
    return bool(paths)
