"""The whole check: ledger, how often each rule applied, and answers without a question."""

from __future__ import annotations

import ast
import sys
from pathlib import Path

import pytest

from story import Story, judge
from timermq.client.history import Crash, Fault, HistoryError
from timermq.simulator import rules
from timermq.simulator.rules.broken import Rule

DUE_MS = 5_000


def full_story() -> Story:
    """One message of every kind."""
    story = Story().sent("arrives", "moves", "goes", "late", "far", deliver_ms=DUE_MS)
    story.send("refused").refused("refused").send("unanswered").unknown("unanswered")
    story.move("moves", 7_000).cancel("goes", "cancelled").sent("later", deliver_ms=90_000)
    story.tell(Crash(at_ms=story.now_ms, who="n", kind="kill"))
    story.tell(Fault(at_ms=story.now_ms, who="n", kind="stop"))
    for offset, one in enumerate(("arrives", "late", "far")):
        story.arrive(one, offset, stored_ms=DUE_MS)
    return story.cancel("late", "too_late").arrive("moves", 3, stored_ms=7_000).end(8_000)


def test_the_ledger() -> None:
    """Every message is counted by what became of it, every fault by its kind."""
    assert {
        "sent": 8,
        "acknowledged": 6,
        "refused": 1,
        "unanswered": 1,
        "delivered": 4,
        "cancelled": 1,
        "moved": 1,
        "too_late": 1,
        "not_found": 0,
        "unseen": 1,
        "uncertain": 0,
        "lost": 0,
        "early": 0,
        "twice": 0,
        "broken": 0,
        "kill": 1,
        "stop": 1,
    } == judge(full_story()).ledger


def test_how_often_a_rule_applied() -> None:
    """A rule that was held against nothing is seen in the report."""
    assert {
        Rule.NOT_LOST: 2,
        Rule.NOT_BEFORE: 4,
        Rule.ONCE: 8,
        Rule.CANCEL: 3,
        Rule.RESCHEDULE: 1,
        Rule.ORDER: 3,
        Rule.OFFSETS: 1,
        Rule.PLACE: 4,
        Rule.UNSENT: 5,
    } == judge(full_story()).judged


@pytest.mark.parametrize(
    ("story", "expected"),
    [
        (Story().ack("M"), "0.jsonl:2: expected a send of M by p before its answer, found none"),
        (
            Story().answer(4, "cancelled"),
            "0.jsonl:2: expected request 4 of p before its answer, found none",
        ),
    ],
)
def test_an_answer_without_a_question(story: Story, expected: str) -> None:
    """Then a part of the history is missing, and nothing is judged."""
    with pytest.raises(HistoryError) as refused:
        judge(story)

    assert expected == str(refused.value)


def test_the_judge_is_independent() -> None:
    """Of everything else the judge imports the declaration of the events alone."""
    folder = Path(rules.__file__).parent
    imported = {
        node.module
        for path in folder.glob("*.py")
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.ImportFrom) and node.level != 1 and node.module is not None
    }

    assert {"timermq.client.history"} == {
        module for module in imported if module.split(".")[0] not in sys.stdlib_module_names
    } - {"attrs"}
