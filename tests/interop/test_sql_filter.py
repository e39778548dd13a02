"""SQL92 filters against RocketMQ's own, expression by expression."""

from __future__ import annotations

import subprocess
from collections.abc import Callable, Iterator

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from sql_expressions import Node, conditions, properties, written
from timermq.broker.consuming.sql_filter import compile_sql
from timermq.broker.consuming.sql_grammar import SqlError

pytestmark = [pytest.mark.slow, pytest.mark.interop]

Oracle = Callable[[str, dict[str, str]], str]

WORDS = (
    *("a", "b", "_c$1", "a", "5", "7", "5L", "5.0", ".5", "2147483648", "9223372036854775808"),
    *("'x'", "'5'", "'it''s'", "''", "TRUE", "false", "NULL", "=", "<>", "<", "<=", ">", ">=", "-"),
    *("+", "(", ")", ",", "NOT", "and", "OR", "BETWEEN", "IN", "IS", "CONTAINS", "STARTSWITH"),
    *("ENDSWITH", "/* or */", "-- x\n"),
)
"""What an expression may be made of, in any order."""


@pytest.fixture(scope="module")
def oracle(java_client: Callable[..., list[str]]) -> Iterator[Oracle]:
    """Asks RocketMQ: ``MATCH``, ``NO`` or ``REFUSED``."""
    with subprocess.Popen(
        java_client("FilterOracle"), stdin=subprocess.PIPE, stdout=subprocess.PIPE, encoding="utf-8"
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        into, out = process.stdin, process.stdout

        def ask(expression: str, message: dict[str, str]) -> str:
            fields = [expression, *(text for pair in message.items() for text in pair)]
            into.write("\x01".join(fields).replace("\n", "\x02") + "\n")
            into.flush()
            return out.readline().strip()

        yield ask
        into.close()


def ours(expression: str, message: dict[str, str]) -> str:
    """What this broker says of an expression: MATCH, NO or REFUSED."""
    try:
        compiled = compile_sql(expression)
    except SqlError:
        return "REFUSED"
    return "MATCH" if compiled.matches_properties(message.get) else "NO"


fixture_is_shared = settings(
    max_examples=300, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)


@fixture_is_shared
@given(tree=conditions, message=properties)
def test_the_same_messages_match(oracle: Oracle, tree: Node, message: dict[str, str]) -> None:
    """Drawn expressions, drawn messages: RocketMQ delivers what we deliver."""
    expression = written(tree)

    assert oracle(expression, message) == ours(expression, message), expression


@fixture_is_shared
@given(words=st.lists(st.sampled_from(WORDS), min_size=1, max_size=12), message=properties)
@example(words=["-", "2147483648", "<", "a"], message={"a": "5000000000"})
@example(words=["a", "=", "NULL"], message={})
def test_the_same_expressions_are_refused(
    oracle: Oracle, words: list[str], message: dict[str, str]
) -> None:
    """Any words in any order; only what follows a whole expression is refused here alone."""
    expression = " ".join(words)
    theirs, found = oracle(expression, message), ours(expression, message)

    if found != "REFUSED":
        assert theirs == found, expression
    elif theirs != "REFUSED":
        wholes = (ours(" ".join(words[:end]), message) for end in range(1, len(words)))
        assert theirs in wholes, expression
