"""SQL92 filters against a second evaluator, on drawn expressions and messages."""

from hypothesis import given, settings
from hypothesis import strategies as st

from sql_expressions import Node, conditions, matches, properties, written
from timermq.broker.consuming.sql_filter import compile_sql


@settings(max_examples=100)
@given(conditions, st.lists(properties, min_size=1, max_size=5))
def test_an_expression_matches_what_it_says(tree: Node, messages: list[dict[str, str]]) -> None:
    """A compiled expression matches the messages of which its tree is TRUE, and no others."""
    compiled = compile_sql(written(tree))

    for message in messages:
        assert compiled.matches_properties(message.get) == matches(tree, message), written(tree)
