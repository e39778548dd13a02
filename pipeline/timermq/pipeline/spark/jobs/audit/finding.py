"""What an audit finds: the promises, and a broken one as a row of the table of findings."""

from __future__ import annotations

import enum
from collections.abc import Sequence

import attrs
from pyspark.sql import DataFrame


class Verdict(enum.Enum):
    """The promises by the names of docs/guarantees.md, where they have one there."""

    NOT_LOST = "what was due has arrived, was moved, cancelled or quarantined, or waits"
    NOT_BEFORE = "nothing arrives before its moment"
    ONCE = "a message arrives once, and waits in one place"
    LATE = "nothing arrives later than the limit that was given"
    CANCELLED = "what was cancelled does not arrive"
    ORPHAN = "what names a waiting record names one that is there"
    TORN = "records and bodies are as they were stored"
    CHAINS_DESCEND = "units are whole, linked in their slot, and say what their records say"
    FOLLOWS_LOG = "each queue has the records of the log, one a unit, without a gap"
    ORDER = "messages of one moment and queue arrive in the order of sending"


COLUMNS = (
    "verdict string, phy_offset long, pos long, topic string, queue_id int, queue_offset long, "
    "expected string, found string"
)
"""Of what rules find; a place that does not apply is null."""


@attrs.frozen(kw_only=True)
class Rule:
    """When a promise is broken, as expressions of Spark over the rows that it is judged by."""

    verdict: Verdict
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
            f"'{self.verdict.name}'",
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


def broken(rows: DataFrame, rules: Sequence[Rule]) -> DataFrame:
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
