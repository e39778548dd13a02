"""``timermq spark schedule``, ``replay`` and ``promote`` into a broker that runs."""

from __future__ import annotations

import json
import time
import zlib
from collections import Counter
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import cast

import lz4.frame
import pytest
import zstandard
from pyspark.sql import SparkSession

from cli.program import Ran
from interop.serving import Broker
from spark.pending import stored_rows, waiting_keys, waiting_rows
from timermq.cli import main

DAY_MS = 86_400_000
Run = Callable[..., Ran]


@pytest.fixture
def run(spark: SparkSession, broker: Broker, capsys: pytest.CaptureFixture[str]) -> Run:
    """The program, with the session of the tests and a broker."""

    def ran(verb: str, *argv: str) -> Ran:
        capsys.readouterr()
        code = main(["spark", verb, *argv, "--broker", broker.listen])
        captured = capsys.readouterr()
        return Ran(code, captured.out, captured.err)

    return ran


def now_ms() -> int:
    """The clock of the machine, as the broker has it."""
    return time.time_ns() // 1_000_000


def test_files(run: Run, broker: Broker, tmp_path: Path) -> None:
    """CSV with moments of both kinds; what runs again with the same content changes nothing."""
    due_ms = (now_ms() // 1000 + 3600) * 1000
    text = datetime.fromtimestamp(due_ms // 1000, UTC).isoformat()
    rows = [f"Csv,b{at},{due_ms if at % 2 else text},k{at},red" for at in range(4)]
    rows.append("Csv,b4,tomorrow,k4,red")
    file, rejects = tmp_path / "campaign.csv", tmp_path / "rejects"
    file.write_text("\n".join(["topic,body,deliver_at,key,properties.colour", *rows]))
    argv = (str(file), "--rejects", str(rejects), "--json")

    first, second = run("schedule", *argv), run("schedule", *argv)

    assert (0, "") == (first.code, first.err)
    assert (False, 5, 4, {"TIMER_NOT_A_NUMBER": 1}) == tuple(
        first.rows[0][name] for name in ("handed_over_before", "rows", "scheduled", "refused")
    )
    assert (True, 4) == (second.rows[0]["handed_over_before"], second.rows[0]["scheduled"])
    assert {f"k{at}": due_ms for at in range(4)} == {
        row["keys"]: row["deliver_ms"] for row in waiting_rows(broker, "Csv")
    }
    assert 4 == len(waiting_rows(broker, "Csv"))


def test_other_rows_under_a_name(run: Run, broker: Broker, tmp_path: Path) -> None:
    """A file that has changed is no rerun: one line, exit code 1, nothing scheduled."""
    file = tmp_path / "week.csv"
    argv = (str(file), "--job", "week")
    file.write_text("topic,body,delay_ms,key\nWeek,first,3600000,k1\n")
    assert 0 == run("schedule", *argv).code
    file.write_text("topic,body,delay_ms,key\nWeek,second,3600000,k2\n")

    again = run("schedule", *argv)

    assert (1, "") == (again.code, again.out)
    assert "BULK_JOB_DIFFERS: job week was committed before with other rows" in again.err
    assert 1 == again.err.count("\n")
    assert ["k1"] == [one["keys"] for one in waiting_rows(broker, "Week")]


def test_a_query(run: Run, broker: Broker, tmp_path: Path) -> None:
    """Two files of other formats, joined; the summary for people."""
    people, texts = tmp_path / "people.json", tmp_path / "texts.csv"
    people.write_text("".join(json.dumps({"id": at, "name": f"n{at}"}) + "\n" for at in range(3)))
    texts.write_text("id,text\n0,hello\n2,bye\n")

    ran = run(
        "schedule",
        str(people),
        *("--view", f"texts={texts}", "--job", "joined", "--sql"),
        "select 'Sql' topic, text body, interval 1 hour delay, name key "
        "from input join texts using (id)",
    )

    assert (0, "") == (ran.code, ran.err)
    assert ["job              joined", "state            done"] == ran.out.splitlines()[:2]
    assert Counter(["n0", "n2"]) == waiting_keys(broker, "Sql")


@pytest.mark.parametrize(
    ("name", "text", "argv", "error"),
    [
        (
            "a.csv",
            "topic,body\nT,b\n",
            (),
            "columns deliver_at, delay, delay_ms, level: ",
        ),
        ("a.json", '{"topic":\n', (), "MALFORMED_RECORD_IN_PARSING"),
        ("a.csv", "topic\nT\n", ("--sql", "select nothing from input"), "UNRESOLVED_COLUMN"),
        ("a.txt", "", (), "name the format"),
    ],
)
def test_bad_input(
    run: Run, tmp_path: Path, name: str, text: str, argv: tuple[str, ...], error: str
) -> None:
    """One line that says what is wrong with it."""
    (tmp_path / name).write_text(text)

    ran = run("schedule", str(tmp_path / name), *argv)

    assert (1, "", 1) == (ran.code, ran.out, len(ran.err.splitlines()))
    assert error in ran.err


def test_the_far_future(run: Run, broker: Broker, spark: SparkSession, tmp_path: Path) -> None:
    """What is due later waits in Parquet; each run hands over what has come near, once."""
    file, far = str(tmp_path / "in.parquet"), tmp_path / "far"
    now = now_ms()
    delays = {"near": DAY_MS // 2, "soon": 3 * DAY_MS // 2, "far": 40 * DAY_MS}
    values = ", ".join(f"('{key}', {now + delay})" for key, delay in delays.items())
    frame = spark.sql(
        f"select 'Far' topic, binary('x') body, deliver_at, key from values {values} "
        "as rows(key, deliver_at)"
    )
    frame.coalesce(1).write.parquet(file)

    scheduled = run("schedule", file, "--far", str(far), "--window", "1d", "--json")

    assert (0, 3, 1, 2) == (
        scheduled.code,
        *(scheduled.rows[0][name] for name in ("rows", "scheduled", "far")),
    )
    assert Counter(["near"]) == waiting_keys(broker, "Far")
    for before, promoted in ((0, 1), (1, 0)):
        ran = run("promote", "--from", str(far), "--json")
        *jobs, summary = ran.rows
        assert (0, "") == (ran.code, ran.err)
        assert [("job", "done", 1)] * promoted == [
            (job["row"], job["state"], job["scheduled"]) for job in jobs
        ]
        assert isinstance(summary.pop("seconds"), float)
        assert summary == {
            "row": "summary",
            "files": 1,
            "before": before,
            "promoted": promoted,
            "scheduled": promoted,
            "failed": [],
        }
        assert Counter(["near", "soon"]) == waiting_keys(broker, "Far")
    late = datetime.fromtimestamp((now + DAY_MS) // 1000, UTC).date()
    frame.where("key = 'soon'").withColumnRenamed("key", "tag").selectExpr(
        "topic", "body", "deliver_at", "'late' key"
    ).write.parquet(str(far / f"due_day={late}"))
    ran = run("promote", "--from", str(far))
    assert ran.code == 0
    assert ran.out.startswith("2 files within the window: 1 promoted before, 1 now (1 messages in ")
    assert Counter(["near", "soon", "late"]) == waiting_keys(broker, "Far")
    wide = run("promote", "--from", str(far), "--window", "50d", "--json")
    (summary,) = wide.rows
    (failed,) = cast("list[str]", summary["failed"])
    assert (1, 3, 2, 0) == (
        wide.code,
        *(summary[name] for name in ("files", "before", "promoted")),
    )
    for said in (wide.err, failed):
        assert "window: expected at most 172800000 ms, a day less than" in said


def test_a_forgotten_job(run: Run, spark: SparkSession, tmp_path: Path) -> None:
    """Whether a file was handed over in a job that was forgotten is not guessed."""
    folder = tmp_path / f"due_day={datetime.fromtimestamp(now_ms() // 1000, UTC).date()}"
    frame = spark.sql("select 'Forgot' topic, binary('x') body, 1L deliver_at")
    frame.coalesce(1).write.parquet(str(folder))
    assert run("promote", "--from", str(tmp_path)).code == 0
    (mark,) = (tmp_path / "_promoted").iterdir()
    mark.write_text(json.dumps({"file": "x", "job_ms": 1, "done": False}))

    ran = run("promote", "--from", str(tmp_path))

    assert 1 == ran.code
    assert "expected the broker to know the job of 1, found that it has forgotten it" in ran.err


def test_an_archive(run: Run, broker: Broker, spark: SparkSession, tmp_path: Path) -> None:
    """A range of it is scheduled again with the same distances, without the first life's marks."""
    first = "UNIQ_KEY\x01U\x02KEYS\x01{}\x02TIMER_DELIVER_MS\x011000\x02colour\x01red\x02"
    rows = [
        ("before", "Replay", "999"),
        ("one", "Replay", "1000"),
        ("two", "Replay", "1250"),
        ("plain", "Replay", "null"),
        ("behind", "Replay", "2000"),
        ("other", "Other", "1100"),
    ]
    values = ", ".join(
        f"('{topic}', binary('{first.format(key)}'), bigint({ms}))" for key, topic, ms in rows
    )
    archive = str(tmp_path / "archive")
    spark.sql(
        "select topic, binary('b') body, properties, deliver_ms, 1500L stored_ms "
        f"from values {values} as rows(topic, properties, deliver_ms)"
    ).write.partitionBy("topic").parquet(archive)
    start_ms = now_ms() + 3_600_000

    ran = run(
        "replay",
        archive,
        *("--from", "1000", "--to", "2000", "--topic", "Replay"),
        *("--start-at", str(start_ms), "--job", "replayed", "--json"),
    )

    assert (0, "") == (ran.code, ran.err)
    assert {"one": start_ms, "two": start_ms + 250, "plain": start_ms + 500} == {
        row["keys"]: row["deliver_ms"] for row in waiting_rows(broker, "Replay")
    }
    assert [] == waiting_rows(broker, "Other")


def test_an_archive_of_compressed_bodies(
    run: Run, broker: Broker, spark: SparkSession, tmp_path: Path
) -> None:
    """They are scheduled unpacked, whatever they were packed with; a broken one ends the job."""
    bodies = {
        "plain": (b"as it is", 0),
        "zlib": (zlib.compress(b"z" * 5000), 1),
        "lz4": (lz4.frame.compress(b"l" * 5000), 0x101),
        "zstd": (zstandard.compress(b"s" * 5000), 0x201),
    }

    def write(name: str, rows: Mapping[str, tuple[bytes, int]]) -> str:
        values = ", ".join(
            f"(X'{body.hex()}', {flag}, 'KEYS\x01{key}\x02')" for key, (body, flag) in rows.items()
        )
        frame = spark.sql(
            "select 'Packed' topic, *, 1000L deliver_ms, 900L stored_ms "
            f"from values {values} as rows(body, sys_flag, properties)"
        )
        frame.write.parquet(str(tmp_path / name))
        return str(tmp_path / name)

    def replay(archive: str) -> Ran:
        span = ("--from", "0", "--to", "2000", "--start-at", "in 1h")
        return run("replay", archive, *span, "--job", Path(archive).name)

    good, broken = replay(write("good", bodies)), replay(write("broken", {"x": (b"?", 1)}))

    assert (good.code, good.err) == (0, "")
    found = stored_rows(spark, broker, "Packed", "keys,body", len(bodies))
    assert {"plain": b"as it is", "zlib": b"z" * 5000, "lz4": b"l" * 5000, "zstd": b"s" * 5000} == {
        row["keys"]: bytes(row["body"]) for row in found
    }
    assert broken.code == 1
    assert "archive: message stored at 900: body: ends within its compressed data" in broken.err
