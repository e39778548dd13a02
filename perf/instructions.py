"""How many instructions does each step of a message take?

Counted by ``valgrind --tool=cachegrind``, a figure that other work on the machine does not change:
what a step takes in five rounds less what it takes in two, over three rounds of messages. The
counts in ``results/instructions.json`` are the gate: more than ``TOLERANCE`` above them is a
regression. They hold for the versions of Python and of the libraries that stand beside them; with
others there is nothing to compare, and the counts are only printed.

Run: ``python perf/instructions.py`` compares, ``--write`` makes the counts anew.
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
from importlib.metadata import version
from pathlib import Path

from steps import STEPS

RESULTS = Path(__file__).parent / "results" / "instructions.json"
COUNT = 512
ROUNDS = (2, 5)
TOLERANCE = 0.05
_REFERENCES = re.compile(r"I\s+refs:\s+([\d,]+)")


def instructions(step: str) -> int:
    """Instructions of one message in a step."""
    fewer, more = (_total(step, rounds) for rounds in ROUNDS)
    return (more - fewer) // ((ROUNDS[1] - ROUNDS[0]) * COUNT)


def versions() -> dict[str, str]:
    """What the counts depend on."""
    names = ("numpy", "msgspec", "trio", "attrs")
    return {"python": platform.python_version(), **{name: version(name) for name in names}}


def _total(step: str, rounds: int) -> int:
    with tempfile.TemporaryDirectory(prefix="timermq-count-") as folder:
        command = ["valgrind", "--tool=cachegrind", "--cache-sim=no"]
        command += [f"--cachegrind-out-file={folder}/out", sys.executable]
        command += [str(Path(__file__).with_name("steps.py")), step]
        command += ["--count", str(COUNT), "--rounds", str(rounds)]
        found = subprocess.run(
            command,
            check=True,
            capture_output=True,
            text=True,
            env={**os.environ, "PYTHONHASHSEED": "0", "OPENBLAS_NUM_THREADS": "1"},
        )
    match = _REFERENCES.search(found.stderr)
    if match is None:
        raise RuntimeError(f"instructions: expected a count, found {found.stderr[-300:]!r}")
    return int(match[1].replace(",", ""))


def compare(counts: dict[str, int]) -> list[str]:
    """What is wrong with the counts, beside those that are kept."""
    kept = json.loads(RESULTS.read_text(encoding="ascii"))
    if kept["versions"] != versions():
        return []
    limits = {step: count * (1 + TOLERANCE) for step, count in kept["instructions"].items()}
    return [
        f"{step}: expected at most {limits[step]:.0f} instructions a message, found {count}"
        for step, count in counts.items()
        if count > limits[step]
    ]


def main() -> int:
    """Count, print, and compare or write."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--write", action="store_true", help="keep these counts")
    args = parser.parse_args()
    counts = {step: instructions(step) for step in STEPS}
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
