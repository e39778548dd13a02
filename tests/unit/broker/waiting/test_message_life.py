"""Tests of a message's life on stores that RocketMQ wrote: what became of each message."""

from __future__ import annotations

import pytest

from golden_stores import NAMES, GoldenStores
from timermq.broker.consumer_offset import ConsumerOffsetTable
from timermq.broker.topic_validator import TRANS_GROUP, TRANS_HALF_TOPIC, TRANS_OP_HALF_TOPIC
from timermq.broker.transactions.recovery import recover as recover_transactions
from timermq.broker.waiting.message_life import MessageLives
from timermq.pipeline.offline_store import OfflineStore, open_offline
from timermq.pipeline.store_sizes import measure
from timermq.pipeline.timer_options import TimerOptions
from timermq.timerstore.config_file import load_json
from timermq.timerstore.os_disk import OsDisk
from timermq.timerstore.store_options import StoreOptions

STATES = {
    "stored": "delivered",
    "delivered": "delivered",
    "retried": "delivered",
    "dead letter": "dead_letter",
    "pending": "waiting",
    "pending, rolled": "waiting",
    "waits for retry": "waiting",
    "cancelled": "cancelled",
    "half": "undecided",
    "rolled back": "rolled_back",
    "given up by checks": "discarded",
    "delete marker": "gone",
}
"""What a manifest calls it, and we."""
NOT_FOUND = ("batch",)
"""Kinds whose messages have no unique key of their own in the store."""
DELETED_BY_ANOTHER_NAME = "pending, deleted by property"
"""A kind: the delete that somebody made by hand has a unique key that is not the message's."""


def lives_of(offline: OfflineStore) -> MessageLives:
    """The lives of the messages of a stopped store."""
    store = offline.store
    offsets = ConsumerOffsetTable(now_ms=lambda: 0, version_step=1)
    data = load_json(store.disk, f"{store.root}/{offsets.path}")
    if data is not None:
        offsets.load(data)
    half, op = (
        offsets.query(group=TRANS_GROUP, topic=topic, queue_id=0)
        for topic in (TRANS_HALF_TOPIC, TRANS_OP_HALF_TOPIC)
    )
    return MessageLives(
        store=store,
        quarantine=offline.quarantine(),
        options=offline.timer_options,
        offsets=offsets,
        open_transactions=recover_transactions(store, half, op).open,
        read_ms=offline.timers.read_ms,
    )


@pytest.mark.parametrize("name", NAMES)
def test_every_message_of_a_golden_store(golden_stores: GoldenStores, name: str) -> None:
    """Each stands as RocketMQ's own classes say; what waits does so until the same moment."""
    golden = golden_stores[name]
    disk, root = OsDisk(), str(golden.root)
    store_options, timer_options = measure(disk, root, StoreOptions(), TimerOptions(), [])
    with open_offline(disk, root, store_options, timer_options, with_index=True) as offline:
        lives = lives_of(offline)
        for message in golden.manifest.messages:
            life = lives.of(message.msg_id, message.topic)
            if message.kind in NOT_FOUND:
                expected = "not_found"
            elif message.kind == DELETED_BY_ANOTHER_NAME:
                expected = "waiting"
            else:
                expected = STATES[message.state]
            assert (message.kind, life.now.value) == (message.kind, expected)
            held = [one for one in message.held if one.topic == "rmq_sys_wheel_timer"]
            if message.state.startswith("pending") and held:
                assert life.deliver_ms == message.deliver_ms
            assert life.is_whole
