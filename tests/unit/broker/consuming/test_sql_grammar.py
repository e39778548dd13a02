"""Tests of the grammar of SQL92 filters: what is read, and how a fault is told."""

import pytest
from lark import Token, Tree

from timermq.broker.consuming.sql_grammar import EXPRESSION_LENGTH_MAX, SqlError, parse_sql


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("a=1", " a\t=\n1 \r\f"),
        ("a = 1", "a -- it's a comment\n= 1"),
        ("a = 1", "/* * / ** */ a = 1 --"),
        ("a IS NOT NULL", "a is Not nULL"),
        ("a = 1 OR b = 2 AND c = 3", "a = 1 OR (b = 2 AND c = 3)"),
        ("NOT a = TRUE", "(NOT a) = TRUE"),
        ("a BETWEEN 1 AND 2 AND b", "(a BETWEEN 1 AND 2) AND b"),
        ("a = +5", "a = 5"),
    ],
)
def test_two_ways_to_write_one_thing(one: str, other: str) -> None:
    """Blanks, comments and the case of words do not count; operators bind as in RocketMQ."""
    assert parse_sql(one) == parse_sql(other)


@pytest.mark.parametrize("name", ["a", "_", "$a9", "NOTA", "android", "Inn", "betweens"])
def test_names(name: str) -> None:
    """A name may begin like a word of the language."""
    assert parse_sql(name) == Tree("property", [Token("NAME", name)])


@pytest.mark.parametrize(
    ("expression", "text"),
    [
        ("", "expected more, found the end"),
        ("  /* only */", "expected more, found the end"),
        ("a =", "expected more, found the end"),
        ("a IN ('x'", "expected more, found the end"),
        ("a = 1 b", "character 6: expected another word or sign, found 'b'"),
        ("a ^ 1", "character 2: expected another word or sign, found '^ 1'"),
        ("a = 'x", 'character 4: expected another word or sign, found "\'x"'),
        ("in = 1", "character 0: expected another word or sign, found 'in = 1'"),
        ("a = 007", "character 5: expected another word or sign, found '07'"),
        ("a IN (5)", "character 6: expected another word or sign, found '5)'"),
        ("ä = 1", "character 0: expected another word or sign, found '\\xe4 = 1'"),
        ("a" * 4097, "expected at most 4096 characters, found 4097"),
    ],
)
def test_faults(expression: str, text: str) -> None:
    """The place is named, and what stands there."""
    with pytest.raises(SqlError) as caught:
        parse_sql(expression)

    assert str(caught.value) == text


def test_the_longest_expressions() -> None:
    """Brackets and signs may take all of it: only operators are counted, and later."""
    half = EXPRESSION_LENGTH_MAX // 2 - 1

    assert parse_sql("(" * half + "a" + ")" * half) == parse_sql("a")
    parse_sql("+" * (EXPRESSION_LENGTH_MAX - 1) + "a")
