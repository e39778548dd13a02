"""Plants a bug in a copy of the sources and lets what has to find it look for it.

The checkout is never changed. The copy goes first in the path of a process of its own, which makes
sure that it runs the copy. What has failed with the bug must not fail without it: a seed is run
again on a copy without the bug; the tests are those of ``make test``.
"""

from __future__ import annotations

import json
import os
import resource
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import attrs

from .planted_bug import ROOT, Judged, PlantedBug, Simulated

COMPONENTS = (
    "timerstore", "timerlog", "wheel", "pipeline", "repair", "backup", "remoting", "broker",
    "client", "simulator", "bench", "cli",
)  # fmt: skip
COPIED = (*COMPONENTS, "tests", "pyproject.toml")
SEEDS_MAX = 200
"""Seeds within which the simulator has to find a bug."""
CPU_SECONDS_MAX = 240.0
"""Seconds of the processor after which no other seed is tried."""
WALL_SECONDS_MAX = 1800.0
"""After them a proof has no result."""
TESTS_FAILED = 1
"""How pytest ends when tests have failed; everything above is a mistake in naming them."""


@attrs.frozen(kw_only=True)
class Trial:
    """What came of one bug."""

    bug: PlantedBug
    is_found: bool
    count: int
    """Seeds that were run, of the simulator or the judge; 0 for tests."""
    cpu_seconds: float
    as_what: str
    """What showed it: a promise's name, the beginning of a message, or a test."""


def try_bug(bug: PlantedBug) -> Trial:
    """Plant a bug, and look whether it is found.

    Raises:
        RuntimeError: The proof did not run, or it fails without the bug as well.
    """
    before = _children_seconds()
    proof = bug.simulator or bug.judge
    with _copied(bug) as copy:
        if proof is None:
            hunt = _run_tests(bug.tests, copy)
        else:
            last = SEEDS_MAX if isinstance(proof, Simulated) else proof.seeds
            hunt = _run_seeds(proof, copy, (1, last))
    cpu_seconds = _children_seconds() - before
    if proof is not None and hunt.as_what is not None:
        with _copied(None) as sound:
            again = _run_seeds(proof, sound, (hunt.count, hunt.count))
        if again.as_what is not None:
            raise RuntimeError(f"{bug.name}: seed {hunt.count} fails without it: {again.as_what}")
    return Trial(
        bug=bug,
        is_found=hunt.as_what is not None,
        count=hunt.count,
        cpu_seconds=cpu_seconds,
        as_what=hunt.as_what or "",
    )


@attrs.frozen
class _Hunt:
    """How far a proof came."""

    count: int
    """The last seed: that which failed, if any did."""
    as_what: str | None
    """None: nothing was found."""


def _run_seeds(proof: Simulated | Judged, copy: Path, seeds: tuple[int, int]) -> _Hunt:
    arguments = [
        "-m", "planted.hunt",
        "--seeds", f"{seeds[0]}", f"{seeds[1]}",
        "--cpu-seconds", f"{CPU_SECONDS_MAX}",
        "--below", f"{copy}",
    ]  # fmt: skip
    if isinstance(proof, Simulated):
        faults = (fault.value for fault in proof.faults)
        arguments += ["--days", f"{proof.days}", "--brokers", f"{proof.brokers}"]
        arguments += ["--lease"] if proof.lease else []
        arguments += ["--faults", *faults]
    done = _python(arguments, copy)
    if done.returncode:
        raise RuntimeError(f"the seeds did not run: {done.stderr[-2000:]}")
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return _Hunt(**found)


def _run_tests(tests: Sequence[str], copy: Path) -> _Hunt:
    options = ["-x", "-q", "--no-header", "--tb=no", "-p", "no:cacheprovider", "--timeout", "120"]
    done = _python(["-m", "pytest", *options, *tests], copy)
    if done.returncode not in (0, TESTS_FAILED):
        raise RuntimeError(f"the tests did not run: {done.stdout[-2000:]} {done.stderr[-2000:]}")
    failed = [line for line in done.stdout.splitlines() if line.startswith("FAILED ")]
    return _Hunt(0, failed[0].partition(" - ")[0].removeprefix("FAILED ") if failed else None)


def _python(arguments: Sequence[str], copy: Path) -> subprocess.CompletedProcess[str]:
    path = os.pathsep.join(str(copy / name) for name in (*COMPONENTS, "tests"))
    return subprocess.run(
        [sys.executable, *arguments],
        cwd=copy,
        env={**os.environ, "PYTHONPATH": path},
        capture_output=True,
        text=True,
        check=False,
        timeout=WALL_SECONDS_MAX,
    )


@contextmanager
def _copied(bug: PlantedBug | None) -> Generator[Path]:
    """A copy of the sources, with the bug in it, if one is given."""
    with tempfile.TemporaryDirectory(prefix="planted-") as directory:
        copy = Path(directory)
        for name in COPIED:
            if (ROOT / name).is_dir():
                shutil.copytree(ROOT / name, copy / name, ignore=_IGNORED)
            else:
                shutil.copy(ROOT / name, copy / name)
        for name in () if bug is None else bug.modules():
            module = copy / name
            module.write_text(bug.planted(module.read_text(), name) if bug else "")
            for compiled in module.parent.glob(f"__pycache__/{module.stem}.*"):
                compiled.unlink()
        yield copy


_IGNORED = shutil.ignore_patterns(".hypothesis", ".fuzz", ".*_cache")


def _children_seconds() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime
