"""What stands in the commit log of a stopped store, of any writer."""

from __future__ import annotations

from pathlib import Path

from timermq.timerstore.message import NO_HOST
from timermq.timerstore.message_store import MessageStore
from timermq.timerstore.os_disk import OsDisk
from timermq.timerstore.record import Record, decode_record
from timermq.timerstore.store_options import StoreOptions


def stored_records(
    store: Path, topic: str = "", options: StoreOptions | None = None
) -> list[Record]:
    """The records of a topic, or all of them, in the order of the log.

    Consumers are no witness: they get again what they had not acknowledged before a kill.
    """
    opened = MessageStore.open(
        OsDisk(),
        str(store),
        options or StoreOptions(),
        now_ms=lambda: 0,
        store_host=NO_HOST,
        read_only=True,
    )
    log = opened.commit_log
    records = [
        decode_record(log.read(phy_offset, size))
        for phy_offset, size in log.scan(log.min_offset, check_crc=True)
    ]
    opened.abandon()
    return [one for one in records if topic in ("", one.topic)]
