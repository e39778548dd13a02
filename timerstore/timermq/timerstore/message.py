"""A message that is to be stored, and the hosts and flags that go with it."""

from __future__ import annotations

import enum
import ipaddress
import struct

import msgspec

NO_HOST = bytes(8)
"""0.0.0.0:0."""

HOST_SIZE_V4 = 8
HOST_SIZE_V6 = 20
"""Bytes of a packed host: address and port."""

PORT_MAX = 65_535

_PORT = struct.Struct(">i")
_GROUPS = struct.Struct(">8H")


class SysFlag(enum.IntFlag):
    """Bits of a record's ``sysFlag``. Source: Java ``MessageSysFlag``."""

    COMPRESSED = 0x1
    MULTI_TAGS = 0x2
    TRANSACTION_PREPARED = 0x4
    TRANSACTION_COMMIT = 0x8
    TRANSACTION_ROLLBACK = 0xC
    """Also the mask of the transaction type; 0 is no transaction."""
    BORN_HOST_V6 = 0x10
    STORE_HOST_V6 = 0x20
    NEED_UNWRAP = 0x40
    INNER_BATCH = 0x80
    COMPRESSION_LZ4 = 0x100
    COMPRESSION_ZSTD = 0x200
    COMPRESSION_ZLIB = 0x300
    """Also two of the three bits of the compression type; 0 with COMPRESSED is zlib as well."""


COMPRESSION_MASK = 0x700
TRANSACTION_MASK = 0xC


# A msgspec structure: a sixth of the cost of an attrs class, and several are made a message.
# `gc=False`: it holds no containers, so the collector need not look at it.
class Message(msgspec.Struct, eq=False, gc=False):
    """A message of a producer; position, queue offset and store time come with the append."""

    topic: str
    queue_id: int
    body: bytes
    """As it is to be stored: compressed if ``sys_flag`` says so."""
    properties: bytes = b""
    """Property text, see ``properties``."""
    flag: int = 0
    sys_flag: int = 0
    born_ms: int = 0
    """Producer's clock, epoch milliseconds."""
    born_host: bytes = NO_HOST
    """Packed address, see ``pack_host``."""
    reconsume_times: int = 0
    prepared_offset: int = 0
    """Position of the half message, or the origin of a delivered timer (negative)."""
    body_crc: int | None = None
    """CRC-32 of the body if it is known already."""


def pack_host(address: str, port: int) -> bytes:
    """IP address (4 or 16 bytes) and port (4 bytes), as records and message ids hold them.

    Raises:
        ValueError: ``address`` is not an IP address, or ``port`` is not 0 to 65535.
    """
    if not 0 <= port <= PORT_MAX:
        raise ValueError(f"port of {address}: expected 0 to {PORT_MAX}, found {port}")
    return ipaddress.ip_address(address).packed + _PORT.pack(port)


def format_host(host: bytes) -> str:
    """``address:port``; IPv6 addresses as Java prints them, with all groups.

    Raises:
        ValueError: Not 8 or 20 bytes.
    """
    port = int.from_bytes(host[-4:], "big", signed=True)
    if len(host) == HOST_SIZE_V4:
        return f"{'.'.join(map(str, host[:4]))}:{port}"
    if len(host) == HOST_SIZE_V6:
        return f"{':'.join(f'{group:x}' for group in _GROUPS.unpack_from(host))}:{port}"
    raise ValueError(f"host: expected 8 or 20 bytes, found {len(host)}")
