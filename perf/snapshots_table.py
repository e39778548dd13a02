"""The table of what is read over the snapshots of several brokers, for docs/performance.md."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

HEAD = (
    "brokers",
    "messages of all",
    "plan of all that waits",
    "plan of ten seconds",
    "tasks of ten seconds",
    "read by both, of the timer logs",
)
JOBS = {"report": "`report`, CPU a message", "audit": "`audit`, CPU a message"}


def snapshots(result: Mapping[str, Any]) -> list[str]:
    """Lines of Markdown.

    Args:
        result: That ``spark_snapshots.py`` has kept.
    """
    machine, rows = result["machine"], result["answers"]
    jobs = [job for job in JOBS if any(job in one for one in rows)]
    head = [*HEAD, *(JOBS[job] for job in jobs)]
    return [
        "Over the snapshots of several brokers in an object store that speaks S3: one store under "
        "so many names, served by `rclone serve s3` on the same two cores. As seen on a machine "
        f"with much other work; calibration {machine['calibration_ms']} ms, commit "
        f"{machine['commit']}.",
        "",
        f"| {' | '.join(head)} |",
        f"| {' | '.join(['---:'] * len(head))} |",
        *(f"| {' | '.join(_cells(one, jobs))} |" for one in rows),
        "",
        f"At most {result['plan_seconds_max']:g} s for the largest plan, and "
        f"{result['share_max']:.0%} of the timer logs for ten seconds of it"
        f"{'' if result['passes'] else ' (missed)'}: with moments that grow with the order of "
        "sending. Among few a stretch or two is more of the log."
        + (" CPU is that of all processes, the object store's too." if jobs else ""),
    ]


def _cells(one: Mapping[str, Any], jobs: Sequence[str]) -> list[str]:
    every, window = one["all"], one["ten_seconds"]
    read, size = window["plan_bytes"] + window["task_bytes"], one["timer_log_bytes"]
    return [
        f"{one['brokers']}",
        f"{one['messages']:,}",
        f"{every['plan_seconds']:.2f} s, {every['plan_requests']} requests",
        f"{window['plan_seconds']:.2f} s",
        f"{window['task_seconds']:.2f} s",
        f"{read / 1e6:.1f} of {size / 1e6:,.0f} MB, {100 * read / size:.2f} %",
        *(f"{one[job]['cpu_us']:.2f} µs" if job in one else "–" for job in jobs),
    ]
