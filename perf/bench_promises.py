"""What do the promises cost a message: exactly once, a cancel that is certain, the quarantine?

The way of a message (its send, its unit, its delivery) is taken with and without what a promise
adds, in one run; what cannot be left out is done by itself, on batches of the same messages.
``promise_steps.py`` says what the pieces are. Two measures stand side by side: instructions, which
other work on the machine does not change (valgrind), and CPU time, the median of rounds that
alternate between the sides.

Run: ``python perf/bench_promises.py``; ``--count`` messages a round of the CPU, ``--cpu-only``
without instructions, ``--keep`` writes results/promises.json.
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

import attrs
from instructions import COUNT, count_steps
from promise_steps import PIECES, Benches
from result_files import report

ROUNDS = 15
ALTERNATING: Sequence[Sequence[str]] = (
    ("send", "send indexed"),
    ("enqueue",),
    ("deliver", "deliver indexed"),
    ("read", "read checked", "read compared"),
    ("origins", "orders", "slots"),
)
"""What is compared is measured in turns, on stores that nothing else was done to."""


@attrs.frozen
class Part:
    """Something that a promise adds."""

    promise: str
    adds: str
    measured: str
    sides: Sequence[tuple[str, str | None]]
    """Pieces with it, and the same without it; None where it is a piece by itself."""
    each: str = "message"


PARTS = (
    Part(
        "the whole way",
        "sent, linked, delivered, with all promises",
        "",
        (
            ("send indexed", None),
            ("enqueue", None),
            ("deliver indexed", None),
            ("read checked", "read"),
        ),
    ),
    Part("exactly once", "the origin in the delivered record", "by itself", (("origins", None),)),
    Part(
        "exactly once",
        "order and millisecond in the timer-log unit",
        "by itself",
        (("orders", None),),
    ),
    Part(
        "exactly once",
        "the end of a slot: read pointer, and where recovery reads from",
        "by itself",
        (("slots", None),),
        each="slot",
    ),
    Part(
        "cancel",
        "the key index: an entry for the waiting record, one for the delivered",
        "with and without",
        (("send indexed", "send"), ("deliver indexed", "deliver")),
    ),
    Part(
        "quarantine",
        "a look at size and age of what is due",
        "with and without",
        (("read checked", "read"),),
    ),
    Part(
        "quarantine",
        "in its place after more than a minute of waiting: the checksum of the body",
        "with and without",
        (("read compared", "read"),),
    ),
)


def cpu_us(count: int, rounds: int) -> dict[str, list[float]]:
    """Microseconds of CPU a message of each piece, round by round."""
    found: dict[str, list[float]] = {name: [] for name in PIECES}
    for names in ALTERNATING:
        with tempfile.TemporaryDirectory(prefix="timermq-promises-") as folder:
            benches = Benches.at(Path(folder), count)
            for number in range(rounds):
                # Who comes first finds other caches.
                for name in names if number % 2 else reversed(names):
                    started = time.process_time()
                    PIECES[name](benches)
                    found[name].append((time.process_time() - started) / count * 1e6)
    return found


def cost_us(part: Part, us: Mapping[str, Sequence[float]]) -> float:
    """What a part takes: medians, of differences within a round where there are two sides."""
    sides = [(us[one], us[less] if less else [0.0] * len(us[one])) for one, less in part.sides]
    return sum(
        statistics.median(with_it - without for with_it, without in zip(*side, strict=True))
        for side in sides
    )


def cost(part: Part, counts: Mapping[str, int]) -> int:
    """The same in instructions, which are the same in each round."""
    return sum(counts[one] - (counts[less] if less else 0) for one, less in part.sides)


def costs(
    us: Mapping[str, Sequence[float]], counts: Mapping[str, int] | None
) -> list[dict[str, object]]:
    """A row for each part; without counts there are no instructions."""
    return [
        {
            "promise": part.promise,
            "adds": part.adds,
            "measured": part.measured,
            "each": part.each,
            "instructions": None if counts is None else cost(part, counts),
            "cpu_us": round(cost_us(part, us), 3),
        }
        for part in PARTS
    ]


def main() -> None:
    """Measure all pieces, and print the costs; with ``--keep`` write them."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--count", type=int, default=5_000, help="messages a round")
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    parser.add_argument("--cpu-only", action="store_true", help="instructions are not counted")
    parser.add_argument("--keep", action="store_true", help="write results/promises.json")
    args = parser.parse_args()
    if args.keep and args.cpu_only:
        parser.error("--keep needs the instructions too")
    us = cpu_us(args.count, args.rounds)
    counts = None if args.cpu_only else count_steps(PIECES, "promise_steps.py")
    content = {"count": args.count, "rounds": args.rounds, "counted": COUNT, "pieces": counts}
    report("promises", {**content, "costs": costs(us, counts)}, keep=args.keep)


if __name__ == "__main__":
    main()
