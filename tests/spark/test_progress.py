"""The bar on the terminal while stages run."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path

import pytest
from pyspark import TaskContext
from pyspark.sql import SparkSession

from pty_screen import PtyTerminal
from timermq.cli.spark.progress import shown_progress

SECONDS_MAX = 120
"""The first tasks of a session take so long at most."""


def held(gate: Path) -> Callable[[Iterable[int]], Iterable[int]]:
    """Numbers as they are; the first of the tasks ends when its gate is open."""

    def rows(numbers: Iterable[int]) -> Iterable[int]:
        context = TaskContext.get()
        if context is not None and context.partitionId() == 0:
            gate.open("rb").close()  # a FIFO: waits for who opens it for writing
        yield from numbers

    return rows


def test_a_bar_a_stage(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each stage shows how many of its tasks have ended; when all have, nothing is left of it."""
    gates = [tmp_path / "first", tmp_path / "second"]
    for gate in gates:
        os.mkfifo(gate)
    numbers = spark.sparkContext.parallelize(range(20), 2).mapPartitions(held(gates[0]))
    numbers = numbers.repartition(2).mapPartitions(held(gates[1]))
    terminal = PtyTerminal()
    stages: list[str] = []

    def shows_another_stage(text: str) -> bool:
        found = re.search(r"stage (\d+) .* 1/2", text)
        if found is None or found[1] in stages:
            return False
        stages.append(found[1])
        return True

    monkeypatch.setenv("TERM", "xterm-256color")
    with ExitStack() as stack:  # gates stay open until the pool has ended
        stack.callback(terminal.close)
        opened = stack.enter_context(ExitStack())
        pool = stack.enter_context(ThreadPoolExecutor(1))
        error = stack.enter_context(open(terminal.child_fd, "w", closefd=False))
        patch = stack.enter_context(monkeypatch.context())
        patch.setattr(sys, "stderr", error)
        with shown_progress(spark):
            counted = pool.submit(numbers.count)
            try:
                for gate in gates:
                    terminal.wait_for(shows_another_stage, SECONDS_MAX)
                    opened.callback(os.close, os.open(gate, os.O_RDWR))
            finally:  # no task waits for ever
                for gate in gates:
                    opened.callback(os.close, os.open(gate, os.O_RDWR))
            assert 20 == counted.result()
        terminal.wait_for(lambda text: not text.strip())
