"""Which messages a delete that cannot be read leaves in doubt."""

from __future__ import annotations

import pytest

from timermq.pipeline.records.undeliverable import TimerRecordError
from timermq.pipeline.records.unread_delete import UnreadDelete, unread_among

DELETE = UnreadDelete(topic_hash=7, offset_py=1_000)


@pytest.mark.parametrize(
    ("topic_hash", "offset_py", "order_py", "is_in_doubt"),
    [
        (7, 500, 500, True),
        (7, 2_000, 500, True),
        (7, 2_000, 2_000, False),
        (8, 500, 500, False),
    ],
    ids=["sent before it", "rolled behind it", "sent behind it", "of another topic"],
)
def test_what_was_sent_before_it_is_in_doubt(
    topic_hash: int, offset_py: int, order_py: int, is_in_doubt: bool
) -> None:
    """Wherever its newest record stands: a message may roll later than its delete."""
    (delete,) = unread_among([DELETE.name(), b"a key"])
    if is_in_doubt:
        with pytest.raises(TimerRecordError, match="found it damaged"):
            delete.check(topic_hash, offset_py, order_py)
    else:
        delete.check(topic_hash, offset_py, order_py)
