"""The valid part of an index file that may not have been closed cleanly.

The header is written last, when entries and slots are durable, so what it counts is true. The slots
may say more, or less:

| slots on the disk | why | decision |
| --- | --- | --- |
| all below the header's count, as many in use as it says | no flush was under way | taken |
| one at or above the count | slots were written, the header was not | made again |
| fewer or more in use | some pages were lost | made again |

Slots are made again from the entries, which are looked at on this way: the first that cannot be one
(position going back, link that does not descend) and all behind it are dropped. A caller that fills
the index adds them again, because the header then says less.

Java instead destroys an index file that ends later than its checkpoint says.
"""

from __future__ import annotations

import attrs
import numpy as np
from numpy.typing import NDArray

from .disk import File
from .index_layout import ENTRY, ENTRY_DTYPE, HEADER, SLOT_SIZE, IndexHeader
from .index_slots import SlotTable

SCAN_COUNT = 1 << 14
"""Entries looked at in one step."""


def recover_slots(
    file: File, header: IndexHeader, slot_count: int
) -> tuple[SlotTable, IndexHeader]:
    """The slots of a file, and the header that counts exactly the entries that are good.

    Nothing is written: pages that have to be are dirty in the table.
    """
    table = SlotTable.load(file, HEADER.size, slot_count)
    if not table.agrees(index_count=header.index_count, used_count=header.hash_slot_count):
        table.clear()
        header = _scan_entries(file, header, table)
        table.mark_difference(file, HEADER.size)
    return table, header


def _scan_entries(file: File, header: IndexHeader, table: SlotTable) -> IndexHeader:
    """Put all good entries into ``table``."""
    slot_count = len(table.numbers)
    entries_at = HEADER.size + slot_count * SLOT_SIZE
    number, end_py, end_ms = 1, header.begin_phy_offset, header.begin_timestamp
    while number < header.index_count:
        count = min(SCAN_COUNT, header.index_count - number)
        data = file.read(entries_at + number * ENTRY.size, count * ENTRY.size)
        entries = np.frombuffer(data, ENTRY_DTYPE)
        numbers = np.arange(number, number + count, dtype=np.int32)
        good = _good_count(entries, numbers, after_py=end_py, end_py=header.end_phy_offset)
        slots = entries["key_hash"][:good].astype(np.int64) % slot_count
        table.put(slots, numbers[:good])
        number += good
        if good:
            end_py = int(entries["phy_offset"][good - 1])
            end_ms = header.begin_timestamp + 1000 * int(entries["time_diff"][good - 1])
        if good < count:
            break
    used_count = table.used_count()
    if number == header.index_count:
        return attrs.evolve(header, hash_slot_count=used_count)
    if number == 1:
        return IndexHeader()
    return attrs.evolve(
        header,
        end_timestamp=end_ms,
        end_phy_offset=end_py,
        hash_slot_count=used_count,
        index_count=number,
    )


def _good_count(
    entries: NDArray[np.void], numbers: NDArray[np.int32], *, after_py: int, end_py: int
) -> int:
    """How many entries from the front can be entries."""
    offsets_py = entries["phy_offset"].astype(np.int64)
    is_bad = (entries["key_hash"] < 0) | (entries["time_diff"] < 0) | (offsets_py > end_py)
    is_bad |= (entries["previous"] < 0) | (entries["previous"] >= numbers)
    is_bad |= np.diff(offsets_py, prepend=after_py) < 0
    return int(is_bad.argmax()) if is_bad.any() else len(entries)
