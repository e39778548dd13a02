"""Options of the sink: what is taken, and the one line for what is not."""

from __future__ import annotations

from pathlib import Path

import attrs
import pytest

from timermq.pipeline.spark import SparkJobError
from timermq.pipeline.spark.sink import SinkOptions

GIVEN = {"broker": "h:1", "job": "J"}


def test_options_in_both_directions() -> None:
    """Names come in any case; Spark's own are passed over; what is said is said again."""
    options = SinkOptions.parse(
        {**GIVEN, "Wait": "False", "far": "/far", "WINDOW_MS": "7", "checkpointLocation": "/c"}
    )

    assert ("h:1", "J", False, "/far", 7) == (
        options.broker,
        options.job,
        options.wait,
        options.far,
        options.window_ms,
    )
    assert options == SinkOptions.parse(options.to_options())
    assert ["/far"] == options.roots
    assert options.of_batch(12).job == "J.12"


def test_directories_are_the_same_for_all_processes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A relative one is below that of the process that names it: executors work in their own."""
    monkeypatch.chdir(tmp_path)
    given = {**GIVEN, "rejects": "rejects", "far": "../far", "window_ms": "7"}
    options = SinkOptions.parse(given)

    assert options.roots == [str(tmp_path / "rejects"), str(tmp_path.parent / "far")]
    assert attrs.evolve(options, far="far").far == str(tmp_path / "far")


def test_secrets_are_not_shown() -> None:
    """A trace may show the options."""
    options = SinkOptions.parse({**GIVEN, "access_key": "A", "secret_key": "geheim"})

    assert "geheim" not in repr(options)


@pytest.mark.parametrize(
    ("change", "text"),
    [
        ({"brocker": "x"}, "option brocker: expected one of access_key, broker, far, "),
        ({"broker": None}, "option broker: expected either broker or namesrv, HOST:PORT, found no"),
        (
            {"namesrv": "h:2"},
            "option broker: expected either broker or namesrv, HOST:PORT, found b",
        ),
        ({"job": None}, "option job: expected a name for the job: a rerun has the same one"),
        ({"job": "a/b"}, "option job: BULK_JOB: expected a name of 1 to 100 letters, digits"),
        ({"job": "x" * 81}, "option job: expected at most 80 characters, found 81"),
        ({"wait": "yes"}, "option wait: expected true or false, found 'yes'"),
        ({"far": "/far"}, "option far: expected far and window_ms together, found one of them"),
        ({"far": "/far", "window_ms": "2d"}, "option window_ms: expected milliseconds, found '2d'"),
        (
            {"rejects": "hdfs://h/rejects"},
            "option rejects: hdfs://h/rejects: expected a directory of this machine, found the add",
        ),
        (
            {"far": "file:///far", "window_ms": "7"},
            "option far: file:///far: expected a directory of this machine, found the address of a",
        ),
        ({"access_key": "A"}, "option access_key: expected access_key and secret_key, found one"),
    ],
)
def test_refused_options(change: dict[str, str | None], text: str) -> None:
    """The error names the option."""
    given = {name: value for name, value in {**GIVEN, **change}.items() if value is not None}

    with pytest.raises(SparkJobError) as raised:
        SinkOptions.parse(given)

    assert str(raised.value).startswith(f"timermq.schedule: {text}")
