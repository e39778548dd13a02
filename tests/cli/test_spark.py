"""``timermq spark`` without Spark: what is said and refused before it starts."""

from __future__ import annotations

import importlib.util
from importlib.machinery import ModuleSpec

import pytest

from cli.program import RunProgram

READ = ", or s3://BUCKET/PREFIX; it may be served"
"""Of jobs that read."""


def test_without_pyspark(timermq: RunProgram, monkeypatch: pytest.MonkeyPatch) -> None:
    """One sentence says what to install."""
    real = importlib.util.find_spec

    def without(name: str, package: str | None = None) -> ModuleSpec | None:
        return None if name == "pyspark" else real(name, package)

    monkeypatch.setattr(importlib.util, "find_spec", without)

    ran = timermq("spark", "table", "wheel", "--store", "anywhere")

    assert (2, "") == (ran.code, ran.out)
    assert (
        ran.err
        == "timermq: spark: expected PySpark 4.3, found none: pip install 'timermq[spark]'\n"
    )


def test_settings_of_spark(timermq: RunProgram) -> None:
    """A setting that is none is refused before Spark starts."""
    ran = timermq("spark", "table", "wheel", "--store", "anywhere", "--setting", "memory=4g")

    assert ran.code == 2
    assert "expected spark.KEY=VALUE, found 'memory=4g'" in ran.err


@pytest.mark.parametrize(
    ("job", "whether"),
    [
        ("table", READ),
        ("report", READ),
        ("audit", READ),
        ("archive", READ),
        ("rebuild", "; one that is served is refused"),
    ],
)
def test_help_on_the_store(timermq: RunProgram, job: str, whether: str) -> None:
    """Each job says whether a broker may be at work on it meanwhile."""
    ran = timermq("spark", job, "--help")

    assert 0 == ran.code
    assert f"the store's directory{whether}" in " ".join(ran.out.split())
