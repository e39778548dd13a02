"""Blocks of bulk scheduling: columns that are written as they were read, or a refusal."""

from __future__ import annotations

from zlib import crc32

import numpy as np

from timermq.remoting.bulk_block import BulkBlock, BulkBlockError, BulkColumn, block_head

HEAD_SIZE, CRC_AT = 16, 12


def seeds() -> list[bytes]:
    """Blocks with and without properties, moments and queues; and one with a byte changed."""
    plain = BulkBlock.of("T", BulkColumn.of([b"hi", b""])).encode()
    full = BulkBlock.of(
        "Topic",
        BulkColumn.of([b"hi", b"", b"x" * 70]),
        deliver_ms=np.array([1_795_226_657_300, 0, -1]),
        queue_ids=np.array([-1, 3, 7], np.int32),
        properties={
            "KEYS": BulkColumn.of([b"k", b"", b"a b"]),
            "own": BulkColumn.of([b"", b"", "ü".encode()]),
        },
    ).encode()
    return [plain, full, full[:-1] + b"?"]


def fuzz_one(data: bytes) -> None:
    """As it is, and with the checksum that belongs to it: else little gets behind the head."""
    _check(data)
    if len(data) >= HEAD_SIZE:
        crc = crc32(data[HEAD_SIZE:], crc32(data[:CRC_AT]))
        _check(data[:CRC_AT] + crc.to_bytes(4, "little") + data[HEAD_SIZE:])


def _check(data: bytes) -> None:
    try:
        block = BulkBlock.decode(data)
    except BulkBlockError:
        return
    names, topic_size, rows = block_head(data)
    columns = [block.bodies, *block.properties.values()]
    assert (len(block.properties), len(block.topic.encode()), len(block)) == (
        names,
        topic_size,
        rows,
    )
    assert all(len(one.sizes) == len(one.each()) == rows for one in columns)
    assert block.encode() == data
