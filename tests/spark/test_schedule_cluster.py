"""The sink into two brokers behind one name server: each has its share, and each row comes once."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import attrs
import pytest
from pyspark.sql import SparkSession

import sink_driver
from cli.program import SMALL_FILES
from interop.serving import Broker, StartBroker, starting
from spark.pending import waiting_keys
from spark.test_schedule_sink import HOUR_MS, refusal, rows_of, save
from timermq.pipeline.spark import SparkJobError
from timermq.pipeline.spark.sink import SinkOptions, job_report
from timermq.pipeline.spark.sink.cluster import shares_of
from timermq.pipeline.spark.sink.cluster_task import StagedShares, run_task
from timermq.pipeline.spark.sink.job_commit import commit_shares
from timermq.pipeline.spark.sink.job_report import was_handed_over
from waiting import wait_until

NAMES = ("broker-a", "broker-b")


@attrs.frozen
class Cluster:
    """Two brokers, the first with the name server of both."""

    start: StartBroker
    first: Broker
    second: Broker

    def options(self, job: str, *, rejects: Path | None = None) -> SinkOptions:
        """Of a job for both."""
        place = None if rejects is None else str(rejects)
        return SinkOptions(namesrv=self.first.namesrv, job=job, rejects=place)

    def restarted(self) -> None:
        """The second one, killed before, on its store again and at its address."""
        second(self.start, self.second.store, self.first, listen=self.second.listen)


def second(start: StartBroker, store: Path, first: Broker, *, listen: str = "") -> Broker:
    """A broker that registers with the name server of another one."""
    flags = (*SMALL_FILES, "--namesrv", first.namesrv, "--set", f"broker_name={NAMES[1]}")
    broker = start(store, *flags, listen=listen)
    options = SinkOptions(namesrv=first.namesrv, job="asking")
    wait_until(lambda: len(shares_of(options)) == len(NAMES), 60, told=lambda: str(broker.log))
    return broker


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """Both brokers; tests take jobs and topics of their own."""
    directory = tmp_path_factory.mktemp("cluster")
    with starting() as start:
        first = start(directory / "a", *SMALL_FILES, "--set", f"broker_name={NAMES[0]}")
        yield Cluster(start, first, second(start, directory / "b", first))


def test_shares(spark: SparkSession, cluster: Cluster, tmp_path: Path) -> None:
    """Every row is with one of them or refused, once, however often the job is run."""
    options = cluster.options("shares", rejects=tmp_path)
    frame = rows_of(spark, 200, "Shares").selectExpr(
        "topic", "if(key % 50 = 7, '', body) body", "delay_ms", "key"
    )
    good = Counter(str(n) for n in range(200) if n % 50 != 7)

    for rows in (frame, frame.repartition(3, "key")):
        save(rows, options)

        report = job_report(options)
        assert ("done", 196, {"BODY_EMPTY": 4}) == (report.state, report.adopted, report.refused)
        assert good == waiting_keys(cluster.first, "Shares")
    each = [job_report(one) for one in shares_of(options).values()]
    assert all(20 < one.adopted for one in each)
    rejects = spark.read.parquet(str(tmp_path))
    assert {("shares", f"{n}", n // 100, n % 100) for n in (7, 57, 107, 157)} == {
        (row["job"], row["key"], row["partition"], row["row"]) for row in rejects.collect()
    }
    found = refusal(frame.selectExpr("topic", "concat(body, '!') body", "delay_ms", "key"), options)
    assert "BULK_JOB_DIFFERS: job shares was committed before with other rows" in (found or "")


def test_a_row_that_is_refused(spark: SparkSession, cluster: Cluster) -> None:
    """Without a place for it neither broker gets anything."""
    options = cluster.options("refused")
    frame = rows_of(spark, 50, "Refused").selectExpr(
        "topic", "if(key = 30, '', body) body", "delay_ms", "key"
    )

    found = refusal(frame, options)

    assert "timermq.schedule: row 5 of partition 1: BODY_EMPTY" in (found or "")
    assert ("open", 0) == (job_report(options).state, job_report(options).handed_over)
    assert not was_handed_over(options)


def test_far_rows(spark: SparkSession, cluster: Cluster, tmp_path: Path) -> None:
    """Files of the far future are one broker's."""
    options = attrs.evolve(cluster.options("far"), far=str(tmp_path), window_ms=HOUR_MS)

    found = refusal(rows_of(spark, 1, "Far"), options)

    assert "option far: expected one broker, found 2 at" in (found or "")


def test_a_broker_that_is_gone_at_the_commit(cluster: Cluster, tmp_path: Path) -> None:
    """The other one has its share; a rerun gives it the rest, and nothing twice."""
    options = attrs.evolve(cluster.options("gone", rejects=tmp_path), patience_ms=0)
    shares = shares_of(options)

    def staged() -> list[StagedShares]:
        return [
            run_task(
                shares, sink_driver.COLUMNS, part, "", iter([sink_driver.batch_of("gone", part)])
            )
            for part in range(sink_driver.PARTITIONS)
        ]

    messages = [one.shares for one in staged()]
    cluster.second.kill()
    with pytest.raises(SparkJobError, match=f"broker {cluster.second.listen}: expected an answer"):
        commit_shares(shares, sink_driver.COLUMNS, messages)
    with pytest.raises(SparkJobError, match=f"broker {cluster.second.listen}: expected an answer"):
        staged()
    cluster.restarted()

    commit_shares(shares, sink_driver.COLUMNS, [one.shares for one in staged()])

    assert Counter(sink_driver.near_keys()) == waiting_keys(cluster.first, "gone")
    assert was_handed_over(options)
