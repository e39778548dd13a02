"""The two tables of docs/design.md about what the stages share, held against the code.

Every module of pipeline and broker is read as a tree. What it does to a field, it does right there
(``state.read_ms = …``, ``self.state.published.set()``), through a name of its own for it, or by a
method of ``TimerState``, whose body is read in the same way.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import attrs
import trio

from timermq.pipeline.records.deduplication import AlreadyDone
from timermq.pipeline.state.signal import Signal
from timermq.pipeline.state.timer_state import TimerState

ROOT = Path(__file__).parents[4]
STATE = ROOT / "pipeline/timermq/pipeline/state/timer_state.py"
DESIGN = ROOT / "docs/design.md"

PARTS = {
    "enqueue_get": "1",
    "enqueue_put": "2",
    "dequeue_get": "3",
    "open_slots": "3",
    "dequeue_get_message": "4",
    "dequeue_put_message": "5",
    "timer_message_store": "service",
    "copied_slots": "follower",
    "master_tables": "follower",
    "timer_flush": "flush",
    "needed_records": "pin",
    "cancellation": "cancel",
    "run_admission": "entry",
    "level_takeover": "entry",
    "quarantine_release": "entry",
    "transactions": "entry",
    "ingest_task": "bulk",
    "runtime_info": "pages",
    "clock_processor": "pages",
    "explain_processor": "pages",
    "watch_snapshot": "pages",
}
"""Module to its name in the tables."""

FIELDS = [field.name for field in attrs.fields(TimerState) if str(field.type) != "Signal"]
SIGNALS = [field.name for field in attrs.fields(TimerState) if str(field.type) == "Signal"]

CHANGING = {
    "under_way": {"append", "popleft", "clear"},
    "fresh_cancels": {"add", "meet", "forget"},
    "already_done": {"take_foreign", "forget"},
}
"""Field to the methods of what it holds that change that; calling one is writing."""
ASKING = {
    "under_way": set[str](),
    "fresh_cancels": {"cover", "first_py"},
    "already_done": {"enqueue_repeats", "dequeue_repeats", "check_doubts"},
}
"""Field to the methods that only answer."""

WITH_NO_STAGE = "begin_anew"
"""The one method that runs while no stage does; the text beside the tables tells of it."""

Deed = tuple[str, str]
"""``write``, ``read``, ``set`` or ``wait``, and what of the state."""


def is_state(node: ast.expr) -> bool:
    """Whether an expression is the shared state, by its name: ``state`` or ``x.state``."""
    names = {"state", "_state"}
    return (isinstance(node, ast.Name) and node.id in names) or (
        isinstance(node, ast.Attribute) and node.attr in names
    )


def is_self(node: ast.expr) -> bool:
    """Whether an expression is the shared state in a method of its own."""
    return isinstance(node, ast.Name) and node.id == "self"


class Reader:
    """Reads what some code does to the state."""

    def __init__(self, code: ast.AST, *, is_own: bool) -> None:
        self._is_state = is_self if is_own else is_state
        self._parents = {
            child: node for node in ast.walk(code) for child in ast.iter_child_nodes(node)
        }
        self._code = code

    def deeds(self) -> Iterator[Deed]:
        """Everything that the code does to the state, repeats included."""
        names = dict(self._names())
        for node in ast.walk(self._code):
            if isinstance(node, ast.Attribute) and self._is_state(node.value):
                yield from self._deeds_of(node, node.attr)
            elif isinstance(node, ast.Name) and node.id in names:
                yield from self._held(node, names[node.id])

    def _names(self) -> Iterator[tuple[str, str]]:
        """Own names for what a field holds: ``done = self.state.already_done``."""
        for node in ast.walk(self._code):
            if isinstance(node, ast.Assign):
                (target, *_), value = node.targets, node.value
                if not isinstance(target, ast.Name) or not isinstance(value, ast.Attribute):
                    continue
                if self._is_state(value.value) and value.attr in CHANGING:
                    yield target.id, value.attr

    def _deeds_of(self, node: ast.Attribute, name: str) -> Iterator[Deed]:
        if name in own_methods():
            yield from deeds_of_method(name)
        elif name in SIGNALS:
            yield from self._signalled(node, name)
        elif name in FIELDS:
            if isinstance(node.ctx, ast.Load):
                yield "read", name
                yield from self._held(node, name)
            else:
                yield "write", name

    def _signalled(self, node: ast.Attribute, name: str) -> Iterator[Deed]:
        method = self._method(node)
        if method is not None:
            yield {"set": "set", "wait": "wait", "wait_at_most": "wait"}[method], name

    def _held(self, node: ast.expr, name: str) -> Iterator[Deed]:
        """What is done to the thing that a field holds."""
        method = self._method(node)
        if name in CHANGING and method is not None:
            assert method in CHANGING[name] | ASKING[name], f"{name}.{method}: changes or asks?"
            if method in CHANGING[name]:
                yield "write", name

    def _method(self, node: ast.expr) -> str | None:
        """The method of it that is called, or handed to ``map``."""
        parent = self._parents.get(node)
        if not isinstance(parent, ast.Attribute):
            return None
        assert isinstance(parent.ctx, ast.Load), f"line {parent.lineno}: expected a method"
        user = self._parents[parent]
        if not isinstance(user, ast.Call):
            return None
        is_map = isinstance(user.func, ast.Name) and user.func.id == "map"
        return parent.attr if parent is user.func or is_map else None


@cache
def own_methods() -> dict[str, ast.FunctionDef]:
    """The methods of the state."""
    (body,) = (
        node for node in ast.walk(ast.parse(STATE.read_text())) if isinstance(node, ast.ClassDef)
    )
    return {node.name: node for node in body.body if isinstance(node, ast.FunctionDef)}


@cache
def deeds_of_method(name: str) -> frozenset[Deed]:
    """What a method of the state does, with those that it calls."""
    return frozenset(
        () if name == WITH_NO_STAGE else Reader(own_methods()[name], is_own=True).deeds()
    )


@cache
def deeds() -> dict[str, frozenset[Deed]]:
    """Part to all that it does."""
    found: dict[str, set[Deed]] = {}
    for folder in ("pipeline", "broker"):
        for path in sorted((ROOT / folder).rglob("*.py")):
            if path != STATE:
                done = set(Reader(ast.parse(path.read_text()), is_own=False).deeds())
                if done:
                    assert path.stem in PARTS, f"{path}: a part without a name in the tables"
                    found.setdefault(PARTS[path.stem], set()).update(done)
    return {part: frozenset(done) for part, done in found.items()}


def who(deed: str, name: str) -> set[str]:
    """The parts that do it."""
    return {part for part, done in deeds().items() if (deed, name) in done}


def tables() -> dict[str, tuple[set[str], set[str]]]:
    """Field or signal to the parts of its second and third column."""
    text = DESIGN.read_text().partition("\n## What the stages share\n")[2].partition("\n## ")[0]
    rows = re.findall(r"^\| `(\w+)` \| ([^|]*) \| ([^|]*) \|", text, re.MULTILINE)
    return {name: (parts_in(left), parts_in(right)) for name, left, right in rows}


def parts_in(cell: str) -> set[str]:
    """The parts of a cell; a dash is none."""
    return set(cell.split(", ")) - {"–"}


def test_the_tables_have_every_field_and_signal() -> None:
    """Each once, and no other."""
    assert sorted(tables()) == sorted(FIELDS + SIGNALS)


def test_the_table_of_fields_says_who_writes_and_reads_them() -> None:
    """A field that gets another writer, or loses one, gets another line."""
    found = {name: (who("write", name), who("read", name)) for name in FIELDS}

    assert {name: tables()[name] for name in FIELDS} == found


def test_the_table_of_signals_says_who_sets_and_awaits_them() -> None:
    """One task waits for each: it makes the next event when it wakes."""
    found = {name: (who("set", name), who("wait", name)) for name in SIGNALS}

    assert {name: tables()[name] for name in SIGNALS} == found
    assert [name for name in SIGNALS if len(who("wait", name)) != 1] == []


def test_deeds_are_found_however_they_are_written() -> None:
    """At the state itself, by a name of one's own, by its methods, and by those that these call."""
    code = """
def step(self):
    state, done = self.state, 0
    state.read_ms = 1
    self.state.queue_offset += 1
    state.under_way.popleft()
    self._state.published.set()
    cancels = state.fresh_cancels
    cancels.forget()
    any(map(cancels.cover, []))
    state.meet(5)
    state.begin_anew()
"""
    found = set(Reader(ast.parse(code), is_own=False).deeds())

    assert {what for deed, what in found if deed == "write"} == {
        *("read_ms", "queue_offset", "under_way", "fresh_cancels"),
    }
    assert {what for deed, what in found if deed != "write"} == {
        *("under_way", "published", "fresh_cancels", "write_ms", "read_ms", "already_done"),
    }


async def test_stop_sets_every_signal() -> None:
    """No stage sleeps on while the others leave."""
    state = TimerState(
        queue_offset=0,
        commit_queue_offset=0,
        write_ms=0,
        read_ms=0,
        commit_read_ms=0,
        scan_py=0,
        already_done=AlreadyDone(),
        near_ms=0,
    )
    signals = [getattr(state, name) for name in SIGNALS]
    state.stop()
    with trio.fail_after(1):
        for signal in signals:
            assert isinstance(signal, Signal)
            await signal.wait()

    assert state.stopping
