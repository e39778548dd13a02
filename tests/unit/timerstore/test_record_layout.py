"""Tests of the declared layouts of the commit log."""

from __future__ import annotations

from timermq.timerstore import record_layout
from timermq.timerstore.record_layout import (
    BODY_AT,
    BORN_V6,
    FIXED_SIZE_V2,
    HEAD,
    HEADS,
    STORE_V6,
    V6_BITS,
    V6_EXTRA,
)


def test_positions() -> None:
    """Fields stand where RocketMQ has them."""
    positions = {
        name: getattr(record_layout, name) for name in vars(record_layout) if name.endswith("_AT")
    }

    assert positions == {
        "MAGIC_AT": 4,
        "QUEUE_ID_AT": 12,
        "QUEUE_OFFSET_AT": 20,
        "PHY_OFFSET_AT": 28,
        "SYS_FLAG_AT": 36,
        "V6_FLAGS_AT": 39,
        "BORN_MS_AT": 40,
        "BORN_HOST_AT": 48,
        "STORE_MS_AT": 56,
        "STORE_HOST_AT": 64,
        "PREPARED_OFFSET_AT": 76,
        "BODY_LENGTH_AT": 84,
        "BODY_AT": 88,
    }
    assert FIXED_SIZE_V2 == 92


def test_each_ipv6_host_takes_12_bytes_more() -> None:
    """The head of a record is 88, 100 or 112 bytes long."""
    assert {flags: head.size for flags, head in HEADS.items()} == {
        0: BODY_AT,
        BORN_V6: BODY_AT + V6_EXTRA,
        STORE_V6: BODY_AT + V6_EXTRA,
        V6_BITS: BODY_AT + 2 * V6_EXTRA,
    }


def test_the_declaration_gives_the_table() -> None:
    """The format page has a row for every field."""
    assert len(HEAD.fields) + 2 == len(HEAD.table())
