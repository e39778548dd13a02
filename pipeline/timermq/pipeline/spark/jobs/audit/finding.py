"""The findings of an audit: when a rule is broken, and that as a row of the table of findings."""

from __future__ import annotations

from collections.abc import Sequence

import attrs
from pyspark.sql import DataFrame

from timermq.repair.store_rule import StoreRule

COLUMNS = (
    "rule string, promise string, phy_offset long, pos long, topic string, queue_id int, "
    "queue_offset long, expected string, found string"
)
"""Of what rules find; a place that does not apply is null."""


@attrs.frozen(kw_only=True)
class Judgement:
    """When a rule is broken, as expressions of Spark over the rows that it is judged by."""

    rule: StoreRule
    when: str
    expected: str
    found: str
    phy_offset: str = "key"
    """The record, preferably the one that waits."""
    pos: str = "NULL"
    """The unit."""
    topic: str = "NULL"
    queue_id: str = "NULL"
    queue_offset: str = "NULL"

    @property
    def row(self) -> str:
        """The finding as an expression of Spark: a struct of ``COLUMNS``."""
        values = (
            f"'{self.rule.name}'",
            "NULL" if self.rule.promise is None else f"'{self.rule.promise_name}'",
            self.phy_offset,
            self.pos,
            self.topic,
            self.queue_id,
            self.queue_offset,
            self.expected,
            self.found,
        )
        columns = (column.split() for column in COLUMNS.split(", "))
        fields = (
            f"'{name}', CAST({value} AS {kind})"
            for (name, kind), value in zip(columns, values, strict=True)
        )
        return f"named_struct({', '.join(fields)})"


def broken(rows: DataFrame, rules: Sequence[Judgement]) -> DataFrame:
    """A row of ``COLUMNS`` for each rule that a row breaks."""
    one_of = " OR ".join(f"({rule.when})" for rule in rules)
    found = ", ".join(f"if({rule.when}, {rule.row}, NULL)" for rule in rules)
    listed = rows.where(one_of).selectExpr(f"explode(array_compact(array({found}))) AS one")
    return listed.select("one.*")


def text(form: str, *values: str) -> str:
    """A sentence with values in it, as an expression.

    Args:
        form: With ``%s`` for each value; no quotes.
        values: Expressions.
    """
    return f"format_string({', '.join((repr(form), *(f'string({one})' for one in values)))})"
