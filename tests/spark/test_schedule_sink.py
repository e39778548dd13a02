"""The sink into a broker that runs: what is in its wheel afterwards, and every kind of refusal."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any, cast

import attrs
import pyarrow as pa
import pyarrow.parquet
import pytest
from pyspark import TaskContext
from pyspark.sql import DataFrame, SparkSession, types
from pyspark.sql.datasource import WriterCommitMessage

import sink_driver
from cli.program import SMALL_FILES
from interop.serving import Broker, free_port, serving
from spark.pending import waiting_keys
from timermq.pipeline.spark import SparkJobError, cause_of
from timermq.pipeline.spark.sink import ScheduleSink, SinkOptions, job_report
from timermq.pipeline.spark.sink.bulk_job import BulkJob
from timermq.pipeline.spark.sink.cluster_task import StagedShares
from timermq.pipeline.spark.sink.job_commit import commit_job
from timermq.pipeline.spark.sink.schedule_sink import ScheduleWriter
from timermq.pipeline.spark.sink.schedule_task import ScheduleTask

HOUR_MS = 3_600_000


def rows_of(spark: SparkSession, count: int, topic: str) -> DataFrame:
    """Rows with a key each, due in an hour, in two partitions."""
    return spark.range(0, count, 1, 2).selectExpr(
        f"'{topic}' topic", "cast(id as string) body", f"{HOUR_MS}L delay_ms", "string(id) key"
    )


def save(frame: DataFrame, options: SinkOptions, name: str = "timermq.schedule") -> None:
    """Write a frame to the sink."""
    frame.write.format(name).mode("append").options(**options.to_options()).save()


def refusal(frame: DataFrame, options: SinkOptions, *, mode: str = "append") -> str | None:
    """The one line with which a job is refused."""
    with pytest.raises(Exception, match="timermq") as raised:
        frame.write.format("timermq.schedule").mode(mode).options(**options.to_options()).save()
    return cause_of(raised.value)


def test_a_job(spark: SparkSession, broker: Broker, tmp_path: Path) -> None:
    """Every row is in the wheel or in the rejects table, once, however often the job is run."""
    options = SinkOptions(broker=broker.listen, job="whole", rejects=str(tmp_path / "rejects"))
    due_ms = time.time_ns() // 1_000_000 + HOUR_MS
    frame = spark.range(0, 300, 1, 2).selectExpr(
        "concat('Whole', id % 3) topic",
        "if(id % 50 = 7, null, encode(string(id), 'utf-8')) body",
        f"timestamp_millis({due_ms} + id) deliver_at",
        "string(id) key",
        "'blue' tag",
        "map('number', string(id), 'none', null) properties",
    )

    for _ in range(2):
        save(frame, options)

        report = job_report(options)
        assert ("done", 294, 294, {"BODY_EMPTY": 6}, 300) == (
            report.state,
            report.handed_over,
            report.adopted,
            report.refused,
            report.rows,
        )
        for turn in range(3):
            expected = {str(n) for n in range(turn, 300, 3) if n % 50 != 7}
            assert Counter(expected) == waiting_keys(broker, f"Whole{turn}")
        rejects = spark.read.parquet(str(tmp_path / "rejects"))
        kept = rejects.select("job", "key", "partition", "row", "rule").orderBy("partition", "row")
        assert [("whole", str(n), n // 150, n % 150, "BODY_EMPTY") for n in range(7, 300, 50)] == [
            tuple(row) for row in kept.collect()
        ]


def test_a_name_used_again_for_other_rows(
    spark: SparkSession, broker: Broker, tmp_path: Path
) -> None:
    """They are refused by name; the same rows in other partitions are done already."""
    options = SinkOptions(broker=broker.listen, job="again", rejects=str(tmp_path / "rejects"))
    frame = rows_of(spark, 20, "Again")
    save(frame, options)

    save(frame.repartition(3, "key"), options)
    found = refusal(frame.selectExpr("topic", "concat(body, '!') body", "delay_ms", "key"), options)

    assert "BULK_JOB_DIFFERS: job again was committed before with other rows" in (found or "")
    save(rows_of(spark, 30, "Again"), attrs.evolve(options, same_rows=False))
    assert Counter(map(str, range(20))) == waiting_keys(broker, "Again")
    assert not list((tmp_path / "rejects" / "_staging").glob("*"))


def test_attempts_that_fail(spark: SparkSession, broker: Broker, tmp_path: Path) -> None:
    """Killed between two blocks, raising, killed with all staged: others come, and count once.

    One partition loses two attempts, the first when the broker has two of its blocks and not the
    third. The other loses one that was complete, rejects and all, before Spark heard of it.
    """
    amid, raised, complete = marks = [tmp_path / name for name in ("amid", "raised", "complete")]

    class DyingWriter(ScheduleWriter):
        def write(  # type: ignore[override]  # as in the sink
            self, iterator: Iterator[pa.RecordBatch]
        ) -> WriterCommitMessage:
            context = TaskContext.get()
            is_first_partition = context is not None and context.partitionId() == 0
            stage = BulkJob.stage

            def dying(
                job: BulkJob, part: str, block: int, topic: str, data: bytes, *, is_last: bool
            ) -> int:
                rows = stage(job, part, block, topic, data, is_last=is_last)
                if is_first_partition and block == 1 and is_new(amid, rows):
                    os.kill(os.getpid(), signal.SIGKILL)
                return rows

            def halves() -> Iterator[pa.RecordBatch]:
                for batch in iterator:
                    yield batch.slice(0, batch.num_rows // 2)
                    if is_first_partition and is_new(raised, 0):
                        raise ValueError("this attempt fails")
                    yield batch.slice(batch.num_rows // 2)

            BulkJob.stage = dying  # type: ignore[assignment,method-assign]  # until it ends
            try:
                message = super().write(halves())
            finally:
                BulkJob.stage = stage  # type: ignore[method-assign]  # as it was
            (staged,) = cast("StagedShares", message).shares
            if not is_first_partition and is_new(complete, sum(rows for _, rows in staged.parts)):
                os.kill(os.getpid(), signal.SIGKILL)
            return message

    def is_new(mark: Path, rows: int) -> bool:
        try:
            with mark.open("x") as out:
                out.write(str(rows))
        except FileExistsError:
            return False
        return True

    class DyingSink(ScheduleSink):
        @classmethod
        def name(cls) -> str:
            return "timermq.dying"

        def writer(self, schema: types.StructType, overwrite: bool) -> ScheduleWriter:
            usual = super().writer(schema, overwrite)
            return DyingWriter(usual.shares, usual.columns)

    spark.dataSource.register(DyingSink)
    options = SinkOptions(broker=broker.listen, job="attempts", rejects=str(tmp_path / "rejects"))
    frame = rows_of(spark, 400, "Attempts").selectExpr(
        "concat('Attempts', key % 3) topic", "if(key % 50 = 7, '', body) body", "delay_ms", "key"
    )

    save(frame, options, "timermq.dying")

    good = [n for n in range(400) if n % 50 != 7]
    two_blocks = [n for n in good if n < 100 and n % 3 != 2]
    of_second = [n for n in good if n >= 200]
    assert [len(two_blocks), 0, len(of_second)] == [int(mark.read_text()) for mark in marks]
    for turn in range(3):
        expected = Counter(str(n) for n in good if n % 3 == turn)
        assert expected == waiting_keys(broker, f"Attempts{turn}")
    report = job_report(options)
    assert (len(good), {"BODY_EMPTY": 8}) == (report.adopted, report.refused)
    assert 8 == parquet_rows(tmp_path / "rejects" / "job=attempts")
    assert not list((tmp_path / "rejects" / "_staging").glob("*"))


def test_drivers_that_die(broker: Broker, tmp_path: Path) -> None:
    """Killed anywhere around the hand-over, a job is done once: its rows, rejects, far messages."""
    tests = Path(__file__).parents[1]
    ran = subprocess.run(
        [sys.executable, "-m", "sink_driver", str(tmp_path), broker.listen],
        env={**os.environ, "PYTHONPATH": str(tests)},
        capture_output=True,
        text=True,
        timeout=120,
    )

    assert (0, "") == (ran.returncode, ran.stderr)
    for point in sink_driver.POINTS:
        options = sink_driver.options_for(point, str(tmp_path), broker.listen)
        assert Counter(sink_driver.near_keys()) == waiting_keys(broker, point), point
        report = job_report(options)
        tasks = sink_driver.PARTITIONS
        assert ("done", tasks * sink_driver.NEAR) == (report.state, report.adopted), point
        assert {"TIMER_NEGATIVE": tasks * sink_driver.BAD} == report.refused, point
        assert tasks * sink_driver.FAR == report.far, point
        for root, count in (("rejects", sink_driver.BAD), ("far", sink_driver.FAR)):
            assert tasks * count == parquet_rows(tmp_path / root / f"job={point}"), point
            assert not list((tmp_path / root / "_staging").glob("*")), point


def parquet_rows(directory: Path) -> int:
    """Rows of all Parquet files below a directory."""
    parquet: Any = pyarrow.parquet
    return sum(
        cast("int", parquet.read_metadata(one).num_rows) for one in directory.rglob("*.parquet")
    )


@pytest.mark.parametrize(
    ("columns", "text"),
    [
        (
            ("'T' topic", "'b' body"),
            "columns deliver_at, delay, delay_ms, level: expected one",
        ),
        (("'T' topic", "1L delay_ms"), "column body: expected binary, found no such column"),
        (
            ("'T' topic", "'b' body", "1.5D deliver_at"),
            "column deliver_at: expected long or timestamp or string, found double",
        ),
        (
            ("'T' topic", "'b' body", "1L delay_ms", "1 priority"),
            "column priority: expected one of topic, body, ",
        ),
    ],
)
def test_wrong_columns(
    spark: SparkSession, broker: Broker, columns: tuple[str, ...], text: str
) -> None:
    """The column is named, and the broker has not heard of the job."""
    options = SinkOptions(broker=broker.listen, job="columns")

    found = refusal(spark.range(1).selectExpr(*columns), options)

    assert (found or "").startswith(f"timermq.schedule: {text}")
    with pytest.raises(SparkJobError, match="the broker knows no such job"):
        job_report(options)


def test_a_refused_row(spark: SparkSession, broker: Broker) -> None:
    """Without a place for such rows the job is refused, with the row's place and its rule."""
    options = SinkOptions(broker=broker.listen, job="moments")
    frame = spark.range(0, 8, 1, 1).selectExpr(
        "'T' topic", "'b' body", "if(id = 6, 'tomorrow', '1') deliver_at"
    )

    found = refusal(frame, options)

    assert (found or "").startswith(
        "timermq.schedule: row 6 of partition 0: TIMER_NOT_A_NUMBER: TIMER_DELIVER_MS: expected "
        "decimal digits, found"
    )
    assert ("open", 0) == (job_report(options).state, job_report(options).handed_over)


def test_a_window_beyond_the_broker(spark: SparkSession, broker: Broker, tmp_path: Path) -> None:
    """Rows that the broker would refuse when it is too late to say so never get there."""
    most = 72 * HOUR_MS
    usual = sink_driver.options_for("window", str(tmp_path), broker.listen)
    fits = attrs.evolve(usual, window_ms=most, rejects=None)
    wide = attrs.evolve(fits, window_ms=most + 1)
    frame = spark.range(0, 2, 1, 1).selectExpr(
        "'Window' topic", "'b' body", f"{most} + id delay_ms", "string(id) key"
    )
    error = (
        f"window: expected at most {most} ms, the broker's timer_max_delay_sec, found {most + 1}"
    )

    assert error == refusal(frame, wide)
    with pytest.raises(SparkJobError, match=error):
        ScheduleTask(wide, sink_driver.COLUMNS, 0, "").run(iter(()))

    assert ("open", 0) == (job_report(wide).state, job_report(wide).handed_over)
    assert not (tmp_path / "far").exists()
    save(frame, fits)
    report = job_report(fits)
    assert (1, 0, 1) == (report.adopted, report.refused_late, report.far)
    assert Counter("0") == waiting_keys(broker, "Window")


def test_no_broker(spark: SparkSession) -> None:
    """No broker is there: the address is named."""
    frame = rows_of(spark, 1, "Unserved")
    port = free_port()

    unserved = refusal(frame, SinkOptions(broker=f"127.0.0.1:{port}", job="J"))
    no_server = refusal(frame, SinkOptions(namesrv=f"127.0.0.1:{port}", job="J"))

    assert (
        f"broker 127.0.0.1:{port}: expected an answer to request 9020, found: connection refused"
        in (unserved or "")
    )
    assert "found: connection refused" in (no_server or "")


def test_overwriting(spark: SparkSession, broker: Broker) -> None:
    """What is scheduled is not undone by a mode."""
    frame = rows_of(spark, 1, "Over")

    found = refusal(frame, SinkOptions(broker=broker.listen, job="J"), mode="overwrite")

    assert 'timermq.schedule: mode: expected "append", found "overwrite"' == found


def test_a_name_server_leads_to_the_broker(spark: SparkSession, broker: Broker) -> None:
    """The one broker that it knows."""
    options = SinkOptions(namesrv=broker.namesrv, job="named")

    save(rows_of(spark, 3, "Named"), options)

    assert Counter("012") == waiting_keys(broker, "Named")


def test_rows_that_are_refused_late(spark: SparkSession, tmp_path: Path) -> None:
    """The broker's limit has changed behind the tasks' back: its rows join the rejects, once."""
    with serving(tmp_path / "store", *SMALL_FILES) as broker:
        options = sink_driver.options_for("late", str(tmp_path), broker.listen)
        messages = sink_driver.staged(options)
        broker.stop()

    with serving(tmp_path / "store", *SMALL_FILES, "--set", "timer_max_delay_sec=600") as broker:
        options = attrs.evolve(options, broker=broker.listen)
        for _ in range(2):
            commit_job(options, sink_driver.COLUMNS, messages)
            messages = sink_driver.staged(options)

            report = job_report(options)
            late, early = (sink_driver.PARTITIONS * n for n in (sink_driver.NEAR, sink_driver.BAD))
            assert ("done", 0, late) == (report.state, report.adopted, report.refused_late)
            assert {"TIMER_DELAY_TOO_LONG": late, "TIMER_NEGATIVE": early} == report.refused
            rejects = spark.read.parquet(str(tmp_path / "rejects")).collect()
            assert Counter(
                {
                    (partition, rule, topic): count
                    for partition in range(sink_driver.PARTITIONS)
                    for rule, topic, count in (
                        ("TIMER_DELAY_TOO_LONG", None, sink_driver.NEAR),
                        ("TIMER_NEGATIVE", "late", sink_driver.BAD),
                    )
                }
            ) == Counter((row["partition"], row["rule"], row["topic"]) for row in rejects)


def test_a_broker_that_goes_away(tmp_path: Path) -> None:
    """Killed while rows are staged, the task fails in one line; run again later, all is well."""
    with serving(tmp_path / "store", *SMALL_FILES) as broker:
        options = sink_driver.options_for("away", str(tmp_path), broker.listen)
        hasty = attrs.evolve(options, patience_ms=0)

        def rows() -> Iterator[pa.RecordBatch]:
            yield sink_driver.batch_of("away", 0)
            broker.kill()
            yield sink_driver.batch_of("away", 0)

        task = ScheduleTask(hasty, sink_driver.COLUMNS, 0, "")
        with pytest.raises(SparkJobError) as raised:
            task.run(rows())
    assert str(raised.value).startswith(
        f"broker {broker.listen}: expected an answer to request 9021, found: "
    )

    with serving(tmp_path / "store", *SMALL_FILES) as broker:
        options = attrs.evolve(options, broker=broker.listen)
        commit_job(options, sink_driver.COLUMNS, sink_driver.staged(options))

        assert Counter(sink_driver.near_keys()) == waiting_keys(broker, "away")


def test_a_stream(spark: SparkSession, broker: Broker, tmp_path: Path) -> None:
    """Batches are jobs: a restart goes on, another checkpoint under the same name is refused."""
    options = SinkOptions(broker=broker.listen, job="stream")
    source = str(tmp_path / "in")

    def run(checkpoint: str) -> None:
        frame = spark.readStream.schema("topic string, body string, delay_ms long, key string")
        query = (
            frame.option("maxFilesPerTrigger", 1)
            .parquet(source)
            .writeStream.format("timermq.schedule")
            .options(**options.to_options())
            .option("checkpointLocation", str(tmp_path / checkpoint))
            .trigger(availableNow=True)
            .start()
        )
        query.awaitTermination()

    for turn in range(2):
        rows_of(spark, 20, "Stream").selectExpr(
            "topic", "body", "delay_ms", f"concat('{turn}-', key) key"
        ).coalesce(1).write.mode("append").parquet(source)
        run("first")
        assert Counter(f"{one}-{n}" for one in range(turn + 1) for n in range(20)) == waiting_keys(
            broker, "Stream"
        )
    with pytest.raises(Exception, match="BULK_OWNER") as raised:
        run("second")

    assert "BULK_OWNER: job stream belongs to '" in (cause_of(raised.value) or "")
    assert 40 == waiting_keys(broker, "Stream").total()
