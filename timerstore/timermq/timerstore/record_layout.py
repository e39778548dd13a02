"""The layouts of the commit log: a record up to its body, what follows the body, a blank.

::

    0   total size i32      28  position i64           76   prepared offset i64
    4   magic i32           36  sysFlag i32            84   body size i32, body
    8   body CRC i32        40  born time i64          …    topic size i8 (V1) or i16 (V2), topic
    12  queue id i32        48  born host 8 or 20      …    property size i16, properties
    16  flag i32            56  store time i64
    20  queue offset i64    64  store host 8 or 20, 72 reconsume times i32

Positions hold for IPv4 hosts; each IPv6 host moves what follows by 12 bytes. V2 is for topics
longer than 127 bytes. The tail of a segment that has no room for a record is a blank: its size, a
magic of its own, anything. Zeros are neither.

Source: Java ``MessageExtEncoder``, ``CommitLog.DefaultAppendMessageCallback``.
"""

from __future__ import annotations

from .layout import Layout
from .message import HOST_SIZE_V4, HOST_SIZE_V6, SysFlag

MAGIC_V1 = -626843481
MAGIC_V2 = -626843477
BLANK_MAGIC = -875286124

TOPIC_SIZE_V1_MAX = 127
"""Bytes; Java reads the length of a V1 topic as a signed byte."""
TOPIC_SIZE_V2_MAX = 32_767
"""Bytes; a signed 16-bit length."""

V6_EXTRA = HOST_SIZE_V6 - HOST_SIZE_V4
"""Bytes by which an IPv6 host is longer."""

BODY_CRC_MASK = 0x7FFFFFFF
"""Bits of a body's CRC-32 that are stored."""


def head_layout(born_size: int, store_size: int) -> Layout:
    """Everything before the body, for hosts of these sizes."""
    return Layout(
        "commit log record, up to the body",
        ">",
        (
            ("total_size", "i", "bytes of the record, this field included"),
            ("magic", "i", "0xDAA320A7 (V1) or 0xDAA320AB (V2)"),
            ("body_crc", "i", "CRC-32 of the body without its highest bit"),
            ("queue_id", "i", "queue of the topic"),
            ("flag", "i", "the user's flag"),
            ("queue_offset", "q", "number of the message in its queue"),
            ("phy_offset", "q", "position of the record in the log"),
            ("sys_flag", "i", "see SysFlag"),
            ("born_ms", "q", "producer's clock, epoch ms"),
            ("born_host", f"{born_size}s", "producer's address: 4 or 16 bytes, port i32"),
            ("store_ms", "q", "broker's clock, epoch ms"),
            ("store_host", f"{store_size}s", "broker's address: 4 or 16 bytes, port i32"),
            ("reconsume_times", "i", "how often a group asked for it again"),
            ("prepared_transaction_offset", "q", "position of the half message"),
            ("body_length", "i", "bytes of the body"),
        ),
    )


HEAD = head_layout(HOST_SIZE_V4, HOST_SIZE_V4)
"""Everything before the body, for IPv4 hosts."""
TAIL = Layout(
    "commit log record, behind the body (V1)",
    ">",
    (
        ("topic_length", "b", "bytes of the topic that follows; i16 in V2"),
        ("properties_length", "h", "bytes of the properties that follow"),
    ),
)
BLANK = Layout(
    "commit log blank",
    ">",
    (
        ("size", "i", "bytes from here to the end of the segment"),
        ("magic", "i", "0xCBD43194"),
    ),
)
BLANK_SIZE = BLANK.size
"""Bytes of a blank that are written; every segment keeps room for it."""

MAGIC_AT = HEAD.offset_of("magic")
QUEUE_ID_AT = HEAD.offset_of("queue_id")
QUEUE_OFFSET_AT = HEAD.offset_of("queue_offset")
PHY_OFFSET_AT = HEAD.offset_of("phy_offset")
SYS_FLAG_AT = HEAD.offset_of("sys_flag")
BORN_MS_AT = HEAD.offset_of("born_ms")
BORN_HOST_AT = HEAD.offset_of("born_host")
STORE_MS_AT = HEAD.offset_of("store_ms")
STORE_HOST_AT = HEAD.offset_of("store_host")
PREPARED_OFFSET_AT = HEAD.offset_of("prepared_transaction_offset")
BODY_LENGTH_AT = HEAD.offset_of("body_length")
BODY_AT = HEAD.size
"""From the store time on: positions for IPv4 hosts."""

FIXED_SIZE_V1 = HEAD.size + TAIL.size
FIXED_SIZE_V2 = FIXED_SIZE_V1 + 1
assert (FIXED_SIZE_V1, BODY_AT, BODY_LENGTH_AT, STORE_MS_AT, BLANK_SIZE) == (91, 88, 84, 56, 8)

RECORD_HEAD = HEAD.struct
"""``HEAD`` for the hot path: 15 fields, 88 bytes."""

# The operators of an IntFlag cost half a microsecond each, plain integers nothing.
BORN_V6 = int(SysFlag.BORN_HOST_V6)
STORE_V6 = int(SysFlag.STORE_HOST_V6)
V6_BITS = BORN_V6 | STORE_V6
"""The bits of sysFlag that choose the head, all in its last byte."""
V6_FLAGS_AT = SYS_FLAG_AT + 3

HEADS = {
    0: RECORD_HEAD,
    BORN_V6: head_layout(HOST_SIZE_V6, HOST_SIZE_V4).struct,
    STORE_V6: head_layout(HOST_SIZE_V4, HOST_SIZE_V6).struct,
    V6_BITS: head_layout(HOST_SIZE_V6, HOST_SIZE_V6).struct,
}
"""``V6_BITS`` of a record to the struct of its head."""
