"""Which messages a consumer wants: tag expressions, or SQL92 over properties.

``*`` or nothing wants all; ``a || b`` wants those tags. Tags are compared by the 32-bit hash that
the queue keeps, so a stranger with the same hash may pass: clients compare the tag itself again.
The hashes that clients send along are not used: C++ sends zeros. Messages that
SQL92 lets through are not filtered again.

Source: Java ``FilterAPI``, ``DefaultMessageFilter``, ``ExpressionMessageFilter``.
"""

from __future__ import annotations

import attrs

from timermq.remoting.codes import ResponseCode
from timermq.timerstore.java_hash import java_hash
from timermq.timerstore.queue_reader import RecordFilter, TagsFilter

from ..refusal import RefusedError
from .sql_filter import SqlFilter, compile_sql
from .sql_grammar import SqlError

SUB_ALL = "*"
TAG_TYPE = "TAG"
SQL_TYPE = "SQL92"
TAGS_MAX = 4_096
"""Tags in one expression."""


@attrs.frozen
class MessageFilter:
    """A parsed expression of either kind."""

    hashes: frozenset[int] | None = None
    """Hashes of the tags wanted; None: tags do not matter."""
    sql: SqlFilter | None = None
    """Condition on the properties; None: there is none."""

    @property
    def matches_tags(self) -> TagsFilter | None:
        """Says from the hash of a tag whether the message may be wanted; None: any may."""
        return None if self.hashes is None else self.hashes.__contains__

    @property
    def matches_record(self) -> RecordFilter | None:
        """Says from a record whether the message is wanted; None: its tag says enough."""
        return None if self.sql is None else self.sql.matches


ALL = MessageFilter()


def parse_filter(
    sub_string: str, expression_type: str, *, property_filter_enable: bool = True
) -> MessageFilter:
    """The filter of a subscription.

    Args:
        sub_string: The expression.
        expression_type: ``TAG``, or nothing for the same; ``SQL92``.
        property_filter_enable: Whether the broker filters by properties.

    Raises:
        RefusedError: The expression names no tag or too many, or is no SQL (23); or the broker does
            not filter by this type (1).
    """
    if expression_type in ("", TAG_TYPE):
        return _tag_filter(sub_string)
    if expression_type != SQL_TYPE or not property_filter_enable:
        expected = (
            "TAG and SQL92" if property_filter_enable else "TAG: enablePropertyFilter is false"
        )
        raise RefusedError(
            ResponseCode.SYSTEM_ERROR,
            "FILTER_TYPE",
            f"the broker does not filter by {ascii(expression_type)[:64]}, only by {expected}",
        )
    try:
        return MessageFilter(sql=compile_sql(sub_string))
    except SqlError as error:
        raise RefusedError(
            ResponseCode.SUBSCRIPTION_PARSE_FAILED, "FILTER_EXPRESSION", f"SQL92: {error}"
        ) from error


def _tag_filter(sub_string: str) -> MessageFilter:
    if sub_string.strip() in ("", SUB_ALL):
        return ALL
    tags = {tag.strip() for tag in sub_string.split("||")} - {""}
    if not 0 < len(tags) <= TAGS_MAX:
        raise RefusedError(
            ResponseCode.SUBSCRIPTION_PARSE_FAILED,
            "FILTER_EXPRESSION",
            f"expected 1 to {TAGS_MAX} tags divided by ||, found {len(tags)}",
        )
    return MessageFilter(frozenset(java_hash(tag) for tag in tags))
