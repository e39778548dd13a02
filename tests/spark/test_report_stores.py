"""The report of whole stores: ours, RocketMQ's, and one with nothing in it."""

from __future__ import annotations

from collections import Counter
from datetime import UTC
from pathlib import Path
from typing import Any

import attrs
import pytest
import trio
from pyspark.sql import SparkSession
from trio.testing import MockClock

from cli.program import Ran
from damaged_stores import LATER_MS, SENT, small_image
from golden_stores import GoldenStores
from timermq.cli import main
from timermq.cli.spark.report import lines
from timermq.pipeline.spark import SparkJobError, StoreView
from timermq.pipeline.spark.jobs.report import check_places, one_precision, report, write_frames
from timermq.pipeline.spark.jobs.report_summary import Summary, summary
from timermq.simulator.disks.disk_damage import write_image
from timermq.timerstore.os_disk import OsDisk

README = Path(__file__).parents[2] / "README.md"
ROOT = "/store"
FRAMES = (
    "backlog",
    "backlog_by_hour",
    "backlog_by_topic",
    "hot_slots",
    "rolls",
    "delays",
    "lateness",
    "forecast",
)


def summarised(spark: SparkSession, store: str, begin_ms: int) -> Summary:
    """The summary of a store's report."""
    found = report(spark, store, begin_ms=begin_ms, drain_rate=1000)
    short = summary(found, store=store, begin_ms=begin_ms)
    found.release()
    return short


def run(capsys: pytest.CaptureFixture[str], *argv: str) -> Ran:
    """Run the program, with the session of the tests."""
    capsys.readouterr()
    code = main(list(argv))
    captured = capsys.readouterr()
    return Ran(code, captured.out, captured.err)


@pytest.fixture
def small_store(tmp_path: Path) -> str:
    """A store that our broker wrote, with timers in every state, stopped."""
    image = trio.run(small_image, clock=MockClock(autojump_threshold=0))
    write_image(OsDisk(), {f"{tmp_path}{path}": content for path, content in image.items()})
    return f"{tmp_path}{ROOT}"


@pytest.mark.parametrize("name", ["g2", "g3", "g5"])
def test_golden_stores(spark: SparkSession, golden_stores: GoldenStores, name: str) -> None:
    """What RocketMQ left on the wheel and what it delivered from there, as the producer knows."""
    store = golden_stores[name]
    sent = store.manifest.messages
    waiting = Counter(one.topic for one in sent if one.state.startswith("pending"))
    # What RocketMQ delivers of a level is no timer's delivery.
    timers = [one for one in sent if "level" not in one.kind]
    delivered = Counter(one.topic for one in timers if one.state == "delivered")

    short = summarised(spark, store.root, store.manifest.times["stopSignalMs"])

    assert waiting == {row["topic"]: row["count"] for row in short.topics}
    assert delivered == {row["topic"]: row["count"] for row in short.late_topics}
    levels = [one for one in store.manifest.messages if "level" in one.kind]
    assert short.levels_left == sum(one.state == "pending" for one in levels)
    assert 0 == sum(row["early"] for row in short.late_topics)


def test_several_stores(spark: SparkSession, golden_stores: GoldenStores, tmp_path: Path) -> None:
    """Their brokers count as one, and what each has to deliver stands beside it."""
    stores = [f"{name}={golden_stores[name].root}" for name in ("g3", "g5")]
    found = report(spark, stores, begin_ms="2026-11-01T00:00:00Z", drain_rate=1000)
    short = summary(found, store="both", begin_ms=0)
    written = write_frames(spark, found, str(tmp_path), store=stores)
    found.release()

    assert short.brokers is not None
    assert [("g3", 101), ("g5", 9)] == [(row["broker"], row["count"]) for row in short.brokers]
    assert 110 == short.pending["count"] == sum(row["count"] for row in short.topics)
    assert "brokers    g3 101, g5 9" in lines(short, UTC)
    assert 2 == spark.read.parquet(f"{tmp_path}/{written[-2]}.parquet").count()
    with pytest.raises(SparkJobError, match="expected a directory apart from the store"):
        check_places(golden_stores["g5"].root, store=stores)


def test_slots_of_several_widths(golden_stores: GoldenStores) -> None:
    """They are not put together."""
    view = StoreView.of(golden_stores["g5"].root)
    narrow = attrs.evolve(view.timer_options, timer_precision_ms=500)
    other = attrs.evolve(view, root="/other", timer_options=narrow)

    assert 1000 == one_precision([view, view])
    with pytest.raises(SparkJobError, match=r"of one width, found 1000 ms in .*g5/store, 500 ms"):
        one_precision([view, other])


def test_width_of_rocketmqs_slots(spark: SparkSession, golden_stores: GoldenStores) -> None:
    """Its units tell a slot alone: the moment counts as the slot's end, as wide as one says."""
    longest = list[dict[str, int]]()
    for precision_ms in (None, 500):
        found = report(
            spark,
            golden_stores["g5"].root,
            begin_ms=0,
            drain_rate=1000,
            timer_precision_ms=precision_ms,
        )
        longest.append({row["topic"]: row["max_ms"] for row in found.delays.collect()})
        found.release()

    assert longest[0]
    assert longest[0] == {topic: most_ms + 500 for topic, most_ms in longest[1].items()}


def test_a_store_of_ours(
    spark: SparkSession, small_store: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """The verb counts what `pending` lists; the rest has fired, each in its millisecond."""
    listed: list[Any] = [*run(capsys, "pending", "--store", small_store, "--json").rows]

    flags = ("--from", str(LATER_MS), "--json")
    found: Any = run(capsys, "spark", "report", "--store", small_store, *flags).rows[0]

    moments = [row["deliver_ms"] for row in listed]
    assert (len(listed), min(moments), max(moments)) == tuple(
        found["pending"][name] for name in ("count", "first_ms", "last_ms")
    )
    assert SENT == found["pending"]["count"] + found["lateness"]["count"]
    assert (0, 0) == (found["lateness"]["early"], found["lateness"]["max_ms"])
    assert found["forecast"] is None


def test_pictures_and_tables_are_written(
    spark: SparkSession, small_store: str, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    """With a directory to write to; what people see ends with what is there."""
    out = tmp_path / "report"

    flags = ("--from", str(LATER_MS), "--zone", "UTC", "--drain-rate", "2", "--out", str(out))
    ran = run(capsys, "spark", "report", "--store", small_store, *flags)

    assert (0, "") == (ran.code, ran.err)
    assert f"written    {out}: tables, backlog.svg, week.svg, lateness.svg\n" in ran.out
    assert "at 2/s, as given: 2023-11-14T22:1" in ran.out
    assert {"backlog.svg", "week.svg", "lateness.svg"} <= {path.name for path in out.iterdir()}
    assert set(FRAMES) == {path.stem for path in out.glob("*.parquet")}
    assert all(list(path.glob("part-*")) for path in out.glob("*.parquet"))


def test_commands_of_the_readme(
    spark: SparkSession,
    small_store: str,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """What it says of jobs, as it stands there."""
    monkeypatch.chdir(Path(small_store).parent)
    lines = [line.split() for line in README.read_text().splitlines() if line.startswith("$ ")]
    commands = [words[2:] for words in lines if "spark" in words]

    ran = [run(capsys, *argv) for argv in commands]

    assert [["spark", "report"], ["spark", "audit"]] == [argv[:2] for argv in commands]
    assert [(0, ""), (0, "")] == [(one.code, one.err) for one in ran]


def test_no_store(spark: SparkSession, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    """One line says what is missing."""
    ran = run(capsys, "spark", "report", "--store", str(tmp_path))

    assert (1, f"timermq: {tmp_path}: expected a store, found no folder commitlog\n") == (
        ran.code,
        ran.err,
    )
