"""The performance page and its pictures say what was measured."""

from __future__ import annotations

import importlib
import math
import sys
from types import ModuleType

import pytest

from unit.docs_script import DOCS, docs_script

ROOT = DOCS.parent


@pytest.fixture
def pictures(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """The script that draws the pictures."""
    monkeypatch.setattr(sys, "path", [str(ROOT / "perf"), *sys.path])
    return importlib.import_module("pictures")


@pytest.fixture
def record(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """The script that asks and keeps."""
    monkeypatch.setattr(sys, "path", [str(ROOT / "perf"), *sys.path])
    return importlib.import_module("record")


def test_tables_are_those_of_the_kept_results() -> None:
    """``make docs`` writes them; no figure is typed by hand."""
    page = (DOCS / "performance.md").read_text()

    assert docs_script("performance_tables").with_tables(page) == page


def test_a_table_of_another_machine_names_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """The first table names the machine; only those of the same one refer to it."""
    module = docs_script("performance_tables")
    kept, page = module.kept, (DOCS / "performance.md").read_text()
    other = kept("pending_cost")
    machine = {**other["machine"], "python": "9.9.9"}

    def with_another(name: str) -> dict[str, object]:
        return {**other, "machine": machine} if name == "pending_cost" else kept(name)

    monkeypatch.setattr(module, "kept", with_another)
    made = module.with_tables(page)

    assert (
        made.count("Same machine and libraries;") == page.count("Same machine and libraries;") - 1
    )
    assert made.count("Measured on ") == page.count("Measured on ") + 1
    assert made.count(" Python 9.9.9, ") == 1


def test_every_answer_has_its_row() -> None:
    """A question that is asked is on the page."""
    module = docs_script("performance_tables")

    assert [row.question for row in module.ROWS] == [
        answer["question"] for answer in module.kept("questions")["answers"]
    ]


def test_a_question_asked_anew_takes_its_place(record: ModuleType) -> None:
    """The others stay, and the new answer says of which commit it is."""
    result = {"answers": [{"question": "steady", "value": 1}, {"question": "idle", "value": 2}]}

    assert [
        {"question": "steady", "value": 3, "commit": "abc"},
        {"question": "idle", "value": 2},
    ] == record.merged(result, [{"question": "steady", "value": 3}], "abc")


def test_answers_of_another_machine_do_not_mix(record: ModuleType) -> None:
    """One table is of one machine, at one scale; commit and calibration may differ."""
    machine = {"python": "3.11.7", "commit": "abc", "calibration_ms": 3.0}
    now = {**machine, "commit": "def", "calibration_ms": 4.0}
    result = {"machine": machine, "scale": 1.0}

    assert [] == record.differences(result, now, 1.0)
    assert ["scale: expected 1.0 as kept, found 0.01"] == record.differences(result, now, 0.01)
    assert ["python: expected 3.11.7 as kept, found 3.12.0"] == record.differences(
        result, {**now, "python": "3.12.0"}, 1.0
    )


def test_a_row_tells_how_often_it_was_asked() -> None:
    """And between what the answers lay."""
    seen = docs_script("performance_tables")._seen
    answer = {"value": 61_000, "floor": 60_000, "asked": [61_000, 40_000.5, 62_000]}

    assert "asked 3 times: 40,000 to 62,000" == seen(answer)
    assert "asked 3 times: 40,000 to 62,000, commit abc" == seen({**answer, "commit": "abc"})
    assert "worst of 2" == seen({"value": 1, "floor": 0, "asked": [0, 1]})


@pytest.mark.parametrize("name", ["burst_lateness", "pending_cost"])
def test_pictures_are_those_of_the_kept_results(pictures: ModuleType, name: str) -> None:
    """Drawing measures nothing, and draws the same every time."""
    drawn = pictures.PICTURES[name](pictures.kept(name))

    assert drawn == (DOCS / "pictures" / f"{name.replace('_', '-')}.svg").read_text()


def test_axes(pictures: ModuleType) -> None:
    """Values get their place; what is outside stands at the end, where it is still seen."""
    even = pictures.Axis(label="", low=0, high=10, ticks=[])
    tens = pictures.Axis(label="", low=1, high=10_000, ticks=[], logarithmic=True)

    assert [0, 0.5, 1, 1] == [even.place(value) for value in (-1, 5, 10, 11)]
    assert [0, 0.5, 1] == [round(tens.place(value), 9) for value in (0, 100, 10_000)]
    assert [1, 10, 100] == pictures.ticks_of_ten(0.5, 150)
    assert [0, 20, 40, 60] == pictures.even_ticks(51)
    with pytest.raises(ValueError, match="expected a positive low end, found 0"):
        pictures.Axis(label="", low=0, high=1, ticks=[], logarithmic=True)


def test_what_promises_cost_is_what_they_add(monkeypatch: pytest.MonkeyPatch) -> None:
    """The way with a promise less the way without, of rounds beside each other."""
    monkeypatch.setattr(sys, "path", [str(ROOT / "perf"), *sys.path])
    bench = importlib.import_module("bench_promises")
    cancel = next(part for part in bench.PARTS if part.promise == "cancel")
    counts = {"send": 100, "send indexed": 117, "deliver": 50, "deliver indexed": 58}
    us = {
        "send": [1.0, 9.0, 2.0],
        "send indexed": [1.5, 9.5, 9.0],
        "deliver": [1.0, 1.0, 1.0],
        "deliver indexed": [2.0, 2.0, 2.0],
    }

    assert 17 + 8 == bench.cost(cancel, counts)
    assert 0.5 + 1.0 == bench.cost_us(cancel, us)
    assert {name for part in bench.PARTS for side in part.sides for name in side if name} == set(
        bench.PIECES
    )
    assert sorted(bench.PIECES) == sorted(name for names in bench.ALTERNATING for name in names)


def test_a_cancel_stands_beside_what_is_pending(monkeypatch: pytest.MonkeyPatch) -> None:
    """What was kept before it was asked for has a dash there."""
    module = docs_script("performance_tables")
    point = {"pending": 10_000, "cpu_us": 13.3, "own_memory_mib": 84.7, "ready_seconds": 1.8}
    asked = {**point, "cancel_us": 210.0, "cancel_nothing_us": 61.0}
    result = {**module.kept("pending_cost"), "points": [point, asked]}
    monkeypatch.setattr(module, "kept", {"pending_cost": result}.__getitem__)

    assert [
        "| 10,000 | 13.3 | – | – | 84.7 | 1.8 |",
        "| 10,000 | 13.3 | 210.0 | 61.0 | 84.7 | 1.8 |",
    ] == module.pending()[-2:]


def test_held_pulls_that_are_renewed_have_a_row_of_their_own(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Beside the quiet ones and without a bound; what was kept before has no such row."""
    monkeypatch.setattr(sys, "path", [str(ROOT / "perf"), *sys.path])
    held_pulls = importlib.import_module("held_pulls")
    kept_answer = importlib.import_module("served").kept_answer
    module = docs_script("performance_tables")
    took = [1.0] * held_pulls.WAKE_COUNT
    figures = held_pulls.held_pull_figures(10_000, 0.006, 0.0587, 83.5, [took, took])
    new = [kept_answer(one) for one in figures]
    old = [one for one in new if "each asked again" not in one["question"]]
    rows: list[list[str]] = []
    for answers in (new, old):
        results = {name: module.kept(name) for name in ("crowds", "access", "watch")}
        results["crowds"] = {**results["crowds"], "answers": answers}
        with monkeypatch.context() as staged:
            staged.setattr(module, "kept", results.__getitem__)
            rows.append([row for row in module.crowds() if "asked again" in row or "held" in row])

    assert [
        "| 10,000 held pulls, before one is asked again | ≤ 2 | 0.6 | % of a core |",
        "| the same, each asked again after 15 s |  | 5.9 | % of a core |",
        "| one of them asked again, after 15 s |  | 83.5 | µs of CPU |",
    ] == rows[0]
    assert [rows[0][0], rows[0][2]] == rows[1]


def test_settings_stand_beside_what_was_measured_with_them(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing stands beside a figure of a broker with its defaults."""
    monkeypatch.setattr(sys, "path", [str(ROOT / "perf"), *sys.path])
    overload = importlib.import_module("overload")
    served = importlib.import_module("served")
    module = docs_script("performance_tables")
    answers = [
        served.kept_answer(served.Figure("Q", 1.0, "MB", 2, limits.label("topics_max")))
        for limits in (overload.Limits(), overload.Limits(**overload.SMALL))
    ]
    result = {**module.kept("overload"), "answers": answers}
    monkeypatch.setattr(module, "kept", {"overload": result}.__getitem__)

    assert ["| Q | ≤ 2 | 1.0 | MB |", "| Q | ≤ 2 | 1.0 | MB; `topics_max=200` |"] == (
        module.overload()[-2:]
    )
    assert overload.Limits().set_flags() == []
    assert overload.Limits(topics_max=7).set_flags() == ["--set=topics_max=7"]


def test_crowds_and_access_stand_at_the_door(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each figure beside its bound; what is beyond it is marked, what has none is only told."""
    module = docs_script("performance_tables")
    machine = module.kept("access")["machine"]
    results = {
        "crowds": {
            "machine": machine,
            "answers": [
                {"question": "held", "value": 2.5, "unit": "%", "bound": 2.0, "passes": False},
                {"question": "again", "value": 90, "unit": "µs", "bound": None, "passes": True},
            ],
        },
        "access": {
            "machine": machine, "left": 0.59, "floor": 0.6, "open_us": 7.5, "guarded_us": 12.7,
            "pull_left": 0.9, "pull_open_us": 1.8, "pull_guarded_us": 2.0,
        },
        "watch": {
            "machine": machine,
            "answers": [
                {"question": "looking", "value": 3.5, "unit": "%", "bound": 3.0, "passes": False},
            ],
        },
    }  # fmt: skip
    monkeypatch.setattr(module, "kept", results.__getitem__)
    held, again, access, pulls, watch = module.crowds()[-5:]

    assert "| held | ≤ 2 | 2.5 ✗ | % |" == held
    assert "| again |  | 90.0 | µs |" == again
    assert "≥ 60 | 59 ✗ | %, 7.5 µs of CPU a message become 12.7;" in access
    assert "≥ 60 | 90 | %, 1.8 µs of CPU a message become 2.0;" in pulls
    assert f"| looking | ≤ 3 | 3.5 ✗ | %; commit {machine['commit']} |" == watch


def test_a_storm_is_over_when_the_last_has_rebalanced(monkeypatch: pytest.MonkeyPatch) -> None:
    """One that does not end is beyond its bound; the queues are shared as Java shares them."""
    monkeypatch.setattr(sys, "path", [str(ROOT / "perf"), *sys.path])
    storm = importlib.import_module("storm")
    crowd = storm.Crowd(None, 2_000, 200)

    def settled(settled_s: float | None) -> tuple[float, bool]:
        figures = storm.storm_figures(crowd, 2.0, settled_s, {0.02: 10.0, math.inf: 10.0})
        (one,) = [figure for figure in figures if "rebalanced" in figure.question]
        return one.value, one.passes

    assert settled(4.0) == (4.0, True)
    assert settled(None) == (storm.GIVEN_UP_S, False)
    shares = [storm.allocated(place, 3) for place in range(3)]
    assert shares == [(0, 1), (2,), (3,)]
    assert [storm.allocated(place, 10) for place in (3, 4)] == [(3,), ()]
