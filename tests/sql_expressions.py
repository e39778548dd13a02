"""SQL92 expressions for tests: drawn as trees, written as text, evaluated a second way.

A tree is a tuple: a name of what it is, and its parts. Literals carry the type that Java gives
them.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from hypothesis import strategies as st

Node = tuple[Any, ...]
Properties = Mapping[str, str]
Number = tuple[str, float]
"""``int``, ``long`` or ``double``, and which."""
Value = str | bool | Number | None

NAMES = ("a", "b", "_c$1")
TEXTS = (
    *(
        "x",
        "xy",
        "X",
        "it's",
        "true",
        "TRUE",
        "NaN",
        "ä",
        "5",
        "05",
        "+5",
        " 5",
        "5.0",
        "1e3",
        "-7",
    ),
    *("0", "-0.0", "2147483648", "9223372036854775807", "9223372036854775808", "5_0", "5d"),
)
NUMBERS = {
    **{text: ("int", int(text)) for text in ("0", "5", "7", "2147483647")},
    **{text: ("long", int(text)) for text in ("2147483648", "9223372036854775807")},
    **{
        text: ("double", float(text))
        for text in ("5.0", "5.", ".5", "1e3", "7.5E-1", "2147483648.0")
    },
    "5L": ("int", 5),
    "7l": ("int", 7),
}
ORDERS = ("<", "<=", ">", ">=")
TESTS = ("CONTAINS", "STARTSWITH", "ENDSWITH")


class Failure(Exception):
    """The evaluation ends: no match."""


properties = st.dictionaries(st.sampled_from(NAMES), st.sampled_from(TEXTS))

_property = st.tuples(st.just("property"), st.sampled_from(NAMES))
_number = st.sampled_from(list(NUMBERS)).map(lambda text: ("literal", text, NUMBERS[text]))
_negated = _number.map(lambda number: ("-", number))
_text = st.sampled_from((*TEXTS, "")).map(lambda value: ("literal", _quoted(value), value))
_truth = st.booleans().map(lambda value: ("literal", str(value).upper(), value))
_sized = _property | _number | _negated
_maybe_not = st.sampled_from(["", "NOT "])


def _conditions(inner: st.SearchStrategy[Node]) -> st.SearchStrategy[Node]:
    operand = _property | _negated | inner
    any_operand = operand | _number | _text | _truth
    pair = st.tuples(operand, any_operand) | st.tuples(_number | _text, any_operand)
    tested = _property | _number | inner
    return st.one_of(
        st.tuples(st.sampled_from(["=", "<>"]), pair).map(lambda two: (two[0], *two[1])),
        st.tuples(st.sampled_from(ORDERS), _sized, _sized),
        st.tuples(_maybe_not, _sized, _sized, _sized).map(_between),
        st.tuples(_maybe_not, st.sampled_from(TESTS), tested, _text).map(_tested),
        st.tuples(_maybe_not, _property, st.lists(_text, min_size=1, max_size=6)).map(_listed),
        st.tuples(st.sampled_from(["IS NULL", "IS NOT NULL"]), any_operand),
        st.tuples(st.sampled_from(["AND", "OR"]), st.lists(inner, min_size=2, max_size=3)),
        st.tuples(st.just("NOT"), inner),
    )


def _between(drawn: tuple[str, Node, Node, Node]) -> Node:
    word, middle, low, high = drawn
    if low[0] == high[0] == "literal" and _order(low[2], high[2]) > 0:
        low, high = high, low  # refused by BETWEEN
    return (f"{word}BETWEEN", middle, low, high)


def _tested(drawn: tuple[str, str, Node, Node]) -> Node:
    word, test, middle, text = drawn
    return (f"{word}{test}", middle, text)


def _listed(drawn: tuple[str, Node, list[Node]]) -> Node:
    word, middle, texts = drawn
    return (f"{word}IN", middle, texts)


conditions = st.recursive(_property | _truth, _conditions, max_leaves=12)
"""Trees of expressions that may stand alone."""


def _quoted(value: str) -> str:
    return "'" + value.replace("'", "''") + "'"


def written(node: Node) -> str:
    """The expression of a tree; what stands inside another one has brackets around it."""
    match node:
        case ("property", name):
            return str(name)
        case ("literal", text, _):
            return str(text)
        case ("-", number):
            return f"- {_inside(number)}"
        case ("NOT", inner):
            return f"not {_inside(inner)}"
        case ("AND" | "OR" as word, parts):
            return f" {word} ".join(map(_inside, parts))
        case ("IS NULL" | "IS NOT NULL" as word, inner):
            return f"{_inside(inner)} {word}"
        case ("IN" | "NOT IN" as word, inner, texts):
            return f"{_inside(inner)} {word}({', '.join(map(written, texts))})"
        case ("BETWEEN" | "NOT BETWEEN" as word, middle, low, high):
            return f"{_inside(middle)} {word} {_inside(low)} and {_inside(high)}"
        case (word, left, right):
            return f"{_inside(left)} {word} {_inside(right)}"
        case _:
            raise AssertionError(node)


def _inside(node: Node) -> str:
    return written(node) if node[0] in ("property", "literal", "-") else f"({written(node)})"


def matches(node: Node, message: Properties) -> bool:
    """Whether the tree says TRUE of a message."""
    try:
        return _truth_of(node, message) is True
    except Failure:
        return False


def _truth_of(node: Node, message: Properties) -> Value:
    """What stands where a condition is needed: a property is FALSE or NULL there."""
    found = _value(node, message)
    return False if isinstance(found, str) else found


def _value(node: Node, message: Properties) -> Value:
    match node:
        case ("property", name):
            return message.get(name)
        case ("literal", _, value):
            literal: Value = value
            return literal
        case ("-", ("literal", _, (kind, number))):
            return kind, -number
        case ("NOT", inner):
            found = _truth_of(inner, message)
            return None if found is None else not found
        case ("AND" | "OR" as word, parts):
            return _joined(word == "OR", parts, message)
        case ("IS NULL" | "IS NOT NULL" as word, inner):
            return (_value(inner, message) is None) == bool(word == "IS NULL")
        case ("IN" | "NOT IN" as word, inner, texts):
            found = _value(inner, message)
            is_listed = any(found == text for _, _, text in texts)
            return None if found is None else is_listed == bool(word == "IN")
        case ("BETWEEN", middle, low, high):
            return _value(("AND", [(">=", middle, low), ("<=", middle, high)]), message)
        case ("NOT BETWEEN", middle, low, high):
            return _value(("OR", [("<", middle, low), (">", middle, high)]), message)
        case (word, left, right) if word in ("=", "<>", *ORDERS):
            return _compared(word, _value(left, message), _value(right, message))
        case (word, left, (_, _, text)):
            return _tested_value(word, _value(left, message), text)
        case _:
            raise AssertionError(node)


def _joined(deciding: bool, parts: list[Node], message: Properties) -> Value:
    found: list[Value] = []
    for part in parts:
        found.append(_truth_of(part, message))
        if found[-1] is deciding:
            return deciding
    return None if None in found else not deciding


def _tested_value(word: str, found: Value, text: str) -> bool:
    if not isinstance(found, str) or not text:
        return False
    at = found.find(text) if not word.endswith("ENDSWITH") else found.rfind(text)
    holds = {
        "CONTAINS": at >= 0,
        "STARTSWITH": at == 0,
        "ENDSWITH": at >= 0 and at + len(text) == len(found),
    }[word.removeprefix("NOT ")]
    return holds != word.startswith("NOT")


def _compared(word: str, left: Value, right: Value) -> Value:
    if word in ("=", "<>"):
        if left is None or right is None:
            same = None if left is None and right is not None else left is right
        else:
            same = _order(left, right) == 0
        return same if word == "=" or same is None else not same
    if left is None or right is None:
        return None
    if isinstance(left, str) and isinstance(right, str):
        left, right = ("double", _double(left)), ("double", _double(right))
    order = _order(left, right)
    return {"<": order < 0, "<=": order <= 0, ">": order > 0, ">=": order >= 0}[word]


def _order(left: Value, right: Value) -> int:
    """Java's ``compareTo`` behind its conversions; texts are equal or not."""
    if isinstance(left, str) and isinstance(right, str):
        return 0 if left == right else -1
    assert left is not None
    assert right is not None
    if isinstance(left, str):
        assert not isinstance(right, str)
        return _order(_read(left, right), right)
    if isinstance(right, str):
        if isinstance(left, bool):
            raise Failure
        return _order(left, _read(right, left))
    if isinstance(left, bool) or isinstance(right, bool):
        return 0 if left is right else -1
    as_doubles = "double" in (left[0], right[0])
    one, other = _key(left[1], as_doubles), _key(right[1], as_doubles)
    return (one > other) - (one < other)


def _key(number: float, as_double: bool) -> tuple[bool, float, float]:
    if not as_double:
        return (False, number, 0)
    number = float(number)
    return (math.isnan(number), 0 if math.isnan(number) else number, math.copysign(1, number))


def _read(text: str, like: bool | Number) -> bool | Number:
    if isinstance(like, bool):
        return text.lower() == "true"
    if like[0] == "double":
        return like[0], _double(text)
    digits = text.removeprefix("+").removeprefix("-")
    bits = 31 if like[0] == "int" else 63
    if not digits.isdecimal() or not -(2**bits) <= int(text) < 2**bits:
        raise Failure
    return like[0], int(text)


def _double(text: str) -> float:
    if "_" in text:
        raise Failure
    try:
        return float(text.strip().removesuffix("d"))
    except ValueError:
        raise Failure from None
