"""Where a text is looked for in many records: in all bytes of small ones, behind large bodies."""

from __future__ import annotations

import numpy as np

from small_store import message, open_store, small_options
from timermq.simulator.disks.memory_disk import MemoryDisk
from timermq.timerstore.message import Message, SysFlag
from timermq.timerstore.record_block import BODY_LOOKED_MAX, RecordBlock


def block_of(messages: list[Message]) -> RecordBlock:
    """The records of a store of these messages."""
    options = small_options(mapped_file_size_commit_log=1 << 20)
    store = open_store(MemoryDisk(), options=options)
    results = store.put(messages)
    positions = np.array([one.phy_offset for one in results], np.int64)
    sizes = np.array([one.size for one in results], np.int64)
    block = store.commit_log.block_at(positions, sizes)
    assert block is not None
    return block


def test_a_text_is_found_in_properties_and_not_in_large_bodies() -> None:
    """In small records bodies are looked through as well, and so is what has an IPv6 address."""
    large = "NAME" + "b" * BODY_LOOKED_MAX
    plain = message(large, properties=b"K\x01v\x02")
    named = message(large, properties=b"NAME\x01v\x02")
    odd = message(large, sys_flag=SysFlag.BORN_HOST_V6, born_host=bytes(20))

    assert b"NAME" not in block_of([plain, plain]).text_behind_bodies()
    text = block_of([plain, named, plain]).text_behind_bodies()
    assert b"NAME\x01v\x02" in text
    assert text.count(b"NAME") == 1
    assert b"NAME" in block_of([message("NAME")] * 3).text_behind_bodies()
    block = block_of([plain, odd])
    assert block.text_behind_bodies() == block.data
