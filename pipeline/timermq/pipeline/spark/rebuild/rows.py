"""The rows that a rebuild works with."""

from __future__ import annotations

from ..tables.declaration import Column, Table

DONE = Table(
    name="timermq.rebuild",
    title="What is done, or the records that it may be.",
    columns=(
        Column("origin_py", "long", "position of a timer record"),
        Column("foreign_key", "binary", "by which RocketMQ's deliveries are known: they name none"),
        Column("taken_py", "long", "order of a message that a delete of ours takes back"),
        Column("entry", "long", "entry of a delete, behind which a moved message has to stand"),
        Column("target_py", "long", "the record for which that message stands in"),
    ),
)
UNITS = Table(
    name="timermq.rebuild",
    title="Entries of the timer topic.",
    columns=(
        Column("offset_py", "long", "position of the record"),
        Column("slot_ms", "long", "the slot of its unit"),
        Column("order_py", "long", "position of the message's first record"),
        Column("queue_offset", "long", "the entry, if no unit can be made of it"),
        Column("unit", "binary", "the unit without its link; null if none can be made"),
    ),
)
