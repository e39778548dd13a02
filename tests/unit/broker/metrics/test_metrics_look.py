"""Tests of what a page of metrics is made of, apart from the broker."""

from timermq.broker.consumer_offset import ConsumerOffsetTable
from timermq.broker.metrics.metrics_look import GroupLag, group_lags


def test_lag_is_what_lies_behind_the_commits() -> None:
    """Queues are added up; one that is gone, or was committed beyond its end, adds nothing."""
    offsets = ConsumerOffsetTable(now_ms=lambda: 0, version_step=500)
    for queue_id, offset in ((0, 3), (1, 10), (2, 5)):
        offsets.commit(group="G", topic="T", queue_id=queue_id, offset=offset)

    assert list(group_lags(offsets, {("T", 0): 7, ("T", 1): 8})) == [
        GroupLag(group="G", topic="T", messages=4)
    ]
