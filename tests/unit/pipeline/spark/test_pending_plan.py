"""The plan of a read of what waits: bytes that are read, by the planner and by the tasks."""

from __future__ import annotations

import pickle
import shutil
from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import attrs
import numpy as np
import pytest

from timermq.pipeline.spark.errors import SparkJobError
from timermq.pipeline.spark.log_stretches import outlines_of, stretches
from timermq.pipeline.spark.options import ReadOptions
from timermq.pipeline.spark.pending_plan import Plan
from timermq.pipeline.spark.store_view import StoreView
from timermq.pipeline.spark.tables.pending_table import PendingReader, PendingSpan
from timermq.timerlog.segment import CHUNK_COUNT
from timermq.timerlog.stretch_outline import STRETCH_SIZE
from timermq.timerlog.unit import UNIT
from unit.pipeline.spark.outlined_store import (
    CANCELLED,
    COUNT,
    EARLY_CANCELLED,
    PER_SLOT,
    STRETCHES,
    moment_ms,
    outlined_store,
)
from unit.pipeline.spark.store_directories import rows_of, served

WAITING = set(range(COUNT)) - {*CANCELLED, *EARLY_CANCELLED}
OUTLINES = "timermq-outlines"


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> str:
    """The store, which no test changes."""
    return outlined_store(tmp_path_factory.mktemp("outlined") / "store")


@pytest.fixture
def root(made: str, tmp_path: Path) -> str:
    """A store of the test's own."""
    return shutil.copytree(made, str(tmp_path / "store"))


def served_view(root: str) -> StoreView:
    """The store as a broker that serves it would show it."""
    with served(root):
        return StoreView.of(root)


def bytes_read() -> int:
    """Bytes that this process has read from files so far, as Linux counts them."""
    lines = Path("/proc/self/io").read_text().splitlines()
    return int(next(line for line in lines if line.startswith("rchar:")).split()[1])


def planned(root: str, **options: Any) -> tuple[Plan, int]:  # noqa: ANN401 - passed on
    """The plan of a store that is served, and the bytes that it took."""
    view = served_view(root)
    before = bytes_read()
    plan = Plan.of(view, ReadOptions(path=root, **options))
    return plan, bytes_read() - before


def to_read(plan: Plan) -> int:
    """Bytes of the timer log that the tasks read."""
    return sum(run.part.high - run.part.low for task in plan.tasks for run in task.runs)


def log_size(root: str) -> int:
    """Bytes of all units of the timer log."""
    log = served_view(root).timer_log
    return sum(one.part.high - one.part.low for one in stretches(log))


def numbers(root: str, *names: str, **options: int) -> list[int]:
    """The numbers of the messages that the table has, in their order."""
    with served(root):
        return numbers_of(root, *names, **options)


def numbers_of(root: str, *names: str, **options: int) -> list[int]:
    """The same of a store that is stopped, or served already."""
    rows = rows_of(PendingReader, root, "deliver_ms", *names, **options)
    first = moment_ms(0)
    return sorted(
        (row["deliver_ms"] - first) // 1000 * PER_SLOT + (row["deliver_ms"] - first) % 1000
        for row in rows
    )


def test_the_plan_reads_outlines(made: str) -> None:
    """Of a store that is served, and of stretches without an outline, which are read once."""
    plan, count = planned(made)

    assert to_read(plan) == log_size(made)
    assert count < log_size(made) / 10


def test_without_outlines_the_units_tell(root: str) -> None:
    """The plan is the same, and takes the log."""
    shutil.rmtree(Path(root) / OUTLINES)
    plan, count = planned(root)

    assert to_read(plan) == log_size(root)
    assert count > log_size(root)


@pytest.mark.parametrize(
    ("is_served", "has_outlines"), [(False, True), (True, True), (True, False)]
)
def test_rows(root: str, *, is_served: bool, has_outlines: bool) -> None:
    """All that waits, and what is due in a second, with and without outlines."""
    if not has_outlines:
        shutil.rmtree(Path(root) / OUTLINES)
    first = CHUNK_COUNT // PER_SLOT * PER_SLOT
    window = {"due_from": moment_ms(first), "due_to": moment_ms(first + PER_SLOT)}
    with served(root) if is_served else nullcontext():
        assert sorted(WAITING) == numbers_of(root)
        assert [one for one in range(first, first + PER_SLOT) if one in WAITING] == numbers_of(
            root, **window
        )
        if is_served:  # A stopped store is recovered for each question.
            assert [one for one in range(PER_SLOT) if one in WAITING] == numbers_of(
                root, "unique_id", due_to=moment_ms(PER_SLOT)
            )


@pytest.mark.parametrize(
    ("first", "last", "read"),
    [(0, 999, 1), (CHUNK_COUNT - 500, CHUNK_COUNT + 500, 2), (3 * CHUNK_COUNT + 500, COUNT, 1)],
)
def test_a_window_reads_its_stretches(made: str, first: int, last: int, read: int) -> None:
    """Ten seconds are a thousand messages here; of another window no stretch is left."""
    plan, _ = planned(made, due_from=moment_ms(first), due_to=moment_ms(last))
    none, _ = planned(made, due_from=moment_ms(COUNT) + 60_000)

    cancelled = [one for one in (*CANCELLED, *EARLY_CANCELLED) if first <= one < last]
    assert len(cancelled) == len(plan.deletes.places())
    assert read * STRETCH_SIZE >= to_read(plan) > (read - 1) * STRETCH_SIZE
    assert to_read(none) == 0
    assert [] == numbers(made, due_from=moment_ms(COUNT) + 60_000)


def test_a_task_is_small(made: str) -> None:
    """It is told where deletes stand, and hands over only those of which no outline tells."""
    spans = PendingReader(ReadOptions(path=made), ("deliver_ms",)).spans(served_view(made))
    assert isinstance(spans[0], PendingSpan)
    deletes = spans[0].deletes

    assert len(EARLY_CANCELLED) + len(CANCELLED) == deletes.count
    assert len(CANCELLED) == len(deletes.handed_over)
    assert deletes.count == len(deletes.places())
    assert max(len(pickle.dumps(span)) for span in spans) < 3000


@pytest.mark.parametrize("partitions", [1, 2, 3, 5, 40])
def test_tasks(made: str, partitions: int) -> None:
    """As many as are wanted; whole stretches, side by side, while there are enough of them."""
    plan, _ = planned(made, partitions=partitions)
    runs = [run for task in plan.tasks for run in task.runs]

    assert partitions <= len(plan.tasks) <= partitions + STRETCHES + 1
    assert to_read(plan) == log_size(made)
    if partitions <= STRETCHES + 1:
        assert all(None not in run.checksums for run in runs[:-1])
    assert sorted(WAITING) == numbers(made, partitions=partitions)


def change_unit(number: int) -> Callable[[str], None]:
    """Another topic in a unit of the first segment."""

    def change(root: str) -> None:
        with (Path(root) / "timerlog" / f"{0:020d}").open("r+b") as file:
            at = number * UNIT.size + UNIT.offset_of("topic_hash")
            file.seek(at)
            was = file.read(1)
            file.seek(at)
            file.write(bytes((was[0] ^ 1,)))

    return change


def test_an_outline_of_other_units(root: str) -> None:
    """A task that reads the stretch finds out; other stretches are read."""
    change_unit(77)(root)

    with pytest.raises(SparkJobError, match=r"byte 0: expected units with the sum .* store repair"):
        numbers(root, partitions=1)
    later = numbers(root, due_from=moment_ms(CHUNK_COUNT + 1000))
    assert len(later) == len([one for one in WAITING if one >= CHUNK_COUNT + 1000])


def test_an_outline_of_another_stretch(root: str) -> None:
    """Where the last unit is another one it is not believed, and the units tell."""
    change_unit(CHUNK_COUNT - 1)(root)
    log = list(stretches(served_view(root).timer_log))

    assert [False, True, True, False] == [one.deletes is None for one in log]
    assert sorted(WAITING) == numbers(root)


def test_damaged_deletes(root: str) -> None:
    """Where those beside an outline are not as written, the stretch is read for them."""
    log = served_view(root).timer_log
    path = Path(outlines_of(log).path(0))
    data = bytearray(path.read_bytes())
    data[-1] ^= 1
    path.write_bytes(data)

    assert sorted(WAITING) == numbers(root)


def test_what_is_read_is_left_out(made: str) -> None:
    """Stretches whose slots are all read are passed over, with their deletes."""
    view = served_view(made)
    later = attrs.evolve(view, read_ms=moment_ms(CHUNK_COUNT + 5000) // 1000 * 1000)
    plan = Plan.of(later, ReadOptions(path=made))

    assert to_read(plan) == log_size(made) - STRETCH_SIZE
    assert len(plan.deletes.places()) == 1
    assert np.all(plan.deletes.places()["slot_ms"] >= later.read_ms)
