"""Operands of SQL filters: three-valued logic, with RocketMQ's own ways."""

from __future__ import annotations

import operator

import pytest

from timermq.broker.consuming.sql_grammar import SqlError
from timermq.broker.consuming.sql_operand import (
    NULL,
    TEXT_TESTS,
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
    text_test,
)
from timermq.broker.consuming.sql_value import Value

TRUE, FALSE = literal("true"), literal("false")
A, N = property_of("a"), property_of("n")
ONE = literal("decimal", "1")


def value(operand: Operand) -> Value:
    """The value for a message with the property a and no n."""
    return operand.evaluate({"a": "5"}.get)


def broken(_: object) -> Value:
    """An operand that must not be looked at."""
    raise AssertionError


@pytest.mark.parametrize(
    ("left", "right", "either", "both"),
    [
        (TRUE, TRUE, True, True),
        (TRUE, FALSE, True, False),
        (FALSE, FALSE, False, False),
        (TRUE, NULL, True, None),
        (NULL, FALSE, None, False),
        (NULL, NULL, None, None),
    ],
)
def test_null_is_neither_true_nor_false(
    left: Operand, right: Operand, either: Value, both: Value
) -> None:
    """In both orders: one operand that decides makes the other of no account."""
    for parts in ([left.evaluate, right.evaluate], [right.evaluate, left.evaluate]):
        assert (value(any_of(parts)), value(all_of(parts))) == (either, both)


def test_behind_the_operand_that_decides_none_is_looked_at() -> None:
    """A text that is no number would end the evaluation there."""
    assert value(any_of([TRUE.evaluate, broken])) is True
    assert value(all_of([FALSE.evaluate, broken])) is False


@pytest.mark.parametrize(("operand", "found"), [(TRUE, False), (FALSE, True), (NULL, None)])
def test_not_leaves_null_as_it_is(operand: Operand, found: Value) -> None:
    """The others change places under ``NOT``."""
    assert value(inverse(operand.evaluate)) is found


def test_minus_is_for_numbers_alone() -> None:
    """Before a property or a text the value is NULL, as RocketMQ has it."""
    assert value(negated(ONE.evaluate)) == -1
    assert value(negated(literal("float", "1.5").evaluate)) == -1.5
    assert value(negated(A.evaluate)) is None
    assert value(negated(TRUE.evaluate)) is None


def test_null_equals_null_and_on_the_right_nothing_else() -> None:
    """On the left it makes the comparison NULL, where SQL would do so on both sides."""
    assert value(equal(N.evaluate, N.evaluate)) is True
    assert value(equal(N.evaluate, ONE.evaluate)) is None
    assert value(equal(ONE.evaluate, N.evaluate)) is False


def test_two_texts_are_ordered_as_numbers() -> None:
    """So "5" is less than "10"; a missing property makes the order NULL."""
    ten = literal("string", "'10'")

    assert value(ordered(A.evaluate, ten.evaluate, lambda order: order < 0)) is True
    assert value(ordered(A.evaluate, N.evaluate, lambda order: order < 0)) is None
    assert value(ordered(N.evaluate, A.evaluate, lambda order: order < 0)) is None


@pytest.mark.parametrize("kind", TEXT_TESTS)
def test_texts_of_nothing_pass_no_test(kind: str) -> None:
    """Neither a missing property nor an empty text matches, with ``NOT`` too."""
    assert value(text_test(kind, N, "5")) is False
    assert value(text_test(kind, A, "")) is False


@pytest.mark.parametrize(("is_in", "of_another"), [(True, False), (False, True)])
def test_a_list_is_for_properties(*, is_in: bool, of_another: bool) -> None:
    """A missing property is NULL with ``IN`` and ``NOT IN``; another operand is refused."""
    assert value(listed(A, ["5"], is_in=is_in)) is is_in
    assert value(listed(A, ["6"], is_in=is_in)) is of_another
    assert value(listed(N, ["5"], is_in=is_in)) is None
    with pytest.raises(SqlError, match="expected a property before it"):
        listed(ONE, ["1"], is_in=is_in)


def test_a_condition_is_no_number_and_no_text() -> None:
    """A property alone is allowed and never TRUE; a literal number is refused."""
    assert condition(TRUE) is TRUE
    assert value(condition(A)) is False
    assert value(condition(N)) is None
    with pytest.raises(SqlError, match="expected a condition"):
        condition(ONE)


def test_literals_that_java_has_no_type_for_are_refused() -> None:
    """A double beyond the range, and a whole number of more than 64 bits."""
    assert value(literal("string", "'it''s'")) == "it's"
    assert operator.index(literal("decimal", "7L").literal) == 7  # type: ignore[arg-type]
    for kind, text in (("float", "1e999"), ("decimal", str(2**63))):
        with pytest.raises(SqlError):
            literal(kind, text)
