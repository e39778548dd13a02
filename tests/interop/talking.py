"""A program that is talked to, line by line: admin tools, clients that stay."""

from __future__ import annotations

import contextlib
import queue
import subprocess
import threading
import time
from collections.abc import Generator
from typing import IO

import attrs

from waiting import StillWaitingError

ANSWER_SECONDS = 60.0
END = "### DONE"


@attrs.define
class Talking:
    """A running program whose output is read as it comes."""

    process: subprocess.Popen[str]
    lines: queue.SimpleQueue[str] = attrs.Factory(lambda: queue.SimpleQueue[str]())
    heard: list[str] = attrs.Factory(list[str])
    """All lines so far."""

    def say(self, line: str) -> None:
        """Give the program a line to read, at once."""
        assert self.process.stdin is not None
        self.process.stdin.write(line + "\n")
        self.process.stdin.flush()

    def hear(self, beginning: str, count: int = 1) -> list[str]:
        """Wait until so many of all its lines begin like that; the rest of each."""
        deadline = time.monotonic() + ANSWER_SECONDS
        while len(found := self.heard_so_far(beginning)) < count:
            try:
                self.heard.append(self.lines.get(timeout=max(deadline - time.monotonic(), 0.001)))
            except queue.Empty:
                raise StillWaitingError(
                    f"expected {count} lines {beginning!r}, found {len(found)}:\n"
                    + "\n".join(self.heard[-60:])
                ) from None
        return found

    def heard_so_far(self, beginning: str) -> list[str]:
        """Of the lines that begin like that, the rest."""
        return [
            line.removeprefix(beginning).strip()
            for line in self.heard
            if line.startswith(beginning)
        ]

    def ask(self, command: str) -> str:
        """Give it a line and take all that it says, up to its mark."""
        self.heard.clear()
        self.say(command)
        self.hear(END)
        return "\n".join(self.heard[:-1])


@contextlib.contextmanager
def talking(command: list[str]) -> Generator[Talking]:
    """A program for the length of a block; its input ends with it, and it ends by itself."""
    process = subprocess.Popen(
        command,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    program = Talking(process)
    assert process.stdin is not None
    assert process.stdout is not None
    reader = threading.Thread(target=_read, args=(process.stdout, program.lines), daemon=True)
    reader.start()
    try:
        yield program
        process.stdin.close()
        process.wait(timeout=ANSWER_SECONDS)
    finally:
        if process.poll() is None:
            process.kill()
            process.wait()
        reader.join()
        process.stdout.close()
        with contextlib.suppress(BrokenPipeError):
            process.stdin.close()


def _read(output: IO[str], lines: queue.SimpleQueue[str]) -> None:
    for line in output:
        lines.put(line.rstrip("\n"))
