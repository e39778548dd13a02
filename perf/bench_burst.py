"""How fast does a burst drain that is due at one instant, with a consumer waiting for it?

Expected: the slot is read before its instant, so what counts is bodies (a sorted read of mapped
pages), one append and one queue unit a message, and the pulls. Disk and network carry 400 bytes a
message each; the CPU decides.

Run: ``python perf/bench_burst.py [--count N] [--body BYTES]``; ``timermq bench burst`` is the same
question.
"""

from __future__ import annotations

import sys

from timermq.cli import main

if __name__ == "__main__":
    sys.exit(main(["bench", "burst", *sys.argv[1:]]))
