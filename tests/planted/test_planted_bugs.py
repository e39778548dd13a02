"""The list of planted bugs is in step with the sources, and what finds them does find them."""

from __future__ import annotations

import attrs
import pytest

from planted.__main__ import NOTHING, PAGE_PATH, cells, rows_in, with_table
from planted.planted_bug import OPEN_PATH, PROMISES, ROOT, PlantedBug, planted_bugs
from planted.trial import Trial, try_bug

BUGS = planted_bugs()
ALL_BUGS = (*BUGS, *planted_bugs(OPEN_PATH))
COUNT_MIN = 25
QUICK = ("a roll forgets the order of sending", "units of one batch forget each other")
"""Found by the first seed."""


@pytest.mark.parametrize("bug", ALL_BUGS, ids=lambda bug: bug.name)
def test_a_bug_can_be_planted(bug: PlantedBug) -> None:
    """What it changes stands in its modules once, and each of them compiles with the bug."""
    for module in bug.modules():
        sound = (ROOT / module).read_text()
        planted = bug.planted(sound, module)

        assert planted != sound
        compile(planted, module, "exec")


@pytest.mark.parametrize("bug", ALL_BUGS, ids=lambda bug: bug.name)
def test_a_bug_says_what_finds_it(bug: PlantedBug) -> None:
    """It breaks a promise; simulator or judge has to find it, or tests that are there."""
    assert bug.breaks in PROMISES
    assert sum(map(bool, (bug.simulator, bug.judge, bug.tests))) == 1
    for test in bug.tests:
        path, _, function = test.partition("[")[0].partition("::")
        assert (ROOT / path).exists()
        assert not function or f"def {function}(" in (ROOT / path).read_text()


def test_the_list_is_long_enough() -> None:
    """No name twice, for the table names bugs by it."""
    assert len(ALL_BUGS) == len({bug.name for bug in ALL_BUGS})
    assert len(BUGS) >= COUNT_MIN


def test_what_does_not_stand_there_once_is_refused() -> None:
    """A change that misses, or that hits two places, is no bug of the list."""
    bug = attrs.evolve(BUGS[0], edits=(("= 1", "= 2"),))

    with pytest.raises(ValueError, match="found 0 times"):
        bug.planted("a = 3")
    with pytest.raises(ValueError, match="found 2 times"):
        bug.planted("a = 1\nb = 1")


@pytest.mark.slow
@pytest.mark.parametrize("name", QUICK)
def test_a_planted_bug_is_found(name: str) -> None:
    """By the simulator, whose seed is sound without the bug; the checkout stays as it is."""
    (bug,) = (one for one in BUGS if one.name == name)
    before = (ROOT / bug.module).read_bytes()

    trial = try_bug(bug)

    assert (True, True) == (trial.is_found, trial.count >= 1)
    assert before == (ROOT / bug.module).read_bytes()


def test_the_page_shows_every_bug_as_found() -> None:
    """``make planted`` makes the table anew."""
    rows = rows_in(PAGE_PATH.read_text())

    assert [bug.name for bug in BUGS] == list(rows)
    assert [] == [name for name, row in rows.items() if row[3] == NOTHING]


def test_a_bug_that_is_not_found_shows_in_the_table() -> None:
    """The table does not hide what the proof lacks; results of others stay."""
    page = "a\n<!-- planted bugs -->\nold\n<!-- end -->\nz\n"
    simulated = [bug for bug in BUGS if bug.simulator is not None]
    first, second = (
        Trial(bug=bug, is_found=count < 200, count=count, cpu_seconds=61.24, as_what="ONCE")
        for bug, count in zip(simulated[:2], (200, 7), strict=True)
    )
    names = [first.bug.name, second.bug.name]

    once = with_table(page, [first], names)
    twice = with_table(once, [second], names)

    assert "0 of 2 are found" in once
    assert "1 of 2 are found" in twice
    assert [*rows_in(once).values()] == [cells(first)]
    assert [*rows_in(twice).values()] == [cells(first), cells(second)]
    assert (NOTHING, "200", "61.2") == cells(first)[3:]
    assert twice.startswith("a\n<!--")
    assert twice.endswith("<!-- end -->\nz\n")
    with pytest.raises(ValueError, match="found none"):
        rows_in("nothing here")
