"""The findings about a store, as data: one ``Finding`` a fault, with the step of a repair.

Checks only find; which step repairs what was found stands in the finding, so that a dry run, a
repair and an operator read the same list.
"""

from __future__ import annotations

import enum
from collections.abc import Iterator

import attrs

from .store_rule import Severity, StoreRule

FINDINGS_MAX = 100_000
"""Findings of one check; what is wrong beyond them is found by the next one."""


class Step(enum.Enum):
    """The step of a repair for a finding."""

    NOTHING = "nothing"
    BACK_UP_FILE = "the file is moved to the backup"
    RESTORE_LENGTH = "the file gets its length again; what is missing is looked at as a hole"
    REPAIR_RECORD = "the field is put right in its place"
    REPAIR_WORD = "the word is put right, as its seal tells it"
    FILL_HOLE = "the hole is filled with records that no queue holds"
    CUT_TAIL = "the log ends there; what stands behind is kept in the backup"
    MARK_LOST = "a record that says LOST takes each place, so that the queue has no gap"
    REBUILD_QUEUE = "the queue is made again from the commit log"
    REBUILD_INDEX = "the index is made again from the commit log"
    REBUILD_WHEEL = "the wheel is made again from the timer log"
    CUT_TIMER_LOG = "the timer log is cut there; messages behind are enqueued again, once"
    REWRITE_OUTLINE = "the outline is made again from the timer log"
    ENQUEUE_AGAIN = "the timer topic is read from its start; what has no unit is enqueued, once"
    RESET_CHECKPOINT = "the checkpoint is moved to the backup; the next start reads what it told"
    CORRECT_REGISTER = "the register is made again"
    RESTORE_TABLE = "the table is moved to the backup and its .bak takes its place"
    ADD_TOPIC = "the topic is added to the table"
    CLAMP_OFFSET = "the offset is set to the end of the queue"


def _severity_of_rule(finding: Finding) -> Severity:
    return finding.rule.severity


@attrs.frozen(kw_only=True)
class Finding:
    """One thing that is not as it must be."""

    rule: StoreRule
    file: str
    """Path under the store's root, of a file or of a queue's directory."""
    offset: int
    """Byte in the file; in a queue's directory byte 20 n of queue offset n."""
    expected: str
    found: str
    step: Step
    severity: Severity = attrs.field(default=attrs.Factory(_severity_of_rule, takes_self=True))
    """That of the rule, where nothing else is said."""
    count: int = 1
    """Neighbouring things of the same kind: units, entries, messages."""
    subject: object = None
    """The target of the step; see the checks."""

    def row(self) -> dict[str, object]:
        """The finding as a line of JSON."""
        return {
            "rule": self.rule.name,
            "promise": self.rule.promise_name,
            "file": self.file,
            "offset": self.offset,
            "expected": self.expected,
            "found": self.found,
            "count": self.count,
            "severity": self.severity.value,
            "repair": self.step.value,
        }


Findings = Iterator[Finding]
