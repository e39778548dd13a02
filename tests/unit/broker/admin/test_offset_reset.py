"""Tests of offsets that consumers still have to learn."""

from timermq.broker.admin.offset_reset import OffsetResets


def test_a_target_is_told_once() -> None:
    """To the group, of the queue."""
    resets = OffsetResets()
    resets.assign(group="G", topic="T", queue_id=0, offset=5)

    assert resets.is_pending(group="G", topic="T", queue_id=0)
    assert resets.take(group="G", topic="T", queue_id=1) is None
    assert resets.take(group="H", topic="T", queue_id=0) is None
    assert resets.take(group="G", topic="T", queue_id=0) == 5
    assert resets.take(group="G", topic="T", queue_id=0) is None
    assert not resets.is_pending(group="G", topic="T", queue_id=0)


def test_targets_of_what_is_gone() -> None:
    """Groups and topics that are deleted take theirs along."""
    resets = OffsetResets()
    for group in ("G", "H"):
        for topic in ("T", "U"):
            resets.assign(group=group, topic=topic, queue_id=0, offset=5)
    resets.forget_group("G")
    resets.forget_topic("T")

    assert len(resets) == 1
    assert resets.take(group="H", topic="U", queue_id=0) == 5
