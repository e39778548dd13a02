"""Tests of which rows of a job the log has."""

from __future__ import annotations

from damaged_stores import flip_bit
from small_store import ROOT, message, open_store, small_options
from timermq.broker.bulk.block_rows import ROW_DIGITS
from timermq.broker.bulk.ingest_progress import ingested_rows
from timermq.simulator.disks.memory_disk import MemoryDisk

TAG = b"job-"


async def test_rows_behind_damage_count() -> None:
    """Adopted again they would come twice."""
    disk = MemoryDisk()
    store = open_store(disk, options=small_options(mapped_file_size_commit_log=1 << 16))
    (damaged,) = store.put([message(topic="P")])
    for row in range(5):
        key = b"%b%0*d" % (TAG, ROW_DIGITS, row)
        store.put([message(properties=b"UNIQ_KEY\x01%b\x02" % key)])
    flip_bit(disk, f"{ROOT}/commitlog/{0:020}", damaged.phy_offset + 2, 0x01)
    rows = await ingested_rows(store.commit_log, first_py=0, tag=TAG, first=1)

    assert rows.tolist() == [1, 2, 3, 4]
