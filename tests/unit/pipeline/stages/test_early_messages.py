"""What steps aside while the clock is set back, and comes when it is due again."""

from __future__ import annotations

import numpy as np

from timermq.pipeline.stages.early_messages import EARLY_SIZE_MAX, EarlyMessages
from timermq.pipeline.stages.timer_request import REQUEST, DeliverBatch, ReadMark
from timermq.timerlog import MAGIC_DEFAULT, MAGIC_ROLL
from timermq.timerstore.record_block import RecordBlock


def batch(*moments: int, first_py: int = 100, magic: int = MAGIC_DEFAULT) -> DeliverBatch:
    """Messages for moments; a record is the moment as text."""
    requests = np.zeros(len(moments), REQUEST)
    requests["deliver_ms"] = moments
    requests["order_py"] = requests["offset_py"] = first_py + np.arange(len(moments))
    requests["magic"] = magic
    return DeliverBatch(
        requests=requests, block=RecordBlock.of([str(one).encode() for one in moments])
    )


def moments(found: DeliverBatch | None) -> list[int]:
    """The moments of a batch; its records are those of its requests."""
    if found is None:
        return []
    wanted: list[int] = found.requests["deliver_ms"].tolist()
    assert [int(record) for record in found.block.records()] == wanted
    return wanted


def test_what_is_due_goes_on_and_the_rest_steps_aside() -> None:
    """In order of moment, whatever batch it came with; at its very moment it is due."""
    early = EarlyMessages()
    assert not early
    assert moments(early.exchange(batch(30, 10, 20), 10)) == [10]
    assert (bool(early), early.first_ms(), early.first_py()) == (True, 20, 100)
    assert moments(early.exchange(batch(25, 40, first_py=200), 30)) == [20, 25, 30]
    assert moments(early.exchange(None, 39)) == []
    assert moments(early.exchange(None, 40)) == [40]
    assert (bool(early), early.first_py()) == (False, None)


def test_equal_moments_keep_the_order_of_sending() -> None:
    """The one that stepped aside first was sent later here."""
    early = EarlyMessages()
    early.exchange(batch(30, first_py=500), 0)
    found = early.exchange(batch(30, first_py=100), 30)

    assert found is not None
    assert found.requests["order_py"].tolist() == [100, 500]


def test_a_roll_does_not_step_aside() -> None:
    """It goes back to the wheel, which no reader sees."""
    early = EarlyMessages()

    assert moments(early.exchange(batch(30, magic=MAGIC_DEFAULT | MAGIC_ROLL), 0)) == [30]
    assert not early


def test_a_batch_is_looked_at_only_if_something_in_it_is_early() -> None:
    """The last moment decides, and an empty batch has none."""
    early = EarlyMessages()

    assert [early.are_in(batch(10, 30), now_ms) for now_ms in (29, 30)] == [True, False]
    assert not early.are_in(batch(), 0)


def test_a_mark_waits_for_all_before_it() -> None:
    """It is given once, when nothing is left."""
    early = EarlyMessages()
    early.exchange(batch(30), 0)
    early.mark = ReadMark(1_000)
    assert early.take_mark() is None
    early.exchange(None, 30)

    assert early.take_mark() == ReadMark(1_000)
    assert early.take_mark() is None


def test_it_takes_no_more_than_its_limit() -> None:
    """By the bytes of the records that it holds."""
    early = EarlyMessages()
    record = bytes(EARLY_SIZE_MAX // 2)
    for is_full in (False, True):
        one = batch(30)
        early.exchange(DeliverBatch(requests=one.requests, block=RecordBlock.of([record])), 0)
        assert early.is_full is is_full
