"""The life of one message as the store of a stopped broker tells it."""

from __future__ import annotations

from timermq.broker.pending.explain_processor import life_row
from timermq.broker.pending.message_life import MessageLives, at_once
from timermq.broker.transactions.recovery import recover as recover_transactions
from timermq.pipeline.offline_store import OfflineStore
from timermq.pipeline.records.cancel_verdict import CancelError
from timermq.timerstore.errors import StoreError

from .offline_store import consumer_offsets
from .output import Row


def stored_life(offline: OfflineStore, unique_key: str, topic: str | None) -> Row:
    """The life of a message, as a broker would answer it.

    Args:
        offline: The store.
        unique_key: The message's.
        topic: Where to look too, for what was sent without a delay; None: nowhere.

    Raises:
        StoreError: Its tables cannot be read, or too many records have the key.
    """
    try:
        return life_row(at_once(lives_of(offline, unique_key).of(unique_key, topic)))
    except CancelError as error:
        root = offline.store.root
        raise StoreError(f"{root}: EXPLAIN_TOO_COMMON: {error.text}") from error


def lives_of(offline: OfflineStore, unique_key: str) -> MessageLives:
    """The messages of a stopped store that have a unique key."""
    offsets = consumer_offsets(offline.store)
    return MessageLives(
        source=offline.find(unique_key),
        quarantine=offline.quarantine(),
        options=offline.timer_options,
        offsets=offsets,
        open_transactions=recover_transactions(offline.store, offsets).open,
        read_ms=offline.timers.read_ms,
    )
