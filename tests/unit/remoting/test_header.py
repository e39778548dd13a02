"""Headers as RocketMQ's clients were seen to send them, in all three codings."""

from __future__ import annotations

import json

import cbor2
import pytest

from timermq.remoting.codes import LanguageCode, ResponseCode
from timermq.remoting.command import Coding, Command
from timermq.remoting.errors import LocalProtocolError, RemoteProtocolError
from timermq.remoting.header import EXT_COUNT_MAX, decode_header, encode_header

CPP_ROUTE_REQUEST = (
    b'{"code":105,"extFields":{"AccessKey":"","OnsChannel":"ALIYUN",'
    b'"Signature":"Sf55A+YZN21izFtJZ+36oINzoLw=","topic":"TopicA"},"flag":0,"language":"CPP",'
    b'"opaque":0,"remark":"","version":63}\n'
)
JAVA_ANSWER = (
    b'{"code":0,"flag":1,"language":"JAVA","opaque":0,"serializeTypeCurrentRPC":"JSON",'
    b'"version":479}'
)
SEND_ANSWER = (
    b'{"code":0,"extFields":{"MSG_REGION":"DefaultRegion","TRACE_ON":"true",'
    b'"msgId":"7F00000100002A9F0000000000000000","queueId":"0","queueOffset":"0"},"flag":1,'
    b'"language":"JAVA","opaque":1,"serializeTypeCurrentRPC":"JSON","version":479}'
)
SEND_ANSWER_COMMAND = Command(
    code=0,
    opaque=1,
    flag=1,
    language=LanguageCode.JAVA,
    ext={
        "MSG_REGION": "DefaultRegion",
        "TRACE_ON": "true",
        "msgId": "7F00000100002A9F0000000000000000",
        "queueId": "0",
        "queueOffset": "0",
    },
)
BINARY = bytes.fromhex(
    "0069 01 003f 00000007 00000001"  # code 105, C++, version 63, opaque 7, a response
    "00000002 6e6f"  # remark "no"
    "00000014 0005 746f706963 00000001 54  0001 6b 00000001 76"  # topic=T, k=v
)
BINARY_COMMAND = Command(
    code=105,
    opaque=7,
    flag=1,
    language=LanguageCode.CPP,
    version=63,
    remark="no",
    ext={"topic": "T", "k": "v"},
    coding=Coding.ROCKETMQ,
)
CBOR = bytes.fromhex("87 1869 01 183f 07 01 626e6f a2 65746f706963 6154 616b 6176")
CBOR_COMMAND = Command(
    code=105,
    opaque=7,
    flag=1,
    language=LanguageCode.CPP,
    version=63,
    remark="no",
    ext={"topic": "T", "k": "v"},
    coding=Coding.CBOR,
)


def test_cpp_request_is_read() -> None:
    """C++ ends its JSON with a newline and sends an empty remark."""
    command = decode_header(Coding.JSON, CPP_ROUTE_REQUEST)

    expected = Command(
        code=105,
        language=LanguageCode.CPP,
        version=63,
        remark="",
        ext={
            "AccessKey": "",
            "OnsChannel": "ALIYUN",
            "Signature": "Sf55A+YZN21izFtJZ+36oINzoLw=",
            "topic": "TopicA",
        },
    )
    assert expected == command


def test_answer_without_parameters_is_read() -> None:
    """An answer may leave out remark and parameters, and say what codes it."""
    command = decode_header(Coding.JSON, JAVA_ANSWER)

    assert Command(code=0, flag=1, language=LanguageCode.JAVA) == command


@pytest.mark.parametrize(
    ("data", "command"),
    [(SEND_ANSWER, SEND_ANSWER_COMMAND), (BINARY, BINARY_COMMAND), (CBOR, CBOR_COMMAND)],
    ids=["json", "binary", "cbor"],
)
def test_vectors_in_both_directions(data: bytes, command: Command) -> None:
    """Each coding writes the very bytes that it reads."""
    assert command == decode_header(command.coding, data)
    assert data == encode_header(command)


def test_answer_always_has_parameters() -> None:
    """C++ dies of an answer without ``extFields``, so it is there even when it is empty."""
    header = json.loads(encode_header(Command(code=0, opaque=1).answer(1, remark="no")))

    assert {} == header["extFields"]
    assert "no" == header["remark"]


def test_bare_parameters_become_text() -> None:
    """Numbers and booleans among the parameters are the text that they stand for."""
    data = b'{"code":1,"extFields":{"a":4,"b":-7,"c":true,"d":false,"e":null,"f":1.5}}'

    expected = {"a": "4", "b": "-7", "c": "true", "d": "false", "f": "1.5"}
    assert expected == decode_header(Coding.JSON, data).ext


def test_unknown_keys_and_languages_are_ignored() -> None:
    """A newer client may add keys and name a language that we do not know."""
    command = decode_header(Coding.JSON, b'{"code":1,"language":"ZIG","new":[{"a":1}]}')

    assert Command(code=1, language=LanguageCode.OTHER, version=0) == command


@pytest.mark.parametrize(
    ("text", "language"),
    [
        (b'"GO"', LanguageCode.GO),
        (b"9", LanguageCode.GO),
        (b"0", LanguageCode.JAVA),
        (b"14", LanguageCode.OTHER),
        (b"-1", LanguageCode.OTHER),
        (b"99999999999999999999", LanguageCode.OTHER),
        (b"1.0", LanguageCode.OTHER),
        (b"true", LanguageCode.OTHER),
        (b"null", LanguageCode.OTHER),
        (b'"go"', LanguageCode.OTHER),
        (b'""', LanguageCode.OTHER),
        (b'["GO"]', LanguageCode.OTHER),
        (b'{"name":"GO"}', LanguageCode.OTHER),
    ],
)
def test_a_json_language_of_any_kind_is_read(text: bytes, language: LanguageCode) -> None:
    """A name or a number says the language; whatever else stands there is OTHER, not an error."""
    command = decode_header(Coding.JSON, b'{"code":105,"language":%b,"opaque":3}' % text)

    assert Command(code=105, opaque=3, language=language, version=0) == command


def test_binary_takes_the_last_of_a_name() -> None:
    """Java with signing lists a parameter twice."""
    data = BINARY.replace(b"\x00\x05topic\x00\x00\x00\x01T", b"\x00\x01k\x00\x00\x00\x05first")

    assert {"k": "v"} == decode_header(Coding.ROCKETMQ, data).ext


@pytest.mark.parametrize(
    ("coding", "data"),
    [
        (0, b""),
        (0, b"[]"),
        (0, b"7"),
        (0, JAVA_ANSWER[:-1]),
        (0, JAVA_ANSWER + b"x"),
        (0, b'{"code":"one"}'),
        (0, b'{"code":1,"remark":"\xff"}'),
        (0, b'{"code":1,"remark":"\\ud800"}'),
        (0, b'{"code":1,"extFields":{"a":[]}}'),
        (0, b'{"code":1,"unknown":' + b"[" * 100_000),
        (0, b'{"code":2147483648}'),
        (0, b'{"code":1,"opaque":2147483648}'),
        (0, b'{"code":1,"flag":2147483648}'),
        (0, b'{"code":1,"version":-2147483649}'),
        (1, b""),
        (1, BINARY[:-1]),
        (1, BINARY + b"\x00"),
        (1, BINARY.replace(b"no", b"\xff\xff")),
        (1, BINARY.replace(b"\x00\x00\x00\x02no", b"\xff\xff\xff\xffno")),
        (1, BINARY.replace(b"\x00\x01k", b"\x7f\xffk")),
        (2, b""),
        (2, b"\x80"),
        (2, CBOR[:-1]),
        (2, CBOR + b"\x00"),
        (2, CBOR.replace(b"\x07", b"\xf5")),
        (2, CBOR.replace(b"\x62no", b"\x42no")),
        (2, CBOR.replace(b"\x61v", b"\x41v")),
        (2, CBOR.replace(b"\x07", b"\x1b" + b"\xff" * 8)),
        (2, b"\x81" * 100_000),
        (2, b"\x9b" + b"\x7f" * 8),
        (3, b"{}"),
    ],
)
def test_malformed_header_closes(coding: int, data: bytes) -> None:
    """Without its ``opaque`` a request cannot be answered: the connection is closed."""
    with pytest.raises(RemoteProtocolError, match=r"^HEADER: ") as caught:
        decode_header(coding, data)

    assert (ResponseCode.SYSTEM_ERROR, True) == (caught.value.code, caught.value.close)


@pytest.mark.parametrize("coding", list(Coding))
@pytest.mark.parametrize("count", [EXT_COUNT_MAX, EXT_COUNT_MAX + 1])
def test_parameters_are_counted(coding: Coding, count: int) -> None:
    """A command has at most 256 parameters."""
    command = Command(code=1, ext={str(i): "" for i in range(count)}, coding=coding)
    data = encode_header(command)
    if count <= EXT_COUNT_MAX:
        assert command == decode_header(coding, data)
        return

    with pytest.raises(RemoteProtocolError, match="expected at most 256 parameters"):
        decode_header(coding, data)


@pytest.mark.parametrize(
    "command",
    [
        Command(code=1 << 15, coding=Coding.ROCKETMQ),
        Command(code=1, opaque=1 << 31, coding=Coding.ROCKETMQ),
        Command(code=1, ext={"n" * (1 << 15): ""}, coding=Coding.ROCKETMQ),
        Command(code=1, ext={"n": "\ud800"}, coding=Coding.ROCKETMQ),
        Command(code=1, ext={"n": "\ud800"}, coding=Coding.JSON),
        Command(code=1, ext={"n": "\ud800"}, coding=Coding.CBOR),
    ],
)
def test_what_a_coding_cannot_carry_is_refused(command: Command) -> None:
    """A code above 15 bits, a name above 32 KiB and half a surrogate are our own mistakes."""
    with pytest.raises(LocalProtocolError):
        encode_header(command)


def test_tags_are_refused_before_they_are_computed() -> None:
    """A number of a million digits would hold up everybody for seconds."""
    digits = cbor2.dumps(b"\xf7" * 200_000)
    data = b"\x87" + bytes(5) + b"\xf6\xa1\x61k\xc2" + digits

    with pytest.raises(RemoteProtocolError, match=r"expected no tags|depth"):
        decode_header(Coding.CBOR, data)


@pytest.mark.parametrize(
    ("text", "command"),
    [
        (b'{"code":105,"version":null,"opaque":null,"flag":null}', Command(105, version=0)),
        (b"{}", Command(0, version=0)),
        (b'{"code":null}', Command(0, version=0)),
        (b'{"code":"105","opaque":"-7","version":"479"}', Command(105, opaque=-7)),
        (
            b'{"code":105.9,"opaque":-1.5,"flag":true,"version":479}',
            Command(105, opaque=-1, flag=1),
        ),
        (b'{"code":1,"opaque":-0,"remark":5,"version":479}', Command(1, remark="5")),
        (b'{"code":1,"remark":null,"extFields":null,"version":479}', Command(1)),
    ],
)
def test_odd_json_is_read_as_java_does(text: bytes, command: Command) -> None:
    """Null is no number, a fraction is cut off, a text is read, a missing field is 0."""
    command.language = LanguageCode.OTHER

    assert command == decode_header(Coding.JSON, text)


@pytest.mark.parametrize("name", ["code", "version", "opaque", "flag"])
@pytest.mark.parametrize(
    "value", ['"x"', '""', '"+1"', '"99999999999"', "99999999999", "1e400", "1e300", "[]", "{}"]
)
def test_what_is_no_number_closes(name: str, value: str) -> None:
    """Nothing is guessed: the frame cannot be answered."""
    with pytest.raises(RemoteProtocolError, match=r"^HEADER: ") as caught:
        decode_header(Coding.JSON, f'{{"{name}":{value}}}'.encode())

    assert caught.value.close


def test_a_cbor_header_has_no_arrays_as_names() -> None:
    """Keys that share a hash took five seconds for 270 kB: they are refused at the first."""
    data = b"\x87\x00\x00\x00\x00\x00\xf6\xa2\x82\x20\x21\x00\x82\x21\x20\x00"

    with pytest.raises(RemoteProtocolError, match="depth"):
        decode_header(Coding.CBOR, data)


def test_a_cbor_header_is_an_array_of_seven() -> None:
    """A megabyte of empty arrays is refused by its first byte."""
    with pytest.raises(RemoteProtocolError, match="expected an array of 7"):
        decode_header(Coding.CBOR, b"\x9a\x00\x0f\x00\x00" + b"\x80" * 0xF0000)
