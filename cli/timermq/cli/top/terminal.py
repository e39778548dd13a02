"""The terminal: keys as they are typed, and its state as it was when all is over.

Keys come one by one and unechoed (cbreak mode); Ctrl-C stays a signal. Suspending is switched off:
a stopped program would leave the alternate screen behind. Whatever ends the block, the terminal is
as it was before.
"""

from __future__ import annotations

import contextlib
import os
import sys
import termios
import tty
from collections.abc import AsyncIterator, Generator

import trio

from .keys import decode_keys

READ_SIZE = 1024
ESCAPE_WAIT = 0.05
"""Seconds in which the rest of an escape sequence follows its first byte."""


def is_terminal() -> bool:
    """Whether somebody looks and types, on what can be drawn on."""
    is_dumb = os.environ.get("TERM", "").lower() in ("dumb", "unknown")
    return sys.stdin.isatty() and sys.stdout.isatty() and not is_dumb


@contextlib.contextmanager
def keys_at_once(descriptor: int) -> Generator[None]:
    """Take keys as they are typed, as long as the block runs."""
    before = termios.tcgetattr(descriptor)
    try:
        tty.setcbreak(descriptor, termios.TCSANOW)
        now = termios.tcgetattr(descriptor)
        now[6][termios.VSUSP] = b"\0"
        termios.tcsetattr(descriptor, termios.TCSANOW, now)
        yield
    finally:
        termios.tcsetattr(descriptor, termios.TCSAFLUSH, before)


async def typed_keys(descriptor: int) -> AsyncIterator[str]:
    """The keys that are typed, until the terminal is gone.

    Cancellation: a key that was begun is lost.
    """
    data = b""
    while True:
        with trio.move_on_after(ESCAPE_WAIT if data else float("inf")) as waiting:
            await trio.lowlevel.wait_readable(descriptor)
        if not waiting.cancelled_caught:
            try:
                more = os.read(descriptor, READ_SIZE)
            except OSError:  # a terminal that was hung up
                return
            if not more:
                return
            data += more
        keys, data = decode_keys(data, is_last=waiting.cancelled_caught)
        for key in keys:
            yield key
