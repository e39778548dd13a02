"""A promise that was not kept, and the names of the promises."""

from __future__ import annotations

import enum

import attrs


class Rule(enum.Enum):
    """The rules; the value says each in a line."""

    NOT_LOST = "what is acknowledged and due has arrived"
    NOT_BEFORE = "it is stored on its topic at its moment or later"
    ONCE = "it arrives at one place only, for each time that it was sent"
    CANCEL = "some order of requests and arrival explains every verdict"
    RESCHEDULE = "what was moved arrives at its new moment only"
    ORDER = "messages of one moment, queue and producer stand in the order of sending"
    OFFSETS = "a queue has no gap, and one message at a place"
    PLACE = "it arrives on the topic and queue that it was sent to"
    UNSENT = "what was never sent, or was refused, does not arrive"


@attrs.frozen(kw_only=True)
class Broken:
    """One breach, with what is needed to look at it."""

    rule: Rule
    message_id: str
    expected: str
    found: str
    lines: tuple[str, ...]
    """``file:line`` of everything concerned."""

    def row(self) -> dict[str, object]:
        """As one line of a report."""
        return {
            "rule": self.rule.name,
            "message_id": self.message_id,
            "expected": self.expected,
            "found": self.found,
            "lines": ", ".join(self.lines),
        }
