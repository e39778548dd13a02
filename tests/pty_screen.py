"""A program in a pseudo-terminal, and what its screen shows."""

from __future__ import annotations

import fcntl
import os
import pty
import select
import signal
import struct
import subprocess
import sys
import termios
import time
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager

import pyte

from waiting import StillWaitingError

WAIT_SECONDS = 30.0
"""A screen that does not show within this what it should is wrong."""


class PtyTerminal:
    """A terminal, and the emulator that reads it; the writer has ``child_fd``."""

    def __init__(self, *, columns: int = 80, lines: int = 24) -> None:
        self.fd, self.child_fd = pty.openpty()
        self.screen = pyte.Screen(columns, lines)
        self._stream = pyte.ByteStream(self.screen)
        self.output = bytearray()
        """All that was written to the terminal."""
        self._set_size(columns, lines)

    def resize(self, columns: int, lines: int) -> None:
        """Another size of the window."""
        self.screen.resize(lines, columns)
        self._set_size(columns, lines)

    def lines(self) -> list[str]:
        """The lines that the screen shows, without spaces at their ends."""
        return [line.rstrip() for line in self.screen.display]

    def text(self) -> str:
        """What the screen shows, in one piece."""
        return "\n".join(self.lines())

    def wait_for(self, what: str | Callable[[str], bool], seconds: float = WAIT_SECONDS) -> str:
        """Read until the screen shows a text, or satisfies a condition; gives the screen."""
        deadline = time.monotonic() + seconds
        while not (what in self.text() if isinstance(what, str) else what(self.text())):
            left = deadline - time.monotonic()
            if left <= 0:
                raise StillWaitingError(f"the screen never showed {what!r}:\n{self.text()}")
            self._read(left)
        return self.text()

    def modes(self) -> list[object]:
        """The modes of the terminal."""
        return termios.tcgetattr(self.child_fd)

    def close(self) -> None:
        """Close both ends of the terminal."""
        os.close(self.child_fd)
        os.close(self.fd)

    def _read(self, timeout: float) -> bool:
        ready, _, _ = select.select([self.fd], [], [], timeout)
        if ready:
            data = os.read(self.fd, 65_536)
            self.output += data
            self._stream.feed(data)
        return bool(ready)

    def _set_size(self, columns: int, lines: int) -> None:
        fcntl.ioctl(self.fd, termios.TIOCSWINSZ, struct.pack("HHHH", lines, columns, 0, 0))


class PtyScreen(PtyTerminal):
    """A running program, and its terminal."""

    def __init__(self, argv: Sequence[str], *, columns: int, lines: int) -> None:
        super().__init__(columns=columns, lines=lines)
        environment = {**os.environ, "TERM": "xterm-256color", "TZ": "UTC"}
        for name in ("COLUMNS", "LINES", "NO_COLOR"):
            environment.pop(name, None)
        self.modes_before = termios.tcgetattr(self.child_fd)
        self.process = subprocess.Popen(
            [sys.executable, "-m", "timermq.cli", *argv],
            stdin=self.child_fd,
            stdout=self.child_fd,
            stderr=self.child_fd,
            env=environment,
            start_new_session=True,
            preexec_fn=self._take_terminal,
        )

    def type(self, text: str) -> None:
        """Type a text on the keyboard of the program."""
        os.write(self.fd, text.encode())

    def wait_end(self) -> int:
        """Read until the program ends; gives its exit code."""
        deadline = time.monotonic() + WAIT_SECONDS
        while self.process.poll() is None:
            if time.monotonic() > deadline:
                raise StillWaitingError(f"the program never ended:\n{self.text()}")
            self._read(0.05)
        while self._read(0.0):
            pass
        return self.process.returncode

    def close(self) -> None:
        """End the program and the terminal."""
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGKILL)
            self.process.wait()
        super().close()

    def _take_terminal(self) -> None:
        """Make the terminal the controlling one: Ctrl-C and SIGWINCH go to the program."""
        fcntl.ioctl(self.child_fd, termios.TIOCSCTTY, 0)


@contextmanager
def pty_screen(*argv: str, columns: int = 80, lines: int = 24) -> Generator[PtyScreen]:
    """Run the program in a terminal of a size."""
    one = PtyScreen(argv, columns=columns, lines=lines)
    try:
        yield one
    finally:
        one.close()
