"""How the program ends, told to the shell."""

from __future__ import annotations

DONE = 0
FAILED = 1
USAGE = 2
INTERRUPTED = 130
UNREAD = 141
"""As a shell tells of a program that ended by SIGPIPE."""
