"""The rules that a store is judged by: one table for ``store check`` and ``spark audit``.

Each thing that can be wrong has one name here, which both print. The check reads all files of a
stopped store, damaged ones too, and says what a repair would do. The audit reads logs and queues
with many processes, also of a store that is served, and judges what became of every message. What
one of the two does not look for has the reason beside it.

docs/operations.md has the table, made by ``docs/operations_tables.py``.
"""

from __future__ import annotations

import enum

import attrs


class Promise(enum.Enum):
    """The promises by the names of docs/guarantees.md, as far as files can show them broken."""

    NOT_BEFORE = "NOT_BEFORE"
    NOT_LOST = "NOT_LOST"
    ONCE = "ONCE"
    CANCEL = "CANCEL"
    ORDER = "ORDER"
    ORDERED_DURABILITY = "ORDERED_DURABILITY"
    CHAINS_DESCEND = "CHAINS_DESCEND"
    FOLLOWS_LOG = "FOLLOWS_LOG"
    READABLE_BY_JAVA = "READABLE_BY_JAVA"


class Severity(enum.Enum):
    """How bad a finding is for the store."""

    NOTE = "note"
    """Worth knowing; nothing is broken, or the next start repairs it without loss."""
    DERIVED = "derived"
    """Damaged, and made again from other files: nothing is lost."""
    LOST = "lost"
    """The content cannot be made again, or a promise was broken before."""


@attrs.frozen
class RuleText:
    """The row of the table for a rule."""

    promise: Promise | None
    """The promise that is broken; None: none is, but somebody asked."""
    means: str
    """The meaning of a breach; one clause, without a full stop."""
    severity: Severity
    """Of most findings of the rule. A check gives another one where the case is milder or worse."""
    not_checked: str | None = None
    """Why ``store check`` does not look for it; None: it does."""
    not_audited: str | None = None
    """Why ``spark audit`` does not look for it; None: it does."""


_OTHER_FILES = "the audit reads logs and queues alone"
_OF_A_START = "the audit reads a store as a start leaves it"
_NO_SEALS = "the tables of Spark do not compare seals"
_NO_OUTLINES = "a table that meets such an outline ends with an error that names it"


@enum.unique
class StoreRule(enum.Enum):
    """The rules, by the name that both print as ``rule``."""

    EARLY = RuleText(
        Promise.NOT_BEFORE,
        "a delivery was stored before the moment asked for",
        Severity.LOST,
    )
    LATE = RuleText(
        None,
        "a delivery came more than `--late-ms` after its moment, or after its store time if that "
        "is later; only with that flag, and not after a retry from the quarantine",
        Severity.LOST,
        not_checked="an operator says what is late, and a check has no such limit",
    )
    LOST = RuleText(
        Promise.NOT_LOST,
        "a message is due (its slot is read), and was not delivered, moved, rolled, cancelled or "
        "quarantined",
        Severity.DERIVED,
    )
    CLEANED = RuleText(
        Promise.NOT_LOST,
        "a message is pending, and its record is cleaned",
        Severity.LOST,
    )
    TWICE = RuleText(
        Promise.ONCE,
        "two records deliver, move or roll the same one, or copies of one message arrive",
        Severity.LOST,
    )
    MOVED_PENDING = RuleText(
        Promise.ONCE,
        "a moved message is pending at its old moment as well, and no delete takes it out",
        Severity.DERIVED,
        not_audited="the audit judges what has happened: when both arrive it finds TWICE",
    )
    ORPHAN = RuleText(
        Promise.ONCE,
        "a record delivers, moves, rolls or cancels a record that is not there, or delivers a "
        "delete",
        Severity.LOST,
        not_checked="in a damaged log that record may be what the damage took",
    )
    CANCELLED = RuleText(
        Promise.CANCEL,
        "a message arrived that was cancelled, or for which a producer's delete stood before its "
        "slot began",
        Severity.LOST,
        not_checked="the check does not compare deletes with deliveries",
    )
    DISORDER = RuleText(
        Promise.ORDER,
        "of two messages of one moment and queue the later one came first; only with `--order`",
        Severity.LOST,
        not_checked="all deliveries have to be sorted, which takes more than one process",
    )
    RECORD_DAMAGED = RuleText(
        Promise.NOT_LOST,
        "a record of the commit log cannot be read, contradicts its place, or has a body with "
        "another checksum (`--no-bodies` of the audit leaves bodies out)",
        Severity.LOST,
    )
    RECORD_MISSING = RuleText(
        Promise.NOT_LOST,
        "the commit log has no record of a queue offset",
        Severity.LOST,
    )
    LOG_END = RuleText(
        Promise.NOT_LOST,
        "the commit log ends before the place where it ended at the last stop, or something "
        "stands behind its end",
        Severity.LOST,
        not_audited=_OF_A_START,
    )
    LOG_SEAL = RuleText(
        Promise.NOT_LOST,
        "a sector of the commit log, or a word of either log, is not as it was sealed",
        Severity.LOST,
        not_audited=_NO_SEALS,
    )
    TIMER_LOG_SEAL = RuleText(
        Promise.CHAINS_DESCEND,
        "a sector of the timer log is not as it was sealed, in more than a word",
        Severity.DERIVED,
        not_audited=_NO_SEALS,
    )
    CHAIN_BROKEN = RuleText(
        Promise.CHAINS_DESCEND,
        "the timer log ends early, or a unit is damaged or in a broken chain of a pending slot",
        Severity.DERIVED,
    )
    OUTLINE_DIFFERS = RuleText(
        Promise.FOLLOWS_LOG,
        "an outline tells something else of a stretch of the timer log than its units",
        Severity.DERIVED,
        not_audited=_NO_OUTLINES,
    )
    UNIT_DIFFERS = RuleText(
        Promise.CHAINS_DESCEND,
        "a unit names no record of the timer topic, or one of another size, slot or kind",
        Severity.DERIVED,
    )
    UNIT_TOPIC = RuleText(
        Promise.CHAINS_DESCEND,
        "a unit has the hash of another topic than its record names",
        Severity.LOST,
        not_audited="the audit compares no topics",
    )
    WHEEL_DIFFERS = RuleText(
        Promise.CHAINS_DESCEND,
        "the wheel shows other units than the timer log has",
        Severity.DERIVED,
        not_audited=_OTHER_FILES,
    )
    QUEUE_DIFFERS = RuleText(
        Promise.FOLLOWS_LOG,
        "a queue lacks a unit, or shows another record, or one that is not there",
        Severity.DERIVED,
    )
    INDEX_DIFFERS = RuleText(
        Promise.FOLLOWS_LOG,
        "the key index has other entries than the commit log gives it",
        Severity.DERIVED,
        not_audited=_OTHER_FILES,
    )
    OFFSET_BEHIND_END = RuleText(
        Promise.FOLLOWS_LOG,
        "a committed offset is negative, or behind the end of its queue",
        Severity.DERIVED,
        not_audited=_OTHER_FILES,
    )
    CHECKPOINT_WRONG = RuleText(
        Promise.ORDERED_DURABILITY,
        "a checkpoint has another size, or says more than the logs have",
        Severity.DERIVED,
        not_audited=_OF_A_START,
    )
    FILE_SIZE = RuleText(
        Promise.READABLE_BY_JAVA,
        "a file of a log or a queue is missing, or has another name or length",
        Severity.DERIVED,
        not_audited=_OF_A_START,
    )
    TABLE_UNREADABLE = RuleText(
        Promise.READABLE_BY_JAVA,
        "a table in `config/` cannot be read",
        Severity.DERIVED,
        not_audited=_OTHER_FILES,
    )
    TOPIC_UNKNOWN = RuleText(
        Promise.READABLE_BY_JAVA,
        "the table of topics lacks a topic that has messages",
        Severity.DERIVED,
        not_audited=_OTHER_FILES,
    )
    UNUSUAL = RuleText(
        Promise.READABLE_BY_JAVA,
        "the last run was cut off, or a file is none of a store's",
        Severity.NOTE,
        not_audited=_OF_A_START,
    )

    @property
    def promise(self) -> Promise | None:
        """The promise that is broken; None: none is."""
        return self.value.promise

    @property
    def promise_name(self) -> str | None:
        """Its name, as both print it."""
        return None if self.promise is None else self.promise.value

    @property
    def means(self) -> str:
        """What it means that the rule is broken, in one clause."""
        return self.value.means

    @property
    def severity(self) -> Severity:
        """The severity of a finding that states none of its own."""
        return self.value.severity

    @property
    def is_checked(self) -> bool:
        """Whether ``store check`` looks for it."""
        return self.value.not_checked is None

    @property
    def is_audited(self) -> bool:
        """Whether ``spark audit`` looks for it."""
        return self.value.not_audited is None

    @property
    def found_by(self) -> str:
        """Who finds it, and why the other one does not."""
        text = self.value
        if text.not_audited is not None:
            return f"`store check`; {text.not_audited}"
        if text.not_checked is not None:
            return f"`spark audit`; {text.not_checked}"
        return "both"
