"""A failing seed for people: what was broken, the plan, and what everybody saw."""

from __future__ import annotations

import enum
import re
from collections.abc import Iterator
from typing import cast

import attrs
import msgspec

from timermq.client.history import ClockStep, Crash, Event, Fault
from timermq.pipeline.state.timer_options import TimerOptions
from timermq.timerstore.store_options import StoreOptions

from .outcome import Outcome
from .replicas.replica_scenario import ReplicaScenario
from .scenario import Scenario
from .staged.staged_clock import START_MS

LINES_MAX = 200
"""Lines of a history that are shown; a longer one is cut down to the messages concerned."""

_MOMENTS = frozenset({"deliver_ms", "stored_ms", "received_ms", "waited_until_ms"})
"""Fields that are times of the wall clock, shown from the beginning on."""

_NAMED = re.compile(r"\bM\d{6}\b")


def report_lines(outcome: Outcome) -> Iterator[str]:
    """The lines of the report: what was broken, the plan, the history."""
    yield from ("broken:", *(f"  {fault}" for fault in outcome.faults))
    yield from ("plan:", *(f"  {line}" for line in plan_lines(outcome.scenario)))
    yield from ("history:", *(f"  {line}" for line in history_lines(outcome)))


def plan_lines(scenario: Scenario | ReplicaScenario) -> Iterator[str]:
    """The plan, a line an entry; of the settings those that are not the default."""
    yield from (
        _broker_lines(scenario) if isinstance(scenario, Scenario) else _replica_lines(scenario)
    )
    for client in scenario.clients:
        yield f"client {client.number}, {client.coding.name}:"
        for step in client.steps:
            yield f"  {type(step).__name__} {_fields(step)}"


def _replica_lines(scenario: ReplicaScenario) -> Iterator[str]:
    confirmed = "all is confirmed" if scenario.is_confirmed else "nothing is confirmed"
    yield f"seed {scenario.seed}, {scenario.duration_ms} ms, {scenario.brokers} brokers"
    yield confirmed
    yield f"store: {_fields(scenario.store, StoreOptions())}"
    yield f"timer: {_fields(scenario.timer, TimerOptions())}"
    yield f"network: {_fields(scenario.network)}, frames of {scenario.transfer_size} bytes"
    yield f"clocks: off by {', '.join(map(str, scenario.skews_ms))} ms"
    yield f"syncs: up to {scenario.sync_max_ms} ms"
    for fault in scenario.faults:
        yield f"fault: {_fields(fault)}"


def _broker_lines(scenario: Scenario) -> Iterator[str]:
    yield f"seed {scenario.seed}, {scenario.duration_ms} ms"
    yield f"store: {_fields(scenario.store, StoreOptions())}"
    yield f"timer: {_fields(scenario.timer, TimerOptions())}"
    yield f"network: {_fields(scenario.network)}"
    if scenario.sync_max_ms:
        yield f"syncs: up to {scenario.sync_max_ms} ms"
    if not scenario.reserves_blocks:
        yield "the file system cannot reserve blocks"
    if scenario.begun is not None:
        yield f"rocketmq has left: {_fields(scenario.begun)}"
    for life in scenario.lives:
        yield f"life: {_fields(life)}"
    for fault in scenario.clock_faults:
        yield f"clock: {_fields(fault)}"
    for disk_fault in scenario.disk_faults:
        yield f"disk fails: {_fields(disk_fault)}"
    for full_disk in scenario.full_disks:
        yield f"disk full: {_fields(full_disk)}"
    if scenario.cleanings_ms:
        yield f"cleanings: {', '.join(map(str, scenario.cleanings_ms))} ms"


def history_lines(outcome: Outcome) -> Iterator[str]:
    """The events of a history: the line in it, the wall clock since the start, who, what."""
    named = set(_NAMED.findall(" ".join(outcome.faults)))
    is_cut = len(outcome.events) > LINES_MAX and bool(named)
    for number, event in enumerate(outcome.events, start=2):
        if not is_cut or _concerns(event, named):
            yield f"{number:5} {event.at_ms - START_MS:+9} ms  {event.who:9} {_words(event)}"


def _concerns(event: Event, named: set[str]) -> bool:
    if isinstance(event, Crash | Fault | ClockStep):
        return True
    return getattr(event, "message_id", "") in named


def _words(event: Event) -> str:
    facts = msgspec.to_builtins(event)
    kind = facts.pop("event")
    return " ".join(
        [
            kind,
            *(
                f"{name}={value - START_MS:+}" if name in _MOMENTS else f"{name}={value}"
                for name, value in facts.items()
                if name not in ("at_ms", "who")
            ),
        ]
    )


def _fields(plan: object, default: object = None) -> str:
    """Fields with their values; without those that are as in ``default``."""
    return ", ".join(
        f"{field.name} {_value(getattr(plan, field.name))}"
        for field in attrs.fields(type(plan))  # type: ignore[arg-type]  # a class of attrs
        if default is None or getattr(plan, field.name) != getattr(default, field.name)
    )


def _value(value: object) -> str:
    if isinstance(value, enum.Enum):
        return str(value.value)
    if isinstance(value, tuple):
        return "[" + "; ".join(map(_value, cast("tuple[object, ...]", value))) + "]"
    return _fields(value) if attrs.has(type(value)) else str(value)
