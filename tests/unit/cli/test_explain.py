"""Tests of a message's life on stores that RocketMQ wrote: what became of each message."""

from __future__ import annotations

import pytest

from golden_stores import NAMES, GoldenStores
from timermq.broker.pending.message_life import Now, at_once
from timermq.cli.stored_life import lives_of
from timermq.pipeline.offline_store import open_offline
from timermq.pipeline.recovery.store_sizes import measure
from timermq.pipeline.state.timer_options import TimerOptions
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


@pytest.mark.parametrize("name", NAMES)
def test_every_message_of_a_golden_store(golden_stores: GoldenStores, name: str) -> None:
    """Each stands as RocketMQ's own classes say; what waits does so until the same moment."""
    golden = golden_stores[name]
    disk, root = OsDisk(), str(golden.root)
    store_options, timer_options = measure(disk, root, StoreOptions(), TimerOptions(), [])
    with open_offline(disk, root, store_options, timer_options) as offline:
        for message in golden.manifest.messages:
            lives = lives_of(offline, message.msg_id)
            life = at_once(lives.of(message.msg_id, message.topic))
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
            assert (life.deliver_ms is not None) is (life.now is Now.WAITING)
            assert life.is_whole
