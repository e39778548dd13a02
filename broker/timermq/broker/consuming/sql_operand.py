"""The parts of an SQL92 filter as functions of a message's properties, with three-valued logic.

A property that a message lacks is NULL, and only TRUE matches. A text that is not the number it is
compared with ends the evaluation: no match. Where RocketMQ differs from SQL, so does this:

==============================================  ==========================
expression                                      value
==============================================  ==========================
``a = 1``, ``a > 1``, ``a IN ('x')``, a NULL    NULL
``1 = a``, ``b = a``, a NULL, b not             FALSE, and ``<>`` TRUE
``a = b``, both NULL                            TRUE
``a CONTAINS 'x'`` and its kin, a NULL          FALSE, with ``NOT`` too
``a``, a text                                   FALSE
==============================================  ==========================

Source: Java ``ComparisonExpression``, ``UnaryExpression``, ``LogicExpression``.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import attrs

from .sql_grammar import SqlError
from .sql_value import Long, Value, as_double, compare, whole

Lookup = Callable[[str], str | None]
"""Gives the property of a name."""
Evaluate = Callable[[Lookup], Value]


@attrs.frozen(kw_only=True)
class Operand:
    """A part of an expression, and what the rules of the language ask of it."""

    evaluate: Evaluate
    is_condition: bool = False
    """Its value is TRUE, FALSE or NULL."""
    is_literal: bool = False
    literal: Value = None
    is_property: bool = False


def condition(operand: Operand) -> Operand:
    """The operand where TRUE or FALSE is needed. A property, a text, is never TRUE."""
    if operand.is_condition:
        return operand
    if not operand.is_property:
        raise SqlError("expected a condition, found a number or text")
    value = operand.evaluate
    return Operand(
        evaluate=lambda lookup: None if value(lookup) is None else False, is_condition=True
    )


def any_of(parts: Sequence[Evaluate]) -> Operand:
    """``OR``: the first that is TRUE decides; those behind it are not looked at."""
    return _decided_by(True, parts)


def all_of(parts: Sequence[Evaluate]) -> Operand:
    """``AND``: the first that is FALSE decides; those behind it are not looked at."""
    return _decided_by(False, parts)


def _decided_by(decisive: bool, parts: Sequence[Evaluate]) -> Operand:
    def evaluate(lookup: Lookup) -> Value:
        result: Value = not decisive
        for part in parts:
            value = part(lookup)
            if value is decisive:
                return decisive
            if value is None:
                result = None
        return result

    return Operand(evaluate=evaluate, is_condition=True)


def inverse(value: Evaluate) -> Operand:
    """The operand under ``NOT``; NULL stays NULL."""

    def evaluate(lookup: Lookup) -> Value:
        found = value(lookup)
        return None if found is None else not found

    return Operand(evaluate=evaluate, is_condition=True)


def negated(value: Evaluate) -> Operand:
    """``-`` before a number; NULL before anything else, a property included."""

    def evaluate(lookup: Lookup) -> Value:
        found = value(lookup)
        if isinstance(found, bool | str | None):
            return None
        return Long(-found) if isinstance(found, Long) else -found

    return Operand(evaluate=evaluate)


def equal(left: Evaluate, right: Evaluate) -> Operand:
    """``=``, and ``IS NULL`` with NULL on the right."""

    def evaluate(lookup: Lookup) -> Value:
        one, other = left(lookup), right(lookup)
        if one is None:
            return True if other is None else None
        return False if other is None else compare(one, other) == 0

    return Operand(evaluate=evaluate, is_condition=True)


def ordered(left: Evaluate, right: Evaluate, holds: Callable[[int], bool]) -> Operand:
    """``<`` and its kin: ``holds`` says which order is meant. Two texts are compared as numbers."""

    def evaluate(lookup: Lookup) -> Value:
        one, other = left(lookup), right(lookup)
        if one is None or other is None:
            return None
        if isinstance(one, str) and isinstance(other, str):
            one, other = as_double(one), as_double(other)
        return holds(compare(one, other))

    return Operand(evaluate=evaluate, is_condition=True)


TEXT_TESTS: dict[str, Callable[[str, str], bool]] = {
    "contains": lambda value, text: text in value,
    "not_contains": lambda value, text: text not in value,
    "starts_with": str.startswith,
    "not_starts_with": lambda value, text: not value.startswith(text),
    "ends_with": str.endswith,
    "not_ends_with": lambda value, text: not value.endswith(text),
}


def text_test(kind: str, left: Operand, text: str) -> Operand:
    """One of ``TEXT_TESTS``; a value that is no text neither contains nor lacks anything."""
    value, test = left.evaluate, TEXT_TESTS[kind]

    def evaluate(lookup: Lookup) -> Value:
        found = value(lookup)
        return isinstance(found, str) and bool(text) and test(found, text)

    return Operand(evaluate=evaluate, is_condition=True)


def listed(left: Operand, texts: Sequence[str], *, is_in: bool) -> Operand:
    """``IN`` and ``NOT IN``.

    Raises:
        SqlError: The operator does not follow a property.
    """
    if not left.is_property:
        raise SqlError("IN: expected a property before it, found another operand")
    value, wanted = left.evaluate, frozenset(texts)

    def evaluate(lookup: Lookup) -> Value:
        found = value(lookup)
        return None if found is None else (found in wanted) == is_in

    return Operand(evaluate=evaluate, is_condition=True)


def property_of(name: str) -> Operand:
    """A property of the message."""
    return Operand(evaluate=lambda lookup: lookup(name), is_property=True)


def literal(kind: str, text: str = "") -> Operand:
    """A literal by the grammar's name of its kind.

    Raises:
        SqlError: A number that Java has no type for.
    """
    try:
        value = _LITERALS[kind](text)
    except ValueError as error:
        raise SqlError(str(error)) from None
    is_condition = value is None or isinstance(value, bool)
    return Operand(
        evaluate=lambda _: value, is_condition=is_condition, is_literal=True, literal=value
    )


def text_of(token: str) -> str:
    """The text between the quotes, without their escapes."""
    return token[1:-1].replace("''", "'")


def _double(text: str) -> float:
    value = float(text)
    if not math.isfinite(value):
        raise ValueError(f"expected a number within the range of doubles, found {text}")
    return value


_LITERALS: dict[str, Callable[[str], Value]] = {
    "string": text_of,
    "decimal": lambda text: whole(int(text.rstrip("lL"))),
    "float": _double,
    "true": lambda _: True,
    "false": lambda _: False,
    "null": lambda _: None,
}
NULL = literal("null")
