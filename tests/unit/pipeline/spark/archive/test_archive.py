"""Where an archive goes on, and what it does when that is gone."""

from __future__ import annotations

from itertools import islice

import pytest

from timermq.pipeline.spark import SparkJobError, StoreView
from timermq.pipeline.spark.archive.batch import Batch
from timermq.pipeline.spark.jobs.archive import (
    ArchiveReport,
    begins_at,
    follow,
    stretches,
)
from timermq.pipeline.spark.store_view import LogView
from timermq.pipeline.state.timer_options import TimerOptions
from timermq.timerstore.store_options import StoreOptions


def view_of(*starts: int, end: int) -> StoreView:
    """A store with segments of 100 bytes."""
    log = LogView(directory="/log", segment_size=100, starts=starts, end=end)
    return StoreView(
        root="/store",
        is_live=True,
        store_options=StoreOptions(),
        timer_options=TimerOptions(),
        log=log,
        timer_log=log,
        read_ms=0,
        queue_offset=0,
        scan_py=0,
    )


def batch_to(high: int) -> Batch:
    """The entry of a batch that ended there."""
    return Batch(number=0, low=0, high=high, rows=0, files=[])


def test_a_batch_is_many_segments() -> None:
    """One for all up to what is durable; of more bytes than its limit it ends with a segment."""
    view = view_of(100, 200, 300, end=340)

    assert list(stretches(view, 150)) == [(150, 340)]
    assert list(stretches(view, 150, 150)) == [(150, 300), (300, 340)]
    assert list(stretches(view, 150, 1)) == [(150, 200), (200, 300), (300, 340)]
    assert not list(stretches(view, 340))


def test_begins_where_the_last_one_ended() -> None:
    """A new archive begins with the log."""
    view = view_of(100, 200, end=250)

    assert begins_at(view, None, "/archive") == 100
    assert begins_at(view, batch_to(180), "/archive") == 180


def test_removed_before_it_was_archived() -> None:
    """The error says how much was missed."""
    with pytest.raises(SparkJobError, match=r"from 130 on, where /archive ends.*70 bytes"):
        begins_at(view_of(200, 300, end=350), batch_to(130), "/archive")


def test_another_store() -> None:
    """An archive that is ahead of its store is another store's."""
    with pytest.raises(SparkJobError, match=r"reaches 400.*its end at 350"):
        begins_at(view_of(200, 300, end=350), batch_to(400), "/archive")


def test_following() -> None:
    """Runs go on for ever, with pauses; those that found nothing are not reported."""
    counts, slept = iter([2, 0, 0, 1]), list[float]()

    def run() -> ArchiveReport:
        return ArchiveReport(batches=next(counts), rows=0, files=0, low=0, high=0)

    found = list(islice(follow(run, 5.0, slept.append), 2))

    assert [one.batches for one in found] == [2, 1]
    assert slept == [5.0, 5.0, 5.0]
