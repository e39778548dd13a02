"""Texts from people: moments, durations, addresses, settings, names, ids, keys that are typed.

The first byte chooses the reader.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable

from timermq.broker.topic_validator import group_fault, topic_fault
from timermq.cli.arguments import address, count, duration, moment, name_servers, positive
from timermq.cli.configuration import (
    configure,
    environment_layer,
    file_layer,
    flag_layer,
)
from timermq.cli.moment import (
    DURATION_MAX_MS,
    MOMENT_MAX_MS,
    MomentError,
    format_duration,
    format_moment,
    parse_duration,
    parse_moment,
)
from timermq.cli.output import visible
from timermq.cli.settings import ConfigurationError
from timermq.cli.top.keys import decode_keys
from timermq.client.link import split_address
from timermq.client.route import name_servers as server_list
from timermq.remoting.errors import LocalProtocolError
from timermq.timerstore.delay_levels import DelayLevelError, parse_delay_levels
from timermq.timerstore.message_id import offset_message_id, parse_offset_message_id

NOW_MS = 1_700_000_000_000
"""What moments are counted from."""


def seeds() -> list[bytes]:
    """A few good texts of each kind, each behind the byte of its kind."""
    found: list[bytes] = []
    for kind, texts in enumerate(SAMPLES):
        found += [bytes([kind]) + text for text in texts]
    return found


def fuzz_one(data: bytes) -> None:
    """Any text is read, or refused with its reader's error."""
    kind, rest = data[0] % len(READERS) if data else 0, data[1:]
    READERS[kind](rest)


def _text(data: bytes) -> str:
    # As the command line hands bytes over that are no UTF-8.
    return data.decode("utf-8", "surrogateescape")


def _moment(data: bytes) -> None:
    text = _text(data)
    try:
        moment_ms = parse_moment(text, NOW_MS)
    except MomentError as error:
        assert len(str(error)) < 2 * len(ascii(text)) + 300
    else:
        assert 0 <= moment_ms <= MOMENT_MAX_MS
        assert parse_moment(format_moment(moment_ms), NOW_MS) == moment_ms
    try:
        duration_ms = parse_duration(text)
    except MomentError:
        return
    assert 0 <= duration_ms <= DURATION_MAX_MS
    assert parse_duration(format_duration(duration_ms)) == duration_ms


def _argument(data: bytes) -> None:
    text = _text(data)
    for reader in (moment, duration, count, positive, address, name_servers):
        try:
            reader(text)
        except argparse.ArgumentTypeError:
            continue


def _address(data: bytes) -> None:
    text = _text(data)
    try:
        host, port = split_address(text)
    except LocalProtocolError:
        pass
    else:
        assert host
        assert 0 <= port < 65_536
        assert address(text)[1] == text.rpartition(":")[2]
    try:
        assert server_list(text)
    except ValueError as error:
        assert str(error).startswith("name servers: ")


def _levels(data: bytes) -> None:
    try:
        levels = parse_delay_levels(_text(data))
    except DelayLevelError:
        return
    assert 1 <= len(levels) <= 64
    assert all(0 <= one < 2**63 - 2**53 for one in levels)


def _message_id(data: bytes) -> None:
    try:
        host, position = parse_offset_message_id(_text(data))
    except ValueError as error:
        assert str(error)
        return
    assert offset_message_id(host, position) == _text(data).upper()


def _names(data: bytes) -> None:
    text = _text(data)
    for fault in (topic_fault(text), group_fault(text)):
        assert fault is None or "\n" not in fault
    shown = visible(text)
    assert not any(ord(character) < 0x20 and character not in "\t" for character in shown)


def _keys(data: bytes) -> None:
    """The same keys, whether what was typed comes at once or byte by byte."""
    whole, left = decode_keys(data)
    found: list[str] = []
    rest = b""
    for at in range(len(data)):
        keys, rest = decode_keys(rest + data[at : at + 1])
        found += keys
    assert (found, rest) == (whole, left)
    assert decode_keys(left, is_last=True)[1] == b""


def _file(name: str) -> Callable[[bytes], None]:
    def read(data: bytes) -> None:
        try:
            layer, ignored = file_layer(name, data)
            configuration = configure([layer], ignored)
        except ConfigurationError as error:
            assert str(error).startswith(name)
            return
        assert len(configuration.configured()) >= len(layer.values) > -1

    return read


def _flags(data: bytes) -> None:
    key, _, value = _text(data).partition("=")
    try:
        configure([flag_layer({}, [f"{key}={value}"])])
    except ConfigurationError as error:
        assert str(error)
    try:
        configure([environment_layer({f"TIMERMQ_{key.upper()}": value})])
    except ConfigurationError as error:
        assert str(error)


READERS: tuple[Callable[[bytes], None], ...] = (
    _moment,
    _argument,
    _address,
    _levels,
    _message_id,
    _names,
    _keys,
    _file("timermq.toml"),
    _file("broker.conf"),
    _flags,
)
SAMPLES: tuple[tuple[bytes, ...], ...] = (
    (b"2026-12-24T18:00:00.0001+01:00", b"1798131600000", b"in 3d12h", b"250ms", b"9" * 30 + b"d"),
    (b"[::1]:10911", b"a:1; b:2", b"1e3", b"nan", b"now", b"in 9999999999999d"),
    (b"127.0.0.1:9876", b"h:00000099999", b"h:" + b"0" * 40, b"[::]:1;x:2", "h:١".encode()),
    (b"1s 5s 10s 30s 1m 2h", b"9999999999d", b"1x", b"s"),
    (b"7F00000100002A9F0000000000000000", b"7f" * 28, b"zz" * 16),
    (b"Topic_1", b"%RETRY%G", b"%DLQ%" + b"g" * 260, "é\x1b[0m\n".encode()),
    (b"\x1b[A\x1bOBq\r\x7f", b"\x1b[5~\xc3\xa9", b"\x1b[" + b"1;" * 10, b"\x1b\x1b[Z\xff\xe2\x82"),
    (
        b'[timer]\ntimer_precision_ms = 1000\n[broker]\nbroker_name = "b"\n',
        b"[[[",
        b"a=" + b"9" * 99,
    ),
    (
        b"brokerName=b\nflushDiskType = SYNC_FLUSH\n# x\nunknownKey=1\n",
        b"timerPrecisionMs=\xd9\xa1",
    ),
    (b"timer_precision_ms=100", b"broker_name=", b"listen_port=-1", b"log_format=JSON", b"x"),
)
