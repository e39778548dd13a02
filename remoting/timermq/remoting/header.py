"""The three header codings.

JSON is what every client speaks: numbers and booleans among the parameters are taken as the text
they stand for, unknown keys are ignored, and answers carry text only, because Go refuses a frame
with anything else and C++ reads a missing field as zero. ROCKETMQ is Java's binary form. CBOR is
ours: an array ``[code, language, version, opaque, flag, remark, {parameters}]``.

Source: Java ``RemotingSerializable``, ``RocketMQSerializable``.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping
from typing import Any, cast

import cbor2
import msgspec

from .cbor import CborError, decode_cbor
from .codes import LanguageCode, ResponseCode
from .command import Coding, Command
from .errors import LocalProtocolError, RemoteProtocolError

EXT_COUNT_MAX = 256
"""Parameters of one command; the largest request in use has 18."""

CBOR_SIZE_MAX = 1 << 20
"""Bytes of a CBOR header: as many as of any header."""

_BINARY = struct.Struct(">hBhiii")
_CBOR_ARRAY = b"\x87"
"""How a CBOR array of seven items begins."""
_INT32 = range(-(2**31), 2**31)
_INT32_DIGITS_MAX = 10
_TEXT_ALONE = frozenset({str})


_Scalar = str | int | float | bool | None


class _JsonHeader(msgspec.Struct):
    code: int
    language: Any = "OTHER"
    version: int = 0
    opaque: int = 0
    flag: int = 0
    remark: str | None = None
    extFields: dict[str, _Scalar] | None = None


class _OddJsonHeader(msgspec.Struct):
    """A header whose fields are of other kinds than all clients send."""

    code: _Scalar = None
    language: Any = "OTHER"
    version: _Scalar = None
    opaque: _Scalar = None
    flag: _Scalar = None
    remark: _Scalar = None
    extFields: dict[str, _Scalar] | None = None


class _JsonTexts(msgspec.Struct):
    """The parameters of a header in their spelling."""

    extFields: dict[str, msgspec.Raw]


_json_decoder = msgspec.json.Decoder(_JsonHeader)
_texts_decoder = msgspec.json.Decoder(_JsonTexts)
_odd_json_decoder = msgspec.json.Decoder(_OddJsonHeader)
_json_encoder = msgspec.json.Encoder()


def decode_header(coding: int, data: bytes) -> Command:
    """Read a header; the body is the caller's.

    Raises:
        RemoteProtocolError: Unknown coding or malformed header. The frame is whole, but without its
            ``opaque`` it cannot be answered: the connection is closed, as Java does.
    """
    try:
        if coding == Coding.JSON:
            command = _decode_json(data)
        elif coding == Coding.ROCKETMQ:
            command = _decode_binary(data)
        elif coding == Coding.CBOR:
            command = _decode_cbor(data)
        else:
            raise _malformed(f"coding: expected 0, 1 or 2, found {coding}")
    except (msgspec.DecodeError, struct.error, UnicodeError, CborError) as error:
        raise _malformed(str(error)) from None
    except RecursionError:
        raise _malformed("nested too deeply") from None
    if not (
        command.code in _INT32
        and command.opaque in _INT32
        and command.flag in _INT32
        and command.version in _INT32
    ):
        raise _malformed("code, version, opaque and flag: expected 32-bit numbers")
    return command


def encode_header(command: Command) -> bytes:
    """The header of ``command`` in its coding.

    Raises:
        LocalProtocolError: A number or text that the coding cannot carry.
    """
    try:
        if command.coding == Coding.JSON:
            return _encode_json(command)
        if command.coding == Coding.ROCKETMQ:
            return _encode_binary(command)
        return _encode_cbor(command)
    except (struct.error, UnicodeEncodeError, cbor2.CBOREncodeError) as error:
        raise LocalProtocolError(f"code {command.code}: {error}") from None


def _malformed(text: str) -> RemoteProtocolError:
    return RemoteProtocolError(ResponseCode.SYSTEM_ERROR, f"HEADER: {text}", close=True)


def _decode_json(data: bytes) -> Command:
    try:
        header = _json_decoder.decode(data)
    except msgspec.ValidationError:
        header = _usual(_odd_json_decoder.decode(data))
    ext = header.extFields or {}
    if len(ext) > EXT_COUNT_MAX:
        raise _malformed(f"expected at most {EXT_COUNT_MAX} parameters, found {len(ext)}")
    return Command(
        code=header.code,
        opaque=header.opaque,
        flag=header.flag,
        language=_language(header.language),
        version=header.version,
        remark=header.remark,
        ext=_as_texts(data, ext),
    )


def _as_texts(data: bytes, ext: dict[str, _Scalar]) -> dict[str, str]:
    """The parameters as texts, which is what clients write; those that are null are left out."""
    types = set(map(type, ext.values()))
    if types <= _TEXT_ALONE:
        return cast("dict[str, str]", ext)
    if float in types:
        ext |= _fractions_as_written(data, ext)
    return {
        name: value if type(value) is str else _as_text(value)
        for name, value in ext.items()
        if value is not None
    }


def _fractions_as_written(data: bytes, ext: Mapping[str, _Scalar]) -> dict[str, str]:
    """Fractions among the parameters, as the client spelled them: that is what it has signed."""
    texts = _texts_decoder.decode(data).extFields
    return {name: bytes(texts[name]).decode() for name in ext if type(ext[name]) is float}


def _usual(odd: _OddJsonHeader) -> _JsonHeader:
    """An odd header as fastjson reads it into Java's ``RemotingCommand``."""
    remark = odd.remark
    return _JsonHeader(
        code=_as_number(odd.code),
        language=odd.language,
        version=_as_number(odd.version),
        opaque=_as_number(odd.opaque),
        flag=_as_number(odd.flag),
        remark=remark if remark is None or isinstance(remark, str) else _as_text(remark),
        extFields=odd.extFields,
    )


def _as_number(value: _Scalar) -> int:
    """The number that a field holds: null is none, a fraction is cut off, a text is read.

    Source: fastjson ``IntegerCodec``, ``TypeUtils.castToInt``.
    """
    if isinstance(value, str):
        digits = value.removeprefix("-")
        if not (digits.isascii() and digits.isdigit() and len(digits) <= _INT32_DIGITS_MAX):
            raise _malformed(f"expected a number, found {value[:64]!a}")
    return 0 if value is None else int(value)


def _language(value: object) -> LanguageCode:
    """The language by its name, or its number as in the other codings; anything else is OTHER.

    What a client is written in decides no request, so none is refused for it: Java too reads a
    number as the place in its list, and null or an unknown name as no language.
    """
    if isinstance(value, str):
        return LanguageCode.of_name(value)
    if isinstance(value, int) and not isinstance(value, bool):
        return LanguageCode.of_number(value)
    return LanguageCode.OTHER


def _as_text(value: str | float | bool | None) -> str:
    """The text that a JSON number or boolean stands for."""
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(value)


def _encode_json(command: Command) -> bytes:
    header: dict[str, Any] = {
        "code": command.code,
        "extFields": command.ext,
        "flag": command.flag,
        "language": command.language.name,
        "opaque": command.opaque,
        "serializeTypeCurrentRPC": "JSON",
        "version": command.version,
    }
    if command.remark is not None:
        header["remark"] = command.remark
    return _json_encoder.encode(header)


def _decode_binary(data: bytes) -> Command:
    code, language, version, opaque, flag, remark_size = _BINARY.unpack_from(data)
    at = _BINARY.size
    remark, at = _text(data, at, remark_size)
    (ext_size,) = struct.unpack_from(">i", data, at)
    at += 4
    if ext_size < 0 or at + ext_size != len(data):
        raise _malformed(f"expected {len(data) - at} bytes of parameters, found {ext_size}")
    ext: dict[str, str] = {}
    while at < len(data):
        if len(ext) >= EXT_COUNT_MAX:
            raise _malformed(f"expected at most {EXT_COUNT_MAX} parameters")
        (name_size,) = struct.unpack_from(">h", data, at)
        name, at = _text(data, at + 2, name_size)
        (value_size,) = struct.unpack_from(">i", data, at)
        ext[name], at = _text(data, at + 4, value_size)
    return Command(
        code=code,
        opaque=opaque,
        flag=flag,
        language=LanguageCode.of_number(language),
        version=version,
        remark=remark or None,
        ext=ext,
        coding=Coding.ROCKETMQ,
    )


def _text(data: bytes, at: int, size: int) -> tuple[str, int]:
    if not 0 <= size <= len(data) - at:
        raise _malformed(f"expected a text of up to {len(data) - at} bytes at {at}, found {size}")
    return data[at : at + size].decode(), at + size


def _encode_binary(command: Command) -> bytes:
    if not -(2**15) <= command.code < 2**15:
        raise LocalProtocolError(f"code {command.code} does not fit a binary header")
    parts: list[bytes] = []
    for name, value in command.ext.items():
        name_bytes, value_bytes = name.encode(), value.encode()
        parts += (struct.pack(">h", len(name_bytes)), name_bytes)
        parts += (struct.pack(">i", len(value_bytes)), value_bytes)
    ext = b"".join(parts)
    remark = (command.remark or "").encode()
    front = _BINARY.pack(
        command.code, command.language, command.version, command.opaque, command.flag, len(remark)
    )
    return b"".join((front, remark, struct.pack(">i", len(ext)), ext))


def _decode_cbor(data: bytes) -> Command:
    if data[:1] != _CBOR_ARRAY:
        raise _malformed("CBOR: expected an array of 7")
    array = decode_cbor(data, size_max=CBOR_SIZE_MAX, depth_max=2)
    items = cast("list[object]", array) if isinstance(array, list) else []
    numbers, rest = items[:5], items[5:]
    if len(rest) != 2 or not all(type(number) is int for number in numbers):
        raise _malformed("CBOR: expected [code, language, version, opaque, flag, remark, map]")
    code, language, version, opaque, flag = cast("list[int]", numbers)
    remark, parameters = rest
    if not (remark is None or isinstance(remark, str)) or not isinstance(parameters, dict):
        raise _malformed("CBOR: expected text or null for the remark, a map of parameters")
    ext = cast("dict[object, object]", parameters)
    if len(ext) > EXT_COUNT_MAX:
        raise _malformed(f"expected at most {EXT_COUNT_MAX} parameters, found {len(ext)}")
    if not all(type(text) is str for pair in ext.items() for text in pair):
        raise _malformed("CBOR: expected texts as parameters")
    return Command(
        code=code,
        opaque=opaque,
        flag=flag,
        language=LanguageCode.of_number(language),
        version=version,
        remark=remark,
        ext=cast("dict[str, str]", ext),
        coding=Coding.CBOR,
    )


def _encode_cbor(command: Command) -> bytes:
    return cbor2.dumps(
        [
            command.code,
            int(command.language),
            command.version,
            command.opaque,
            command.flag,
            command.remark,
            command.ext,
        ]
    )
