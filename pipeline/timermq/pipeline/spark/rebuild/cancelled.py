"""Which messages deletes of ours cancel, whatever they were rolled to.

A delete names the record that waited then. What waits for a roll is rolled all the same, and its
copy has no delete of its own: the delete's unit takes it out of its last slot, by the message's
order. So here a message is cancelled by its order.

A delete that makes way for a moved message counts if that stands behind it in the timer topic: a
power cut may have kept the first alone (``EnqueueGet``). Within a chunk that is looked at at once;
for its last delete the next chunk says with what it begins.
"""

from __future__ import annotations

import attrs
import numpy as np
from pyspark.sql import DataFrame

from timermq.timerstore.number_text import number_in
from timermq.timerstore.record import record_properties

from ...records.record_effect import Effect, effect_of_entry
from ...records.timer_properties import (
    DELETE_ORDER,
)
from ...records.timer_record import deleted_order
from ...records.torn_move import makes_way_for
from ..record_chunks import RecordChunk


@attrs.frozen
class TakenRow:
    """A delete, or what may stand behind one."""

    order_py: int | None
    """Of the message that is cancelled; None for a message that has moved."""
    entry: int | None = None
    """The delete's place in the timer topic, where a moved message has to follow."""
    target_py: int | None = None
    """Position of the record for which that message stands in."""


def taken_rows(entries: RecordChunk) -> list[TakenRow]:
    """The cancels in some entries of the timer topic, in their order."""
    found: list[TakenRow] = []
    if len(entries) and (target_py := _moved_from(entries, 0)) is not None:
        found.append(TakenRow(None, _entry(entries, 0) - 1, target_py))
    for row in rows_with(entries, DELETE_ORDER):
        properties = record_properties(entries.record(row))
        order_py = number_in(deleted_order(properties))
        if order_py is None:
            continue
        target_py = makes_way_for(properties)
        if target_py is None:
            found.append(TakenRow(order_py))
        elif row + 1 == len(entries):
            found.append(TakenRow(order_py, _entry(entries, row), target_py))
        elif _moved_from(entries, row + 1) == target_py:
            found.append(TakenRow(order_py))
    return found


def cancelled_orders(rows: DataFrame) -> DataFrame:
    """The orders of the messages that are cancelled, as ``taken_py``.

    Args:
        rows: ``TakenRow`` as columns; others have neither an order nor an entry.
    """
    deletes = rows.where("taken_py is not null")
    moved = rows.where("taken_py is null and entry is not null").select("entry", "target_py")
    at_once = deletes.where("entry is null")
    across = deletes.where("entry is not null").join(moved, ["entry", "target_py"], "left_semi")
    return at_once.select("taken_py").union(across.select("taken_py")).distinct()


def rows_with(chunk: RecordChunk, mark: bytes) -> list[int]:
    """The records in whose bytes a text stands."""
    found: list[int] = []
    ends = chunk.ends
    at = chunk.data.find(mark)
    while at >= 0:
        row = int(np.searchsorted(chunk.starts, at, side="right")) - 1
        if row >= 0 and at < ends[row]:
            found.append(row)
        if row + 1 >= len(chunk):
            break
        # On with the next record: once is enough.
        at = chunk.data.find(mark, int(chunk.starts[row + 1]))
    return found


def _moved_from(entries: RecordChunk, row: int) -> int | None:
    """The record for which an entry stands in, with another moment; None for any other entry."""
    origins, named = entries.origins
    if not named[row]:
        return None
    properties = record_properties(entries.record(row))
    return int(origins[row]) if effect_of_entry(properties) is Effect.MOVED else None


def _entry(entries: RecordChunk, row: int) -> int:
    return int(entries.heads["queue_offset"][row])
