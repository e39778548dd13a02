"""What crowds of clients cost: `make crowds` prints figures; 1 when one is beyond its bound.

With ``--keep`` they are written to results/crowds.json, for the table of docs/performance.md.

Pulls: 625 groups of 16 queues each keep 10,000 pulls under way. Storm: 2,000 clients come back at
once, and rebalance. How long until all are served, and no client has a rebalance left to do?
"""

from __future__ import annotations

import argparse
import sys

import result_files
import trio
from held_pulls import hold_pulls
from served import Figure, kept_answer, raise_file_limit, report, serving
from storm import storm


def main() -> int:
    """Ask one question or both; 1 when a figure is beyond its bound."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("question", choices=["pulls", "storm", "both"], nargs="?", default="both")
    parser.add_argument("--groups", type=int, default=625)
    parser.add_argument("--clients", type=int, default=2_000)
    parser.add_argument("--seconds", type=float, default=30.0)
    parser.add_argument("--keep", action="store_true", help="write results/crowds.json")
    args = parser.parse_args()
    if args.keep and args.question != "both":
        parser.error("--keep: expected both questions, a table is of one moment")
    raise_file_limit()
    flags = ("--set=default_topic_queue_nums=16", "--metrics-listen=127.0.0.1:0")
    figures: list[Figure] = []
    if args.question in ("pulls", "both"):
        with serving(*flags) as server:
            figures += trio.run(hold_pulls, server, args.groups, args.seconds)
    if args.question in ("storm", "both"):
        with serving(*flags) as server:
            figures += trio.run(storm, server, args.clients, server.ready("metrics_listen"))
    if args.keep:
        result_files.report("crowds", {"answers": [kept_answer(one) for one in figures]}, keep=True)
    return report(figures)


if __name__ == "__main__":
    sys.exit(main())
