"""Tests of SQL92 filters: the logic of three values, RocketMQ's own ways, what is refused."""

import pytest

from timermq.broker.consuming.sql_filter import DEPTH_MAX, CompiledExpressions, compile_sql
from timermq.broker.consuming.sql_grammar import SqlError

MESSAGE = {"a": "5", "b": "7", "s": "it's here", "t": "true", "big": "5000000000", "f": "1.5"}


def matches(expression: str) -> bool:
    """Whether the expression wants the message; it has no property ``n``."""
    return compile_sql(expression).matches_properties(MESSAGE.get)


@pytest.mark.parametrize(
    "expression",
    [
        "a = 5",
        "a = '5'",
        "a <> 6 AND a > 4 AND a >= 5 AND a < 6 AND a <= 5",
        "a < b",
        "5 = a",
        "f > 1.25 AND f < 2e0",
        "-a IS NULL",
        "a > -1",
        "a BETWEEN 5 AND 6",
        "a NOT BETWEEN 6 AND 9",
        "big = 5000000000",
        "s = 'it''s here'",
        "s IN ('x', 'it''s here')",
        "s NOT IN ('x')",
        "s CONTAINS 's h' AND s STARTSWITH 'it' AND s ENDSWITH 'here'",
        "s NOT CONTAINS 'x' AND s NOT STARTSWITH 'x' AND s NOT ENDSWITH 'x'",
        "t = TRUE",
        "t <> FALSE",
        "(a = 5) = (b = 7)",
        "n IS NULL AND a IS NOT NULL",
        "a > 0.0",
        "TRUE",
        "NOT FALSE",
        "n = 1 OR a = 5",
        "NOT (n = 1 AND a = 6)",
    ],
)
def test_what_matches(expression: str) -> None:
    """Every operator, on properties, numbers and texts."""
    assert matches(expression)


@pytest.mark.parametrize(
    "expression",
    [
        "n = 1",
        "NOT (n = 1)",
        "n <> 1",
        "n > 1",
        "n IN ('x')",
        "n NOT IN ('x')",
        "n BETWEEN 1 AND 2",
        "n NOT BETWEEN 1 AND 2",
        "n = 1 AND a = 5",
        "NOT (n = 1 OR a = 6)",
        "n",
        "NOT n",
        "NULL",
        "NOT NULL",
    ],
)
def test_unknown_is_no_match(expression: str) -> None:
    """A property that is missing is NULL, and what depends on it is neither TRUE nor FALSE."""
    assert not matches(expression)


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        ("1 = n", False),
        ("1 <> n", True),
        ("a <> n", True),
        ("n = n", True),
        ("n = m", True),
        ("n CONTAINS 'x'", False),
        ("n NOT CONTAINS 'x'", False),
        ("NOT (n CONTAINS 'x')", True),
        ("s CONTAINS ''", False),
        ("s NOT CONTAINS ''", False),
        ("(a = 5) CONTAINS 'x'", False),
        ("s", False),
        ("NOT s", True),
        ("t", False),
        ("1 = TRUE", False),
        ("NOT a = TRUE", True),
    ],
)
def test_rocketmq_s_own_ways(expression: str, expected: bool) -> None:
    """Where it differs from SQL, so does this: the same messages arrive."""
    assert matches(expression) is expected


@pytest.mark.parametrize(
    "expression",
    [
        "s = 5",
        "s <> 5",
        "NOT (s = 5)",
        "s > 5",
        "a > s",
        "f > 1",
        "big > 5",
        "TRUE = t",
        "s = 5 OR a = 5",
    ],
)
def test_a_failed_conversion_ends_it(expression: str) -> None:
    """A text that is not the number it is compared with is no match, whatever else is said."""
    assert not matches(expression)


def test_what_decides_first_is_enough() -> None:
    """What stands behind is not looked at, so it cannot fail."""
    assert matches("a = 5 OR s = 5")
    assert matches("NOT (a = 6 AND s = 5)")


@pytest.mark.parametrize(
    ("expression", "text"),
    [
        ("5", "expected a condition, found a number or text"),
        ("'x' AND a = 1", "expected a condition, found a number or text"),
        ("NOT -a", "expected a condition, found a number or text"),
        ("a = NULL", "expected IS NULL or IS NOT NULL, found a comparison with NULL"),
        ("TRUE = 'x'", "expected a truth value beside True, found 'x'"),
        ("a > 'x'", "<, <=, >, >= and BETWEEN: expected numbers or properties, found another"),
        ("TRUE > a", "<, <=, >, >= and BETWEEN: expected numbers or properties, found another"),
        ("a > 5 > 4", "<, <=, >, >= and BETWEEN: expected numbers or properties, found another"),
        (
            "a BETWEEN 'x' AND 5",
            "<, <=, >, >= and BETWEEN: expected numbers or properties, found another",
        ),
        ("a BETWEEN 6 AND 5.5", "BETWEEN: expected 6 to be up to 5.5"),
        ("5 IN ('5')", "IN: expected a property before it, found another operand"),
        ("a = 9223372036854775808", "expected a 64-bit number, found 9223372036854775808"),
        ("a = 1e999", "expected a number within the range of doubles, found 1e999"),
    ],
)
def test_what_is_refused(expression: str, text: str) -> None:
    """What can never be meant is told when the consumer starts, not message by message."""
    with pytest.raises(SqlError) as caught:
        compile_sql(expression)

    assert str(caught.value) == text


@pytest.mark.parametrize(
    "deep",
    [
        "NOT " * DEPTH_MAX + "a",
        "- " * DEPTH_MAX + "5 = a",
        "a" + " = TRUE" * DEPTH_MAX,
        "a" + " CONTAINS 'x'" * DEPTH_MAX,
        "(" * DEPTH_MAX + "a" + " AND b)" * DEPTH_MAX,
    ],
)
def test_depth_is_bounded(deep: str) -> None:
    """One operator inside the other, so many times and not more."""
    with pytest.raises(SqlError, match="expected at most 64 operators inside one another"):
        compile_sql(deep)


def test_width_is_not() -> None:
    """Side by side as many stand as an expression has room for."""
    assert matches(" OR ".join(["a=6"] * 500 + ["a=5"]))
    assert matches(f"a IN ({','.join(repr(str(number)) for number in range(500))})")


def test_compiled_once() -> None:
    """The same expression is the same filter while it is used."""
    assert compile_sql("a = 1") is compile_sql("a = 1")


def test_what_was_used_last_is_kept() -> None:
    """Expressions of 5 characters, of which 12 may be kept: two, and a longer one alone."""
    kept = CompiledExpressions(length_max=12)
    a, b = kept.get("a = 1"), kept.get("b = 1")
    assert kept.get("a = 1") is a
    kept.get("c = 1")

    assert kept.get("a = 1") is a
    assert kept.get("b = 1") is not b
    long = kept.get("a = 1 AND b = 1")
    assert kept.get("a = 1 AND b = 1") is long
    assert kept.get("a = 1") is not a
    with pytest.raises(SqlError):
        kept.get("a =")


def test_a_record_that_cannot_be_read() -> None:
    """It is not hidden from a consumer that filters."""
    assert compile_sql("a = 5").matches(b"nonsense")
