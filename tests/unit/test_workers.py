"""Workers of a test run: which modules come first, and what is kept of their times."""

from __future__ import annotations

from workers import place, unit_of, unit_seconds


def test_modules_that_share_a_session_are_one_unit() -> None:
    """Every other module is one of its own, whatever its tests are called."""
    assert unit_of("tests/spark/test_audit.py::test_one") == "tests/spark/a-r"
    assert unit_of("tests/spark/test_table_verb.py::test_one") == "tests/spark/r-z"
    assert unit_of("tests/spark/drivers/test_killed_drivers.py::test_one") == "tests/spark/drivers"
    assert unit_of("tests/cli/test_top.py::test_one[a::b]") == "tests/cli/test_top.py"


def test_longest_unit_first() -> None:
    """Seconds of modules with one session add up; without any, slow kinds come first."""
    seconds = unit_seconds(
        {"tests/spark/test_a.py": 30, "tests/spark/test_b.py": 25, "tests/cli/test_c.py": 40}
    )
    tests = [
        "tests/unit/test_short.py::test_1",
        "tests/interop/test_new.py::test_1",
        "tests/cli/test_c.py::test_1",
        "tests/spark/test_b.py::test_1",
    ]

    assert sorted(tests, key=lambda one: place(one, seconds)) == [*reversed(tests)]
