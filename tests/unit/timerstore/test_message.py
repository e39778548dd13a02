"""Tests of messages, their flags and hosts."""

from __future__ import annotations

import pytest

from timermq.timerstore.message import (
    COMPRESSION_MASK,
    NO_HOST,
    TRANSACTION_MASK,
    Message,
    SysFlag,
    format_host,
    pack_host,
)


@pytest.mark.parametrize(
    ("address", "port", "packed", "text"),
    [
        ("127.0.0.1", 10911, "7f00000100002a9f", "127.0.0.1:10911"),
        ("0.0.0.0", 0, "0000000000000000", "0.0.0.0:0"),
        ("::1", 20911, "00000000000000000000000000000001000051af", "0:0:0:0:0:0:0:1:20911"),
        ("fe80::a:0", 1, "fe8000000000000000000000000a000000000001", "fe80:0:0:0:0:0:a:0:1"),
    ],
)
def test_hosts(address: str, port: int, packed: str, text: str) -> None:
    """A host is packed as address and port, and printed as Java prints it."""
    assert bytes.fromhex(packed) == pack_host(address, port)
    assert text == format_host(bytes.fromhex(packed))


@pytest.mark.parametrize(("address", "port"), [("localhost", 1), ("127.0.0.1", 65536), ("::", -1)])
def test_what_is_no_host_is_refused(address: str, port: int) -> None:
    """Names and impossible ports are refused."""
    with pytest.raises(ValueError, match=r"does not appear|expected 0 to 65535"):
        pack_host(address, port)


def test_a_host_has_one_of_two_sizes() -> None:
    """Only 8 or 20 bytes are a host."""
    with pytest.raises(ValueError, match="expected 8 or 20 bytes, found 9"):
        format_host(bytes(9))


def test_masks_cover_their_flags() -> None:
    """Transaction type and compression type are numbers inside ``sysFlag``."""
    assert TRANSACTION_MASK == SysFlag.TRANSACTION_PREPARED | SysFlag.TRANSACTION_COMMIT
    assert not SysFlag.COMPRESSION_ZLIB & ~COMPRESSION_MASK
    assert SysFlag.COMPRESSED & COMPRESSION_MASK == 0


def test_a_message_needs_little() -> None:
    """What is not given is nothing: no properties, no flags, no host, an unknown checksum."""
    message = Message("T", 0, b"body")

    assert (b"", 0, 0, NO_HOST, None) == (
        message.properties,
        message.flag,
        message.sys_flag,
        message.born_host,
        message.body_crc,
    )
