"""Which messages a consumer wants: tag expressions.

``*`` or nothing wants all; ``a || b`` wants those tags. Tags are compared by the 32-bit hash that
the queue keeps, so a stranger with the same hash may pass: clients compare the tag itself again.
The hashes that clients send along are not used: C++ sends zeros.

Source: Java ``FilterAPI``, ``DefaultMessageFilter``.
"""

from __future__ import annotations

import attrs

from timermq.remoting.codes import ResponseCode
from timermq.timerstore.java_hash import java_hash

from .refusal import RefusedError

SUB_ALL = "*"
TAG_TYPE = "TAG"
TAGS_MAX = 4_096
"""Tags in one expression."""


@attrs.frozen
class TagFilter:
    """A parsed tag expression."""

    hashes: frozenset[int] | None
    """Hashes of the tags wanted; None: all messages."""

    def matches(self, tags_code: int) -> bool:
        """Whether a message whose tag has this hash is wanted."""
        return self.hashes is None or tags_code in self.hashes


ALL = TagFilter(None)


def parse_filter(sub_string: str, expression_type: str) -> TagFilter:
    """The filter of a subscription.

    Args:
        sub_string: The expression.
        expression_type: ``TAG``, or nothing for the same.

    Raises:
        RefusedError: The expression names no tag or too many (23), or is of another type (1).
    """
    if expression_type not in ("", TAG_TYPE):
        raise RefusedError(
            ResponseCode.SYSTEM_ERROR,
            "FILTER_TYPE",
            f"the broker does not filter by {ascii(expression_type)[:64]}, only by TAG",
        )
    if sub_string.strip() in ("", SUB_ALL):
        return ALL
    tags = {tag.strip() for tag in sub_string.split("||")} - {""}
    if not 0 < len(tags) <= TAGS_MAX:
        raise RefusedError(
            ResponseCode.SUBSCRIPTION_PARSE_FAILED,
            "FILTER_EXPRESSION",
            f"expected 1 to {TAGS_MAX} tags divided by ||, found {len(tags)}",
        )
    return TagFilter(frozenset(java_hash(tag) for tag in tags))
