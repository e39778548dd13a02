"""``timermq spark replay`` of an archive that `archive` has made, and that grows."""

from __future__ import annotations

import shutil
from collections import Counter
from pathlib import Path

import pytest
import trio
from pyspark.sql import Row, SparkSession
from trio.testing import MockClock

from damaged_stores import LATER_MS, small_image
from fakes import START_MS
from interop.serving import Broker
from rebuild_by_hand import unpack
from spark.pending import stored_rows, waiting_rows
from spark.test_schedule_verbs import Run, now_ms
from spark.test_schedule_verbs import run as run
from timermq.pipeline.spark import read_table
from timermq.pipeline.spark.archive.archive_log import About, Book
from timermq.pipeline.spark.jobs.archive import archive, messages, write_files
from timermq.timerstore import properties

DELIVERED = About("delivered", internal=False)


@pytest.fixture
def store(tmp_path: Path) -> str:
    """A small store, a part of it delivered."""
    return unpack(trio.run(small_image, clock=MockClock(autojump_threshold=0)), tmp_path / "store")


def archive_up_to(spark: SparkSession, store: str, directory: Path, high: int) -> None:
    """The first batch of an archive, as a run makes it while the log ends there."""
    book = Book(str(directory), DELIVERED)
    book.begin()
    one = book.begin_batch(0, high)
    write_files(messages(spark, store, 0, high, about=DELIVERED), one)
    book.end_batch(one)
    book.close()


def waiting(broker: Broker) -> Counter[tuple[object, object]]:
    """Topics and moments of what waits."""
    rows = waiting_rows(broker, "T0") + waiting_rows(broker, "T1")
    return Counter((row["topic"], row["deliver_ms"]) for row in rows)


def test_an_archive_that_grows(
    run: Run, broker: Broker, spark: SparkSession, store: str, tmp_path: Path
) -> None:
    """Each message comes once, later by the shift: what is new with the next run, by any path."""
    directory, shift_ms = tmp_path / "archive", now_ms() + 3_600_000 - START_MS
    delivered = read_table(spark, "timermq.delivered", store).orderBy("phy_offset").collect()
    half = len(delivered) // 2
    span = ("--from", str(START_MS), "--to", str(LATER_MS), "--shift", f"{shift_ms}ms")

    def shifted(rows: list[Row]) -> Counter[tuple[object, object]]:
        return Counter((row["topic"], row["deliver_ms"] + shift_ms) for row in rows)

    archive_up_to(spark, store, directory, delivered[half]["phy_offset"])
    first = run("replay", str(directory), *span, "--json")
    found_first = waiting(broker)
    archive(spark, store, str(directory))
    shutil.copytree(directory, tmp_path / "copy")
    second = run("replay", f"{directory}/", *span, "--json")
    found_second = waiting(broker)
    third = run("replay", str(tmp_path / "copy"), *span)

    assert half > 1
    assert [(0, "")] * 3 == [(ran.code, ran.err) for ran in (first, second, third)]
    assert shifted(delivered[:half]) == found_first
    assert shifted(delivered) == found_second == waiting(broker)
    assert [False] == [row["handed_over_before"] for row in first.rows]
    assert [True, *[False] * (len(second.rows) - 1)] == [
        row["handed_over_before"] for row in second.rows
    ]
    assert len(delivered) == sum(int(str(row["rows"])) for row in second.rows)
    count = len(second.rows)
    assert third.out.startswith(f"{count} batches in the range: {count} replayed before, 0 now (0 ")


def test_an_archive_of_nothing(run: Run, spark: SparkSession, store: str, tmp_path: Path) -> None:
    """No message had been delivered when it was made: there is none in any range.

    Other tables that have no files are refused, and so is it under a name, which would be used up.
    """
    directory, empty = tmp_path / "archive", tmp_path / "empty"
    archive_up_to(spark, store, directory, 0)
    empty.mkdir()
    span = ("--from", "0", "--to", "1", "--shift", "1h")

    ran = run("replay", str(directory), *span)
    named = run("replay", str(directory), *span, "--job", "once")
    other = run("replay", str(empty), *span)

    assert (0, "") == (ran.code, ran.err)
    assert ran.out.startswith("0 batches in the range: 0 replayed before, 0 now (0 messages")
    assert [(1, ""), (1, "")] == [(named.code, named.out), (other.code, other.out)]
    assert f"{directory}: expected files to read, found none" in named.err
    assert f"{empty}: expected files to read, found none" in other.err


def test_an_archive_elsewhere(run: Run) -> None:
    """What this machine does not see has no content here: the user names the job."""
    ran = run("replay", "hdfs://a/b", "--from", "0", "--to", "1", "--shift", "1h")

    assert (1, "") == (ran.code, ran.out)
    assert "hdfs://a/b: expected a directory of this machine, found none: say by --job" in ran.err


def test_a_property_that_stands_twice(
    run: Run, broker: Broker, spark: SparkSession, tmp_path: Path
) -> None:
    """The last one counts, as everywhere; what has no name or no value is none."""
    texts = {
        "twice": "KEYS\x01twice\x02colour\x01red\x02size\x01s\x02colour\x01blue\x02",
        "thrice": "KEYS\x01other\x02KEYS\x01thrice\x02a\x011\x02a\x012\x02a\x013\x02\x01x\x02b\x02",
        "emptied": "KEYS\x01emptied\x02a\x01kept\x02a\x01\x02UNIQ_KEY\x01U\x02UNIQ_KEY\x01V\x02",
    }
    values = ", ".join(f"(binary('{text}'))" for text in texts.values())
    topic = "Re%play|1"  # its folder has another name, and so has what Spark tells of it
    spark.sql(
        f"select '{topic}' topic, binary('b') body, properties, 1000L deliver_ms, 900L stored_ms "
        f"from values {values} as rows(properties)"
    ).write.partitionBy("topic").parquet(str(tmp_path / "a rchive"))
    span = ("--from", "0", "--to", "2000", "--shift", f"{now_ms() + 3_600_000}ms")

    first, second = (run("replay", str(tmp_path / "a rchive"), *span, "--json") for _ in range(2))

    assert [(0, "")] * 2 == [(ran.code, ran.err) for ran in (first, second)]
    assert [row["job"] for row in first.rows] == [row["job"] for row in second.rows]
    found = [
        properties.parse(bytes(row["properties"]))
        for row in stored_rows(spark, broker, topic, "properties", len(texts))
    ]
    assert {"twice": ("blue", None), "thrice": (None, "3"), "emptied": (None, "kept")} == {
        one["KEYS"]: (one.get("colour"), one.get("a")) for one in found
    }
    assert len(texts) == len(found)
    assert not [one for one in found if "b" in one]
