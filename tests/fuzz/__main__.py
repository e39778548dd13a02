"""Looks for inputs that a reader does not survive: ``make fuzz SECONDS=600 TARGET=headers``.

With atheris the inputs are led by the coverage of ``timermq``; where its wheel does not install,
Hypothesis draws them for as long. A finding is written to ``.fuzz/<target>`` and ends the run of
its target with a traceback; the exit code is 1. New inputs that reach new code stay in
``.fuzz/<target>/corpus`` for the next run.
"""

from __future__ import annotations

import argparse
import importlib
import importlib.util
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

# Targets are imported where they are used: atheris instruments what is imported under its eyes.
HERE = Path(__file__).parents[2] / ".fuzz"
INPUT_SIZE_MAX = 4096
"""Bytes of an input: all readers have shown their branches by then."""
INPUT_SECONDS_MAX = 5
"""An input that takes longer is a finding."""
MEMORY_MIB_MAX = 2048
"""As is one that takes more."""


def main(arguments: list[str]) -> int:
    """Run targets one after the other; 1 when one of them has a finding."""
    parser = argparse.ArgumentParser(prog="make fuzz", description=__doc__)
    parser.add_argument("--seconds", type=int, default=60, help="for each target")
    parser.add_argument("--led", help=argparse.SUPPRESS)
    parser.add_argument("targets", nargs="*", help="default: all")
    args = parser.parse_args(arguments)
    if args.led:
        _lead(args.led, args.seconds)
        return 0
    has_atheris = importlib.util.find_spec("atheris") is not None
    if not has_atheris:
        print("fuzz: atheris is not installed here; Hypothesis draws the inputs instead")
    failed = [
        name
        for name in args.targets or _names()
        if not (_run_led(name, args.seconds) if has_atheris else _run_drawn(name, args.seconds))
    ]
    print(f"fuzz: findings in {', '.join(failed)}" if failed else "fuzz: no findings")
    return 1 if failed else 0


def _names() -> list[str]:
    from fuzz.targets import TARGETS

    return list(TARGETS)


def _run_led(name: str, seconds: int) -> bool:
    """A process of its own: libFuzzer ends it."""
    print(f"fuzz: {name}, led by coverage for {seconds} s", flush=True)
    command = [sys.executable, "-m", "fuzz", "--led", name, "--seconds", str(seconds)]
    return subprocess.run(command, check=False).returncode == 0


def _run_drawn(name: str, seconds: int) -> bool:
    from fuzz.drawn import draw_for
    from fuzz.targets import TARGETS

    print(f"fuzz: {name}, drawn for {seconds} s", flush=True)
    try:
        count = draw_for(TARGETS[name], seconds)
    except Exception as error:
        print(f"fuzz: {name}: {error!r}: {getattr(error, '__notes__', '')}")
        return False
    print(f"fuzz: {name}: {count} inputs")
    return True


def _lead(name: str, seconds: int) -> None:
    """Run one target under libFuzzer; does not return."""
    atheris: Any = importlib.import_module("atheris")
    with atheris.instrument_imports(include=["timermq"]):
        from fuzz.targets import TARGETS, kept
    target = TARGETS[name]
    place = HERE / name
    corpus, given = place / "corpus", place / "given"
    for directory in (corpus, given):
        directory.mkdir(parents=True, exist_ok=True)
    for number, seed in enumerate(target.seeds()):
        (given / f"seed-{number}").write_bytes(seed)
    for file in kept(name):
        (given / file.name).write_bytes(file.read_bytes())
    options = [
        f"-max_total_time={seconds}",
        f"-max_len={INPUT_SIZE_MAX}",
        f"-timeout={INPUT_SECONDS_MAX}",
        f"-rss_limit_mb={MEMORY_MIB_MAX}",
        f"-artifact_prefix={place}{os.sep}",
        "-use_value_profile=1",
        "-print_final_stats=1",
    ]
    atheris.Setup(["fuzz", *options, str(corpus), str(given)], target.fuzz_one)
    atheris.Fuzz()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
