"""Results that are kept: small JSON files in results/, each with the machine it was measured on.

Tables and pictures are made from these files, so they can be drawn again without measuring.
"""

from __future__ import annotations

import json
import os
import platform
import re
import subprocess
from collections.abc import Mapping
from importlib.metadata import version
from pathlib import Path
from typing import Any, cast

import psutil

from timermq.bench.calibration import REFERENCE_MS, calibrate

RESULTS = Path(__file__).parent / "results"
LIBRARIES = ("numpy", "msgspec", "trio", "attrs")
_MODEL = re.compile(r"^model name\s*:\s*(.+)$", re.MULTILINE)


def report(name: str, content: Mapping[str, object], *, keep: bool) -> None:
    """Print one result, with the machine it was measured on, or write it into its file."""
    text = _compact({"machine": machine(), **content})
    if not keep:
        print(text, end="")
        return
    RESULTS.mkdir(exist_ok=True)
    (RESULTS / f"{name}.json").write_text(text, encoding="utf-8")


def kept(name: str) -> dict[str, Any]:
    """What was kept last.

    Raises:
        FileNotFoundError: It was never measured.
    """
    text = (RESULTS / f"{name}.json").read_text(encoding="utf-8")
    return cast("dict[str, Any]", json.loads(text))


def machine() -> dict[str, object]:
    """The machine, as it is now: its speed differs from moment to moment where it is shared."""
    return {
        "cores": os.cpu_count(),
        "processor": _processor(),
        "memory_gib": round(psutil.virtual_memory().total / (1 << 30)),
        "system": f"{platform.system()} {'.'.join(platform.release().split('.')[:2])}",
        "python": platform.python_version(),
        "libraries": {name: version(name) for name in LIBRARIES},
        "commit": _commit(),
        "calibration_ms": round(calibrate(), 2),
        "reference_ms": REFERENCE_MS,
    }


def _processor() -> str:
    found = _MODEL.search(Path("/proc/cpuinfo").read_text(encoding="utf-8"))
    return found[1].strip() if found else platform.machine()


def _commit() -> str:
    done = subprocess.run(
        ["git", "rev-parse", "--short=7", "HEAD"],  # noqa: S607 - whatever git is there
        cwd=Path(__file__).parent,
        capture_output=True,
        text=True,
        check=False,
    )
    return done.stdout.strip()


def _compact(whole: Mapping[str, object]) -> str:
    """A line for each entry, and for each object of a list of them: fit to be compared."""
    lines: list[str] = []
    for key, value in whole.items():
        text = json.dumps(value, ensure_ascii=False)
        if isinstance(value, list):
            text = (
                text.replace("[{", "[\n    {").replace("}, {", "},\n    {").replace("}]", "}\n  ]")
            )
        lines.append(f"  {json.dumps(key)}: {text}")
    return "{\n" + ",\n".join(lines) + "\n}\n"
