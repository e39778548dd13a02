"""How many messages a second go the whole way: sent, stored, timed, pulled, sockets included?

Expected, for 128 bytes a body: the network carries 550 bytes in and 400 out, the disk 3 × 400 bytes
of page cache (the waiting record, the delivered record, queue units and timer-log unit), memory
nothing per message; the CPU decides: frames and headers, admission, two appends, two index entries,
one pull.

Run: ``python perf/bench_send_pulled.py [--count N] [--body BYTES]``; ``timermq bench steady`` is
the same question.
"""

from __future__ import annotations

import sys

from timermq.cli import main

if __name__ == "__main__":
    sys.exit(main(["bench", "steady", *sys.argv[1:]]))
