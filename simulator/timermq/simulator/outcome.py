"""The outcome of a simulation: the promises that were broken, and what everybody saw."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping

import attrs
import msgspec

from timermq.client.history import Deliver, Event, Send

from .replicas.replica_scenario import ReplicaScenario
from .rules.broken import Broken, Rule
from .scenario import Scenario


@attrs.frozen(kw_only=True)
class Outcome:
    """What a simulation has done, and which promises were broken."""

    scenario: Scenario | ReplicaScenario
    judged: Mapping[Rule, int]
    """How many messages, arrivals or queues each rule was held against."""
    events: tuple[Event, ...]
    faults: tuple[str, ...]
    """The broken promises; empty: all were kept."""
    crashes: int
    requests: int
    """How many requests the clients have sent."""
    virtual_ms: int
    counts: Mapping[str, int]
    """The counts of events, which show the parts that the plan has reached."""

    @property
    def operations(self) -> int:
        """Requests, and messages that were sent or received."""
        return self.requests + sum(isinstance(event, Send | Deliver) for event in self.events)

    @property
    def digest(self) -> str:
        """A hash of the history: the same for the same seed, byte for byte."""
        return hashlib.sha256(msgspec.json.Encoder().encode_lines(self.events)).hexdigest()


def in_words(broken: Broken) -> str:
    """A breach as one line of text."""
    places = ", ".join(line.rpartition(":")[2] for line in broken.lines)
    return (
        f"{broken.rule.name} {broken.message_id}: expected {broken.expected}, "
        f"found {broken.found} (lines {places})"
    )
