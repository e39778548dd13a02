"""Messages with their keys, for tests of the index."""

from __future__ import annotations

from collections.abc import Sequence

import attrs

from timermq.timerstore.index_keys import KeyColumns, index_text
from timermq.timerstore.index_service import IndexService


@attrs.frozen
class IndexEntry:
    """The keys of one message."""

    topic: str
    keys: list[bytes]
    phy_offset: int
    store_ms: int


def add_batch(index: IndexService, entries: Sequence[IndexEntry]) -> None:
    """Add the keys of some messages to the index, as one batch."""
    columns = KeyColumns()
    for entry in entries:
        for key in entry.keys:
            columns.texts.append(index_text(entry.topic.encode(), key))
            columns.offsets_py.append(entry.phy_offset)
            columns.stores_ms.append(entry.store_ms)
    index.add(columns.hashed())
