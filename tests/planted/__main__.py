"""Plants every bug of the list, one after the other, and prints what found it: ``make planted``.

With ``--write`` the results go to the table in docs/testing.md; rows of bugs that were not tried
stay. Exit code 1: a bug was not found.
"""

from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Sequence

from .planted_bug import LIST_PATH, OPEN_PATH, ROOT, planted_bugs
from .trial import SEEDS_MAX, Trial, try_bug

PAGE_PATH = ROOT / "docs" / "testing.md"
MARKS = re.compile(r"(<!-- planted bugs -->\n).*?(<!-- end -->)", re.DOTALL)
Row = tuple[str, ...]
HEAD = ("bug", "in", "breaks", "found by", "seeds", "CPU s")
RULER = ("---", "---", "---", "---", "---:", "---:")
NOTHING = "**nothing**"
SIMULATOR = "simulator: "
JUDGE = "judge: "


def main(arguments: Sequence[str]) -> int:
    """Try the bugs; 1 when one was not found."""
    parser = argparse.ArgumentParser(prog="make planted", description=__doc__)
    parser.add_argument("--write", action="store_true", help="renew the rows in docs/testing.md")
    parser.add_argument("names", nargs="*", help="beginnings of names of bugs; default: all")
    parser.add_argument("--open", action="store_true", help="those that nothing finds yet")
    args = parser.parse_args(arguments)
    if args.write and args.open:
        parser.error("--write is for the list of bugs that are found")
    wanted = tuple(args.names) or ("",)
    trials: list[Trial] = []
    for bug in planted_bugs(OPEN_PATH if args.open else LIST_PATH):
        if bug.name.startswith(wanted):
            trials.append(try_bug(bug))
            print(" | ".join(cells(trials[-1])), flush=True)
    missed = [one.bug.name for one in trials if not one.is_found]
    print(f"{len(trials)} planted bugs, {len(trials) - len(missed)} found")
    if missed:
        print(f"not found: {', '.join(missed)}", file=sys.stderr)
    if args.write:
        names = [bug.name for bug in planted_bugs()]
        PAGE_PATH.write_text(with_table(PAGE_PATH.read_text(), trials, names))
    return 1 if missed or not trials else 0


def cells(trial: Trial) -> Row:
    """A line of the table."""
    bug = trial.bug
    component, _, module = bug.module.partition("/timermq/")
    found_by = NOTHING
    by_seeds = SIMULATOR if bug.simulator else JUDGE if bug.judge else ""
    if trial.is_found:
        found_by = f"{by_seeds}{trial.as_what}" if by_seeds else f"`{trial.as_what}`"
    return (
        bug.name,
        f"`{component}/{module.rpartition('/')[2]}`",
        bug.breaks,
        found_by,
        f"{trial.count}" if by_seeds else "–",
        f"{trial.cpu_seconds:.1f}",
    )


def rows_in(page: str) -> dict[str, Row]:
    """The lines of the table by the name of the bug.

    Raises:
        ValueError: There is no place for a table.
    """
    place = MARKS.search(page)
    if place is None:
        raise ValueError("docs/testing.md: expected a place for the planted bugs, found none")
    lines = (line[2:-2].split(" | ") for line in place[0].splitlines() if line.startswith("| "))
    return {line[0]: tuple(line) for line in list(lines)[2:]}


def with_table(page: str, trials: Sequence[Trial], names: Sequence[str]) -> str:
    """The page with the table between its marks made anew.

    Args:
        page: The page; rows of bugs that were not tried are taken from it.
        trials: The new results.
        names: Of all bugs, in their order.

    Raises:
        ValueError: There is no place for a table.
    """
    known = rows_in(page) | {trial.bug.name: cells(trial) for trial in trials}
    rows = [known[name] for name in names if name in known]
    found = [row for row in rows if row[3] != NOTHING]
    seeds = [int(row[4]) for row in found if row[3].startswith(SIMULATOR)]
    judged = [int(row[4]) for row in found if row[3].startswith(JUDGE)]
    lines = [
        f"{len(found)} of {len(names)} are found, {len(seeds)} of them by the simulator, within "
        f"{max(seeds, default=0)} seeds ({SEEDS_MAX} are allowed), {len(judged)} by the judge, "
        f"within {max(judged, default=0)}.",
        "",
        *(f"| {' | '.join(row)} |" for row in (HEAD, RULER, *rows)),
        "",
    ]
    table = "\n".join(lines)
    return MARKS.sub(lambda marks: f"{marks[1]}{table}{marks[2]}", page)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
