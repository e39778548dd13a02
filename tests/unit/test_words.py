"""One thing has one word: the table says which words are not used, and what is said instead."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import attrs
import pytest

from unit.test_tidy import COMPONENTS, ROOT, name

LEFT = {
    "remoting/": "the fields of its bodies are what clients know",
    "tests/unit/remoting/": "as the bodies",
    "tests/unit/test_words.py": "the table itself",
}
"""Beginning of a path to the reason why it is not looked at."""

DOCSTRING_WORDS_MIN = 5
"""Fewer words say no more than the name does."""


@attrs.frozen(kw_only=True)
class Word:
    """A word that is not used here, as a pattern over lines; it counts within identifiers too."""

    pattern: str
    instead: str
    why: str
    exceptions: dict[str, str] = attrs.field(factory=dict[str, str])
    """Beginning of a path to the reason why the word stands there."""


SHOWN = "a field or a metric that is shown under this name"
STEP = "early messages step aside within a stage: they are not quarantined"

WORDS = [
    Word(
        pattern=r"held_up|HeldUp",
        instead="backoff",
        why="the usual word for pauses between retries that grow",
        exceptions={
            "cli/timermq/cli/spark/sink_flags.py": SHOWN,
            "cli/timermq/cli/top/merged_snapshot.py": SHOWN,
            "cli/timermq/cli/top/screen.py": SHOWN,
            "docs/": SHOWN,
            "pipeline/timermq/pipeline/spark/sink/job_report.py": SHOWN,
            "broker/timermq/broker/bulk/bulk_job.py": SHOWN,
            "broker/timermq/broker/watching/watch_snapshot.py": SHOWN,
            "tests/unit/broker/bulk/test_bulk_job.py": SHOWN,
            "tests/unit/broker/bulk/test_ingest_task.py": SHOWN,
        },
    ),
    Word(
        pattern=r"(?i)\bsets? (it |them )?aside|setting[ _]aside|set_aside\(|SetAside|is_set_aside",
        instead="quarantine",
        why="what cannot be delivered is quarantined; one word for it",
    ),
    Word(
        pattern=r"\b([Ss]tands?|[Kk]ept|[Pp]ut|[Mm]oved) aside\b|\bAside\b",
        instead="backup",
        why="a repair makes a backup of a file before it changes it",
        exceptions={
            "tests/simulation/test_clock_steps.py": STEP,
        },
    ),
    Word(
        pattern=r"(?i)(?<![a-z])(take[ns]?|taking|took)[ _]back(?![a-z])",
        instead="cancel, or undo of what a power cut or a failed write undoes",
        why="the request is called cancel; recall is RocketMQ's request alone",
        exceptions={
            "pipeline/timermq/pipeline/spark/jobs/audit/": "a column: cancelled or moved",
        },
    ),
    Word(
        pattern=r"(?i)(?<![a-z])waiting[ _]?messages?",
        instead="pending message",
        why="the lists and the counts of them are called pending",
    ),
    Word(
        pattern=r"mark_left_out|\bLEFT_OUT_TOPIC",
        instead="cancel mark",
        why="it marks a record whose message is cancelled",
    ),
    Word(
        pattern=r"(?i)(?<![a-z])mend(s|ed|ing|er)?(?![a-z])",
        instead="repair",
        why="the verb of `store repair`",
        exceptions={
            "broker/timermq/broker/watching/watch_snapshot.py": SHOWN,
            "cli/timermq/cli/top/merged_snapshot.py": SHOWN,
            "cli/timermq/cli/top/screen.py": SHOWN,
            "docs/": SHOWN,
        },
    ),
    Word(
        pattern=r"(?i)upkeep",
        instead="check and repair",
        why="the verbs are called so",
    ),
    Word(
        pattern=r"(?i)(?<![a-z])whoever(?![a-z])",
        instead="the noun: the reader, the caller, the broker",
        why="a reader need not guess who it is",
    ),
    Word(
        pattern=r"(?<![a-zA-Z])[Nn]obodys?(?![a-z])",
        instead="the noun: no client, no caller, no reader; or a passive",
        why="it says who or what is missing",
        exceptions={
            "broker/timermq/broker/speaker.py": "an account of this name stands in log lines",
            "tests/unit/broker/security/test_speakers.py": "the same name",
        },
    ),
    Word(
        pattern=r"\b[Aa]new\b",
        instead="again; of files: rebuilt, replaced",
        why="the usual word",
        exceptions={
            "docs/operations.md": "the log event `wheel begins anew`",
            "pipeline/timermq/pipeline/timer_message_store.py": "the event's name",
            "tests/": "stories of tests",
        },
    ),
    Word(
        pattern=r"(?i)store,? (that|which) nobody serves|which nobody serves",
        instead="a stopped store",
        why="shorter, and what commands call it",
    ),
    Word(
        pattern=r"(?i)\b(is|are|be|been|was|were|not|never) (only )?tried again",
        instead="retried",
        why="the usual word",
    ),
    Word(
        pattern=r"(?i)(?<![a-z])askings(?![a-z])",
        instead="repeats",
        why="a benchmark is repeated",
    ),
    Word(
        pattern=r"(?i)(?<![a-z])shots?(?![a-z])",
        instead="workload",
        why="what a load program sends, where and for when",
    ),
    Word(
        pattern=(
            r"still_store|StillStore|near_window|far_steps|sharp_ends|changing_lives|record_mends"
            r"|hole_fill|WaitingMessages|waiting_messages|besieged|door_client"
        ),
        instead="stopped store, window, large steps, ends in delivery, changed settings, backup …",
        why="names of modules that were changed to the words of the field",
    ),
]


def looked_at() -> list[Path]:
    """Code, tests, scripts and docs; help output is made from texts in the code."""
    paths = [
        path
        for folder in (*COMPONENTS, "tests", "perf", "docs")
        for end in ("py", "md", "toml")
        for path in (ROOT / folder).rglob(f"*.{end}")
    ]
    pages = [path for path in ROOT.glob("*.md") if path.name != "CHANGELOG.md"]
    return [
        path
        for path in sorted([*paths, *pages, ROOT / "Makefile"])
        if not name(path).startswith(tuple(LEFT))
    ]


@pytest.mark.parametrize("word", WORDS, ids=[word.instead for word in WORDS])
def test_replaced_words(word: Word) -> None:
    """A word of the table stands nowhere but in its exceptions."""
    pattern = re.compile(word.pattern)
    found = [
        f"{name(path)}:{number}: {line.strip()}: say {word.instead}"
        for path in looked_at()
        if not name(path).startswith(tuple(word.exceptions))
        for number, line in enumerate(path.read_text().splitlines(), start=1)
        if pattern.search(line)
    ]

    assert found == []


@pytest.mark.parametrize("word", WORDS, ids=[word.instead for word in WORDS])
def test_exceptions_are_needed(word: Word) -> None:
    """Each exception has a reason, and a file in which the word stands."""
    pattern = re.compile(word.pattern)
    needed = {
        start
        for start in word.exceptions
        for path in looked_at()
        if name(path).startswith(start) and pattern.search(path.read_text())
    }

    assert all(word.exceptions.values())
    assert needed == set(word.exceptions)


def test_docstrings_say_more_than_a_name() -> None:
    """A docstring has five words or more; what the name says needs none if it is private."""
    short = [
        f"{name(path)}: {getattr(node, 'name', 'module')}: {text}"
        for path in looked_at()
        if path.suffix == ".py"
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef)
        for text in [ast.get_docstring(node)]
        if text is not None and len(text.split()) < DOCSTRING_WORDS_MIN
    ]

    assert short == []
