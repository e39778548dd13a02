"""How far Spark's stages are: a bar on the terminal, nothing elsewhere."""

from __future__ import annotations

import sys
import threading
from collections.abc import Generator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TaskID, TextColumn

if TYPE_CHECKING:
    from timermq.pipeline.spark import SparkSession

LOOK_SECONDS = 0.2
"""Between two looks at the stages."""


@contextmanager
def shown_progress(spark: SparkSession) -> Generator[None]:
    """Show the stages that run, as long as the block does."""
    if not sys.stderr.isatty():
        yield
        return
    ended = threading.Event()
    watcher = threading.Thread(target=_watch, args=(spark, ended), daemon=True)
    watcher.start()
    try:
        yield
    finally:
        ended.set()
        watcher.join()


def _watch(spark: SparkSession, ended: threading.Event) -> None:
    tracker = spark.sparkContext.statusTracker()
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as progress:
        shown: dict[int, TaskID] = {}
        while not ended.wait(LOOK_SECONDS):
            running = {stage: tracker.getStageInfo(stage) for stage in tracker.getActiveStageIds()}
            for stage in shown.keys() - running.keys():
                progress.remove_task(shown.pop(stage))
            for stage, info in running.items():
                if info is None:
                    continue
                if stage not in shown:
                    shown[stage] = progress.add_task(f"stage {stage}", total=info.numTasks)
                progress.update(shown[stage], completed=info.numCompletedTasks)
