"""How many instructions does each step of a message take?

Counted by ``valgrind --tool=cachegrind``, a figure that other work on the machine does not change:
what a step takes in five rounds less what it takes in two, over three rounds of messages. One
process starts Python, which takes longest; a fork of it takes each step. The counts in
``results/instructions.json`` are the gate: more than ``TOLERANCE`` above them is a regression. They
hold for the versions of Python and of the libraries that stand beside them; with others there is
nothing to compare, and the counts are only printed; so is that of a step without a kept count.

Run: ``python perf/instructions.py`` compares, ``--write`` keeps new counts.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Sequence
from importlib.metadata import version
from pathlib import Path

from steps import STEPS

RESULTS = Path(__file__).parent / "results" / "instructions.json"
COUNT = 512
ROUNDS = (2, 5)
TOLERANCE = 0.05
_REFERENCES = re.compile(r"I\s+refs:\s+([\d,]+)")


def count_steps(names: Iterable[str] = STEPS, script: str = "steps.py") -> dict[str, int]:
    """Instructions of one message in each of the steps that a script repeats."""
    names = list(names)
    totals = _totals(names, script)
    shares = (ROUNDS[1] - ROUNDS[0]) * COUNT
    return {name: (totals[name, ROUNDS[1]] - totals[name, ROUNDS[0]]) // shares for name in names}


def versions() -> dict[str, str]:
    """What the counts depend on."""
    names = ("numpy", "msgspec", "trio", "attrs")
    return {"python": platform.python_version(), **{name: version(name) for name in names}}


def _totals(names: Sequence[str], script: str) -> dict[tuple[str, int], int]:
    """Instructions of a process that takes a step so often, from the start of Python on."""
    runs = [(step, rounds) for step in names for rounds in ROUNDS]
    with tempfile.TemporaryDirectory(prefix="timermq-count-") as folder:
        command = ["valgrind", "--tool=cachegrind", "--cache-sim=no"]
        command += [f"--cachegrind-out-file={folder}/%p", sys.executable]
        command += [str(Path(__file__).with_name(script)), "--count", str(COUNT)]
        command += [f"{step}={rounds}" for step, rounds in runs]
        found = subprocess.run(
            command,
            check=True,
            capture_output=True,
            text=True,
            env={**os.environ, "PYTHONHASHSEED": "0", "OPENBLAS_NUM_THREADS": "1"},
        )
    # The last summary is that of the process that the others were forked from.
    *counts, _ = (int(one.replace(",", "")) for one in _REFERENCES.findall(found.stderr))
    if len(counts) != len(runs):
        raise RuntimeError(f"instructions: expected {len(runs)} counts, found {counts}")
    return dict(zip(runs, counts, strict=True))


def compare(counts: dict[str, int]) -> list[str]:
    """What is wrong with the counts, beside those that are kept."""
    kept = json.loads(RESULTS.read_text(encoding="ascii"))
    if kept["versions"] != versions():
        return []
    limits = {step: count * (1 + TOLERANCE) for step, count in kept["instructions"].items()}
    return [
        f"{step}: expected at most {limits[step]:.0f} instructions a message, found {count}"
        for step, count in counts.items()
        if count > limits.get(step, count)
    ]


def main() -> int:
    """Count, print, and compare or write."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--write", action="store_true", help="keep these counts")
    args = parser.parse_args()
    counts = count_steps()
    print(json.dumps(counts))
    if args.write:
        RESULTS.parent.mkdir(exist_ok=True)
        kept = {"versions": versions(), "messages": COUNT, "instructions": counts}
        RESULTS.write_text(json.dumps(kept, indent=2) + "\n", encoding="ascii")
        return 0
    faults = compare(counts)
    for fault in faults:
        print(fault, file=sys.stderr)
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
