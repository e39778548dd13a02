"""JSON as the library fastjson 1.2 of RocketMQ reads and prints it.

Two things are beyond JSON: keys of objects may be integers without quotes, and objects::

    {"dataVersion":{"counter":1},"table":{0:7,1:9},"queues":{{"brokerName":"b","queueId":0}:5}}

Integer keys are ``int`` here, object keys tuples of (name, value) pairs; so what is parsed and
printed again has the same bytes, spaces apart.

Source: com.alibaba.fastjson 1.2.83 ``SerializeWriter``, ``MapSerializer``, ``CollectionCodec``.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator, Mapping
from typing import Any, NoReturn, cast

from .errors import StoreFormatError

DEPTH_MAX = 64
"""Nested objects and arrays; RocketMQ's files have four levels."""

DIGITS_MAX = 32
"""Digits of a number; a 64-bit integer has 19."""

_TOKEN = re.compile(
    r"""[ \t\r\n]*(?:
        (?P<mark> [{}\[\],:]) |
        (?P<text> "[^"\\\x00-\x1f]*(?:\\["\\/bfnrtu][^"\\\x00-\x1f]*)*") |
        (?P<number> -?(?:0|[1-9][0-9]*)(?P<fraction>(?:\.[0-9]+)?(?:[eE][-+]?[0-9]+)?)) |
        (?P<word> true|false|null) |
        (?P<end> \Z)
    )""",
    re.VERBOSE,
)
_WORDS = {"true": True, "false": False, "null": None}

_SPECIAL = re.compile('["\\\\\x00-\x1f\x7f-\x9f\u2028\u2029\ud800-\udfff]')
"""The characters that fastjson escapes; half surrogate pairs, which no file can hold, are ours."""
_SPECIAL_ASCII = re.compile('["\\\\/\x00-\x1f\x7f-\U0010ffff]')
"""The characters that it escapes in its browser-compatible style."""
_SHORT = {
    '"': '\\"',
    "\\": "\\\\",
    "/": "\\/",
    "\b": "\\b",
    "\f": "\\f",
    "\n": "\\n",
    "\r": "\\r",
    "\t": "\\t",
}


def parse_json(text: str, path: str = "text") -> object:
    """Read JSON, also with integers and objects as keys.

    Args:
        text: A whole file; of two equal keys the last one counts.
        path: Names the file in errors.

    Returns:
        dict, list, str, int, float, bool or None; keys are str, int, or a tuple of (name, value)
        pairs for an object.

    Raises:
        StoreFormatError: It is something else, nested deeper than ``DEPTH_MAX``, or has a number
            of more than ``DIGITS_MAX`` digits, or beyond a double.
    """
    return _Reader(text, path).whole()


def fastjson(value: object, *, pretty: bool = True) -> str:
    """Print as RocketMQ does: maps in their order, which for beans is the alphabet.

    Args:
        value: Mappings with keys of str, int or tuples of pairs; lists and tuples (printed as the
            sets that RocketMQ has in these places, on one line); str, int, float, bool, None.
        pretty: The style of the ``.json`` files, with tabs; or the browser-compatible one of
            ``timermetrics``: compact, ASCII, all keys quoted.
    """
    return _pretty(value, 0) if pretty else _compact(value)


def fastjson_pieces(table: Mapping[str, object]) -> Iterator[str]:
    """The text of a table as ``fastjson`` prints it, in pieces: those of maps are an entry each."""
    return _map_pieces(table, 0, 1)


class _Reader:
    """Recursive descent over the tokens of one text."""

    def __init__(self, text: str, path: str) -> None:
        self._text = text
        self._path = path
        self._at = 0
        """Behind the current token."""
        self._start = 0
        """Start of the current token."""
        self._token: re.Match[str] | None = None

    def whole(self) -> object:
        """The only value in the text."""
        value = self._value(self._next(), 0)
        if self._next() != "end":
            self._fail("the end")
        return value

    def _next(self) -> str:
        """Go to the next token; a mark is its own kind, the others are kinds of ``_TOKEN``."""
        self._token = token = _TOKEN.match(self._text, self._at)
        if token is None:
            rest = self._text[self._at :]
            self._start = len(self._text) - len(rest.lstrip(" \t\r\n"))
            self._fail("JSON")
        self._at = token.end()
        kind = token.lastgroup or ""
        self._start = token.start(kind)
        return token[kind] if kind == "mark" else kind

    def _value(self, kind: str, depth: int) -> object:
        if kind == "{":
            return self._object(depth)
        if kind == "[":
            return self._array(depth)
        if kind == "text":
            return self._string()
        if kind == "number":
            return self._number()
        if kind == "word":
            return _WORDS[self._shown()]
        self._fail("a value")

    def _object(self, depth: int) -> dict[object, object]:
        self._check_depth(depth)
        found: dict[object, object] = {}
        kind = self._next()
        while kind != "}":
            key = self._key(kind, depth + 1)
            self._expect(":")
            found[key] = self._value(self._next(), depth + 1)
            kind = self._next()
            if kind == ",":
                kind = self._next()
                if kind == "}":
                    self._fail("a key")
            elif kind != "}":
                self._fail("',' or '}'")
        return found

    def _key(self, kind: str, depth: int) -> object:
        if kind == "text":
            return self._string()
        if kind == "number":
            number = self._number()
            if isinstance(number, int):
                return number
        if kind == "{":
            start = self._start
            try:
                key = tuple(self._object(depth).items())
                hash(key)
            except TypeError:
                self._start = start
            else:
                return key
        self._fail("a key")

    def _array(self, depth: int) -> list[object]:
        self._check_depth(depth)
        found: list[object] = []
        kind = self._next()
        while kind != "]":
            found.append(self._value(kind, depth + 1))
            kind = self._next()
            if kind == ",":
                kind = self._next()
                if kind == "]":
                    self._fail("a value")
            elif kind != "]":
                self._fail("',' or ']'")
        return found

    def _string(self) -> str:
        text = self._shown()
        if "\\" not in text:
            return text[1:-1]
        try:
            return cast("str", json.loads(text))
        except json.JSONDecodeError as error:
            self._start += error.pos
            self._fail("four hexadecimal digits")

    def _number(self) -> int | float:
        assert self._token is not None
        text = self._token["number"]
        if len(text) > DIGITS_MAX:
            self._fail(f"a number of at most {DIGITS_MAX} digits")
        number = float(text) if self._token["fraction"] else int(text)
        if abs(number) == math.inf:
            self._fail("a number within the range of a double")
        return number

    def _check_depth(self, depth: int) -> None:
        if depth >= DEPTH_MAX:
            self._fail(f"at most {DEPTH_MAX} levels")

    def _expect(self, mark: str) -> None:
        if self._next() != mark:
            self._fail(f"'{mark}'")

    def _shown(self) -> str:
        return self._text[self._start : self._at]

    def _fail(self, expected: str) -> NoReturn:
        offset = len(self._text[: self._start].encode(errors="surrogatepass"))
        found = self._text[self._start : self._start + 16]
        raise StoreFormatError(self._path, offset, expected, repr(found) if found else "the end")


def _pretty(value: object, depth: int) -> str:
    # A number is what the largest tables have most of: they are printed in the event loop.
    if type(value) is int:
        return str(value)
    if isinstance(value, str):
        return _quoted(value, _SPECIAL)
    if isinstance(value, Mapping):
        return _pretty_map(cast("Mapping[object, object]", value), depth)
    if isinstance(value, list | tuple):
        items = cast("list[object]", value)
        return f"[{','.join([_pretty(item, depth) for item in items])}]"
    return _scalar(value, _SPECIAL)


def _pretty_map(value: Mapping[object, object], depth: int) -> str:
    return "".join(_map_pieces(value, depth, 0))


def _map_pieces(value: Mapping[Any, object], depth: int, levels: int) -> Iterator[str]:
    """A map in pieces, and so many levels of the maps in it."""
    tabs, mark = "\t" * (depth + 1), "{"
    for key, item in value.items():
        yield f"{mark}{_key(key, tabs)}:"
        if levels and isinstance(item, Mapping):
            yield from _map_pieces(cast("Mapping[object, object]", item), depth + 1, levels - 1)
        else:
            yield _pretty(item, depth + 1)
        mark = ","
    yield "{}" if mark == "{" else f"\n{tabs[1:]}}}"


def _key(key: object, tabs: str) -> str:
    """A key; behind the tabs of a new line if it is a text: others go on where an entry ended."""
    if isinstance(key, str):
        return f"\n{tabs}{_quoted(key, _SPECIAL)}"
    if isinstance(key, tuple):
        return _pretty_map(dict(cast("tuple[tuple[object, object], ...]", key)), len(tabs))
    return _integer(key)


def _compact(value: object) -> str:
    if isinstance(value, Mapping):
        entries = cast("Mapping[object, object]", value).items()
        return f"{{{','.join(f'{_compact_key(key)}:{_compact(item)}' for key, item in entries)}}}"
    if isinstance(value, list | tuple):
        items = cast("list[object]", value)
        return f"[{','.join(_compact(item) for item in items)}]"
    return _scalar(value, _SPECIAL_ASCII)


def _compact_key(key: object) -> str:
    if isinstance(key, tuple):
        key = _compact(dict(cast("tuple[tuple[object, object], ...]", key)))
    return _quoted(key if isinstance(key, str) else _integer(key), _SPECIAL_ASCII)


def _integer(key: object) -> str:
    if isinstance(key, int) and not isinstance(key, bool):
        return str(key)
    raise TypeError(f"key {key!r}: expected a text, an integer or a tuple of pairs")


def _scalar(value: object, special: re.Pattern[str]) -> str:
    if isinstance(value, str):
        return _quoted(value, special)
    if type(value) is int:
        return str(value)
    return json.dumps(value, allow_nan=False)


def _quoted(text: str, special: re.Pattern[str]) -> str:
    return f'"{special.sub(_escaped, text)}"' if special.search(text) else f'"{text}"'


def _escaped(match: re.Match[str]) -> str:
    character = match[0]
    if character in _SHORT:
        return _SHORT[character]
    units = character.encode("utf-16-be", errors="surrogatepass")
    return "".join(f"\\u{units[at : at + 2].hex().upper()}" for at in range(0, len(units), 2))
