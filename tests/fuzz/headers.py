"""Headers in the three codings; the first byte chooses one."""

from __future__ import annotations

from timermq.remoting.codes import LanguageCode
from timermq.remoting.command import Coding, Command
from timermq.remoting.errors import LocalProtocolError, RemoteProtocolError
from timermq.remoting.header import EXT_COUNT_MAX, decode_header, encode_header
from timermq.remoting.send_run.send_v2 import decode_send_v2

INT32 = range(-(2**31), 2**31)


def seeds() -> list[bytes]:
    """A request and an answer in each coding, and odd JSON."""
    found: list[bytes] = []
    for coding in Coding:
        request = Command(code=310, opaque=5, ext={"b": "T", "e": "0"}, coding=coding)
        answer = request.answer(1, remark="RULE: why", ext={"": "é"})
        found += [bytes([coding]) + encode_header(one) for one in (request, answer)]
    texts = (
        '{"code":310,"opaque":1,"flag":0,"extFields":{"b":"T","e":"0","i":""},"version":479}',
        '{"code":null,"version":"7","opaque":-0,"flag":1.5,"remark":1e3,"language":[0]}',
        '{"code":11,"extFields":{"a":null,"b":true,"c":1e300,"d":-0.0,"a":"\\u0001"}}',
        '{"code":"-1","extFields":null,"remark":"\\ud83d\\ude00"}',
    )
    return found + [b"\0" + text.encode() for text in texts]


def fuzz_one(data: bytes) -> None:
    """Any bytes are a header that is coded back, or one error that closes."""
    coding, header = data[0] % 4 if data else 0, data[1:]
    try:
        command = decode_header(coding, header)
    except RemoteProtocolError as error:
        assert error.close
        assert error.remark.startswith("HEADER: ")
        return
    _check_limits(command)
    try:
        again = encode_header(command)
    except LocalProtocolError:
        assert command.coding != coding
        return
    assert decode_header(coding, again) == command
    send = decode_send_v2(header) if coding == Coding.JSON else None
    if send is not None:
        said = send.to_command()
        assert (said.code, said.opaque, said.flag) == (command.code, command.opaque, command.flag)
        assert {name: command.ext.get(name, value) for name, value in said.ext.items()} == said.ext


def _check_limits(command: Command) -> None:
    assert isinstance(command.language, LanguageCode)
    assert len(command.ext) <= EXT_COUNT_MAX
    assert all(type(text) is str for pair in command.ext.items() for text in pair)
    numbers = (command.code, command.opaque, command.flag, command.version)
    assert all(type(number) is int and number in INT32 for number in numbers)
    assert command.remark is None or type(command.remark) is str
