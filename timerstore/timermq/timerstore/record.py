"""Commit-log records: one message as it stands in the log, decoded and encoded.

The bytes are declared in ``record_layout`` and looked into by ``record_spans``; the names of both
that readers of records need are names of this module too.

Source: Java ``MessageExtEncoder``, ``MessageDecoder``.
"""

from __future__ import annotations

import struct
import zlib

import attrs

from . import properties as property_text
from .message import HOST_SIZE_V4, HOST_SIZE_V6, Message
from .message_id import offset_message_id
from .properties import PROPERTIES_SIZE_MAX
from .record_layout import BLANK, BODY_CRC_MASK, BORN_V6, HEADS, STORE_V6, V6_BITS, V6_FLAGS_AT
from .record_layout import BLANK_MAGIC as BLANK_MAGIC
from .record_layout import BLANK_SIZE as BLANK_SIZE
from .record_layout import BODY_AT as BODY_AT
from .record_layout import BODY_LENGTH_AT as BODY_LENGTH_AT
from .record_layout import BORN_HOST_AT as BORN_HOST_AT
from .record_layout import BORN_MS_AT as BORN_MS_AT
from .record_layout import FIXED_SIZE_V1 as FIXED_SIZE_V1
from .record_layout import FIXED_SIZE_V2 as FIXED_SIZE_V2
from .record_layout import MAGIC_V1 as MAGIC_V1
from .record_layout import MAGIC_V2 as MAGIC_V2
from .record_layout import PHY_OFFSET_AT as PHY_OFFSET_AT
from .record_layout import PREPARED_OFFSET_AT as PREPARED_OFFSET_AT
from .record_layout import QUEUE_ID_AT as QUEUE_ID_AT
from .record_layout import QUEUE_OFFSET_AT as QUEUE_OFFSET_AT
from .record_layout import RECORD_HEAD as RECORD_HEAD
from .record_layout import STORE_HOST_AT as STORE_HOST_AT
from .record_layout import STORE_MS_AT as STORE_MS_AT
from .record_layout import SYS_FLAG_AT as SYS_FLAG_AT
from .record_layout import TOPIC_SIZE_V1_MAX as TOPIC_SIZE_V1_MAX
from .record_layout import TOPIC_SIZE_V2_MAX as TOPIC_SIZE_V2_MAX
from .record_layout import V6_EXTRA as V6_EXTRA
from .record_spans import RecordError as RecordError
from .record_spans import head_size as head_size
from .record_spans import record_body as record_body
from .record_spans import record_properties as record_properties
from .record_spans import record_spans as record_spans
from .record_spans import record_topic as record_topic

_HOST_SIZES = (HOST_SIZE_V4, HOST_SIZE_V6)


@attrs.frozen(kw_only=True)
class Record:
    """A decoded record: exactly the stored fields; hosts are packed."""

    phy_offset: int
    """Position in the log."""
    size: int
    """Bytes of the whole record."""
    magic: int
    body_crc: int
    topic: str
    queue_id: int
    queue_offset: int
    flag: int
    sys_flag: int
    born_ms: int
    born_host: bytes
    store_ms: int
    store_host: bytes
    reconsume_times: int
    prepared_transaction_offset: int
    body: bytes
    """As stored: compressed if ``sys_flag`` says so, see ``body_codec``."""
    properties: bytes
    """Property text as stored."""

    def properties_dict(self) -> dict[str, str]:
        """The values of the properties by name."""
        return property_text.parse(self.properties)

    @property
    def unique_id(self) -> str | None:
        """UNIQ_KEY; None of a message without."""
        return self._property(property_text.UNIQ_KEY_NAME)

    @property
    def keys(self) -> str:
        """The user's keys, separated by blanks; empty without any."""
        return self._property(property_text.KEYS_NAME) or ""

    @property
    def tags(self) -> str:
        """The tag; empty without one."""
        return self._property(property_text.TAGS_NAME) or ""

    @property
    def offset_message_id(self) -> str:
        """Store host and position as hexadecimal digits."""
        return offset_message_id(self.store_host, self.phy_offset)

    def _property(self, name: bytes) -> str | None:
        value = property_text.find(self.properties, name)
        return None if value is None else value.decode("utf-8", "replace")


def decode_record(data: bytes) -> Record:
    """Read a whole record.

    Raises:
        RecordError: A length does not fit, the magic is unknown, or the topic is not UTF-8.
    """
    body_end, topic_at, topic_end, properties_end = record_spans(data)
    head = HEADS[data[V6_FLAGS_AT] & V6_BITS]
    (
        size,
        magic,
        body_crc,
        queue_id,
        flag,
        queue_offset,
        phy_offset,
        sys_flag,
        born_ms,
        born_host,
        store_ms,
        store_host,
        reconsume_times,
        prepared_transaction_offset,
        _,
    ) = head.unpack_from(data)
    if not properties_end == size == len(data):
        raise RecordError(
            f"record at {phy_offset}: total size: expected {properties_end}, found {size} "
            f"in {len(data)} bytes"
        )
    try:
        topic = data[topic_at:topic_end].decode()
    except UnicodeDecodeError as error:
        raise RecordError(f"record at {phy_offset}: topic: {error}") from None
    return Record(
        phy_offset=phy_offset,
        size=size,
        magic=magic,
        body_crc=body_crc,
        topic=topic,
        queue_id=queue_id,
        queue_offset=queue_offset,
        flag=flag,
        sys_flag=sys_flag,
        born_ms=born_ms,
        born_host=born_host,
        store_ms=store_ms,
        store_host=store_host,
        reconsume_times=reconsume_times,
        prepared_transaction_offset=prepared_transaction_offset,
        body=data[head.size : body_end],
        properties=data[topic_end + 2 : properties_end],
    )


def encode_record(
    message: Message, *, queue_offset: int, phy_offset: int, store_ms: int, store_host: bytes
) -> bytes:
    """One record; the hot path of the store writes the same bytes in batches.

    Raises:
        RecordError: Topic or properties are longer than their length fields hold, a host is not 8
            or 20 bytes, or a number does not fit.
    """
    topic, properties = message.topic.encode(), message.properties
    if len(topic) > TOPIC_SIZE_V2_MAX or len(properties) > PROPERTIES_SIZE_MAX:
        raise RecordError(
            f"record: expected topic and properties up to {PROPERTIES_SIZE_MAX} bytes, "
            f"found {len(topic)} and {len(properties)}"
        )
    sys_flag = host_flags(message.sys_flag, message.born_host, store_host)
    head = HEADS[sys_flag & V6_BITS]
    magic, topic_length_size = (MAGIC_V1, 1) if len(topic) <= TOPIC_SIZE_V1_MAX else (MAGIC_V2, 2)
    crc = message.body_crc
    tail = b"".join(
        (
            message.body,
            len(topic).to_bytes(topic_length_size, "big"),
            topic,
            len(properties).to_bytes(2, "big"),
            properties,
        )
    )
    try:
        return (
            head.pack(
                head.size + len(tail),
                magic,
                zlib.crc32(message.body) & BODY_CRC_MASK if crc is None else crc,
                message.queue_id,
                message.flag,
                queue_offset,
                phy_offset,
                sys_flag,
                message.born_ms,
                message.born_host,
                store_ms,
                store_host,
                message.reconsume_times,
                message.prepared_offset,
                len(message.body),
            )
            + tail
        )
    except struct.error as error:
        raise RecordError(f"record: a number does not fit its field: {error}") from None


def host_flags(sys_flag: int, born_host: bytes, store_host: bytes) -> int:
    """``sys_flag`` with the two bits for IPv6 hosts set as the hosts are.

    Raises:
        RecordError: A host is not 8 or 20 bytes.
    """
    if len(born_host) not in _HOST_SIZES or len(store_host) not in _HOST_SIZES:
        raise RecordError(
            f"record: expected hosts of 8 or 20 bytes, found {len(born_host)} and {len(store_host)}"
        )
    flags = sys_flag & ~V6_BITS
    if len(born_host) == HOST_SIZE_V6:
        flags |= BORN_V6
    if len(store_host) == HOST_SIZE_V6:
        flags |= STORE_V6
    return flags


def blank_record(size_left: int) -> bytes:
    """The bytes at the end of a segment: its remaining size and the blank's magic."""
    return BLANK.pack(size_left, BLANK_MAGIC)
