"""Why a message cannot be delivered: what is wrong with the bytes of its record."""

from __future__ import annotations

import pytest

from timermq.pipeline.records.undeliverable import (
    Reason,
    TimerRecordError,
    Undeliverable,
    check_size,
)
from timermq.timerstore.queue_unit import LOST_SIZE

RECORD = (20).to_bytes(4) + bytes(16)


def test_a_record_of_its_size_passes() -> None:
    """Nothing else is looked at here."""
    check_size(RECORD, 9, 20)


@pytest.mark.parametrize(
    ("record", "size", "reason", "words"),
    [
        (None, 20, Reason.GONE, "expected 20 bytes of the commit log, found none"),
        (b"", 20, Reason.GONE, "found none"),
        (RECORD, LOST_SIZE, Reason.GONE, "found the commit log damaged"),
        (RECORD, 21, Reason.DAMAGED, "expected 21 bytes, found 20 stated"),
        (RECORD[:-1], 20, Reason.DAMAGED, "expected 20 bytes, found 20 stated"),
    ],
)
def test_another_size_is_told_by_its_reason(
    record: bytes | None, size: int, reason: Reason, words: str
) -> None:
    """What is gone may be cleaned; what is damaged is still there in part."""
    with pytest.raises(TimerRecordError, match=words) as fault:
        check_size(record, 9, size)

    assert fault.value.reason is reason


@pytest.mark.parametrize("reason", Reason)
def test_only_some_reasons_mean_that_the_record_is_not_as_it_was(reason: Reason) -> None:
    """With all others the record is sound, and a retry elsewhere may deliver it."""
    error = TimerRecordError(reason, "expected this, found that")
    found = Undeliverable.of(error, 9, 20, None, topic_hash=7)

    assert found.is_sound == (reason not in {Reason.GONE, Reason.DAMAGED, Reason.CHECKSUM})
    assert (found.record, found.text, found.topic_hash) == (b"", "expected this, found that", 7)
