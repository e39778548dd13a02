"""SQL92 filters: which messages a consumer wants, by their properties.

An expression is compiled once, into functions that ask for the properties that it names.

Source: Java ``SqlFilter``, ``SelectorParser``, ``ExpressionMessageFilter``.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Sequence

import attrs
from lark import Token, Tree

from timermq.timerstore.properties import find
from timermq.timerstore.record import RecordError, record_properties

from ..steps import Steps, at_once
from .sql_grammar import EXPRESSION_LENGTH_MAX, SqlError, parse_steps
from .sql_operand import (
    NULL,
    TEXT_TESTS,
    Evaluate,
    Lookup,
    Operand,
    all_of,
    any_of,
    condition,
    equal,
    inverse,
    listed,
    literal,
    negated,
    ordered,
    property_of,
    text_of,
    text_test,
)
from .sql_value import ConversionError, compare

DEPTH_MAX = 64
"""Operators inside one another."""
LONG_LENGTH = 512
"""Characters of an expression that takes more than a millisecond."""
KEPT_LENGTH_MAX = 131_072
"""Characters of all compiled expressions that are kept, the ones used last. A character takes up to
140 bytes."""


@attrs.frozen(eq=False)
class SqlFilter:
    """A compiled SQL92 expression over properties."""

    expression: str
    _evaluate: Evaluate

    def matches_properties(self, lookup: Lookup) -> bool:
        """Whether a message with these properties is wanted."""
        try:
            return self._evaluate(lookup) is True
        except ConversionError:
            return False

    def matches(self, record: bytes) -> bool:
        """Whether the message of a record is wanted; one that is damaged is not hidden."""
        try:
            properties = record_properties(record)
        except RecordError:
            return True

        def lookup(name: str) -> str | None:
            value = find(properties, name.encode())
            return None if value is None else value.decode("utf-8", "replace")

        return self.matches_properties(lookup)


class CompiledExpressions:
    """Compiled expressions and errors of invalid ones, by their text, up to a sum of lengths."""

    def __init__(self, length_max: int) -> None:
        self._length_max = length_max
        self._filters: dict[str, SqlFilter | SqlError] = {}
        self._length = 0

    def get(self, expression: str) -> SqlFilter:
        """The filter of an expression, compiled if it is not kept; as ``compile_sql``."""
        return at_once(self.steps(expression))

    def steps(self, expression: str) -> Steps[SqlFilter]:
        """The same in steps; only the last one changes the cache."""
        found = self._filters.get(expression)
        if found is None:
            try:
                tree = yield from parse_steps(expression)
                found = SqlFilter(expression, condition(_compile(tree, 1)).evaluate)
            except SqlError as error:
                if len(expression) > EXPRESSION_LENGTH_MAX:
                    raise
                found = error
        if self._filters.pop(expression, None) is None:
            self._length += len(expression)
        self._filters[expression] = found
        while self._length > self._length_max and len(self._filters) > 1:
            oldest = next(iter(self._filters))
            del self._filters[oldest]
            self._length -= len(oldest)
        if isinstance(found, SqlError):
            raise SqlError(*found.args)
        return found

    def has(self, expression: str) -> bool:
        """Whether an expression is kept."""
        return expression in self._filters


_compiled = CompiledExpressions(KEPT_LENGTH_MAX)


def prepare_filter(expression: str) -> Steps[None]:
    """Compile a long expression ahead, or find its error; no step if it is in the cache."""
    if LONG_LENGTH < len(expression) <= EXPRESSION_LENGTH_MAX and not _compiled.has(expression):
        with contextlib.suppress(SqlError):
            yield from _compiled.steps(expression)
        yield


def compile_sql(expression: str) -> SqlFilter:
    """The filter of an expression; compiled once, kept while it is used.

    Raises:
        SqlError: It is too long or too deep, does not follow the grammar, or compares what cannot
            be compared; the text says where or what.
    """
    return _compiled.get(expression)


def _compile(node: Tree[Token] | Token, depth: int) -> Operand:
    if depth > DEPTH_MAX:
        raise SqlError(f"expected at most {DEPTH_MAX} operators inside one another, found more")
    assert isinstance(node, Tree)
    kind = str(node.data)
    if kind in ("equality", "comparison"):
        return _compile_tails(node.children, depth)
    if kind in ("or", "and"):
        parts = [condition(_compile(part, depth + 1)).evaluate for part in node.children]
        return any_of(parts) if kind == "or" else all_of(parts)
    if kind == "not":
        return inverse(condition(_compile(node.children[0], depth + 1)).evaluate)
    if kind == "negate":
        return negated(_compile(node.children[0], depth + 1).evaluate)
    if kind == "property":
        return property_of(str(node.children[0]))
    return literal(kind, *map(str, node.children))


def _compile_tails(children: Sequence[Tree[Token] | Token], depth: int) -> Operand:
    """An operand and what follows it, from the left: ``a = 1 = TRUE`` is ``(a = 1) = TRUE``."""
    if depth + len(children) > DEPTH_MAX:
        raise SqlError(f"expected at most {DEPTH_MAX} operators inside one another, found more")
    left = _compile(children[0], depth + len(children))
    for tail in children[1:]:
        assert isinstance(tail, Tree)
        kind = str(tail.data)
        if kind in ("is_null", "is_not_null"):
            same = equal(left.evaluate, NULL.evaluate)
            left = same if kind == "is_null" else inverse(same.evaluate)
        elif kind in TEXT_TESTS:
            left = text_test(kind, left, text_of(str(tail.children[0])))
        elif kind in ("in_list", "not_in_list"):
            texts = [text_of(str(token)) for token in tail.children]
            left = listed(left, texts, is_in=kind == "in_list")
        else:
            right = [_compile(part, depth + len(children)) for part in tail.children]
            left = _compared(kind, left, right)
    return left


def _compared(kind: str, left: Operand, right: Sequence[Operand]) -> Operand:
    if kind in ("equal", "not_equal"):
        _check_equals(left, right[0])
        same = equal(left.evaluate, right[0].evaluate)
        return same if kind == "equal" else inverse(same.evaluate)
    for operand in (left, *right):
        _check_ordered(operand)
    if kind in _ORDERS:
        return ordered(left.evaluate, right[0].evaluate, _ORDERS[kind])
    low, high = right
    if kind == "between":
        if low.is_literal and high.is_literal and compare(high.literal, low.literal) < 0:
            raise SqlError(f"BETWEEN: expected {low.literal} to be up to {high.literal}")
        at_least = ordered(left.evaluate, low.evaluate, _ORDERS["greater_equal"])
        at_most = ordered(left.evaluate, high.evaluate, _ORDERS["less_equal"])
        return all_of([at_least.evaluate, at_most.evaluate])
    below = ordered(left.evaluate, low.evaluate, _ORDERS["less"])
    above = ordered(left.evaluate, high.evaluate, _ORDERS["greater"])
    return any_of([below.evaluate, above.evaluate])


_ORDERS: dict[str, Callable[[int], bool]] = {
    "greater": lambda order: order > 0,
    "greater_equal": lambda order: order >= 0,
    "less": lambda order: order < 0,
    "less_equal": lambda order: order <= 0,
}


def _check_equals(left: Operand, right: Operand) -> None:
    if any(one.is_literal and one.literal is None for one in (left, right)):
        raise SqlError("expected IS NULL or IS NOT NULL, found a comparison with NULL")
    if left.is_literal and right.is_literal and left.is_condition and not right.is_condition:
        raise SqlError(f"expected a truth value beside {left.literal}, found {right.literal!r}")


def _check_ordered(operand: Operand) -> None:
    is_number = operand.is_literal and type(operand.literal) not in (str, bool, type(None))
    if (operand.is_literal and not is_number) or operand.is_condition:
        raise SqlError("<, <=, >, >= and BETWEEN: expected numbers or properties, found another")
