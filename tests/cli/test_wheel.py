"""What an installed wheel does, in an environment of its own."""

from __future__ import annotations

import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


def run(*command: str | Path) -> str:
    """Run a program to its end; returns what it printed."""
    surroundings = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    done = subprocess.run(
        command, env=surroundings, stdin=subprocess.DEVNULL, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.mark.slow
def test_a_wheel_runs_the_demo_in_an_empty_environment(tmp_path: Path) -> None:
    """Nothing is there but what the wheel asks for; types and the license are in it."""
    run(sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "-w", tmp_path, ROOT)
    (wheel,) = tmp_path.glob("timermq-*.whl")
    names = zipfile.ZipFile(wheel).namelist()
    run(sys.executable, "-m", "venv", tmp_path / "venv")
    run(tmp_path / "venv/bin/python", "-m", "pip", "install", "--quiet", wheel)
    printed = run(tmp_path / "venv/bin/timermq", "demo")

    assert "lost" in printed
    components = {name.split("/")[1] for name in names if name.startswith("timermq/")}
    assert {f"timermq/{component}/py.typed" for component in components} <= set(names)
    assert any(name.endswith("/LICENSE") for name in names)
    assert not any(name.startswith(("tests/", "perf/")) for name in names)
