"""Rows of the sink against the broker's rules, before anything of them is sent.

``TimerAdmission`` decides, with the settings that the broker told; columns only say which rows need
not be asked about: plain properties, and a moment between the job's and the latest one. What the
broker checks elsewhere (sizes, topics) it is asked about, or has told the limit of.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence

import attrs
import numpy as np
import pyarrow as pa

from timermq.remoting.bulk import BulkLimits
from timermq.remoting.bulk_block import ROWS_MAX, BulkBlock, BulkBlockError, BulkColumn
from timermq.timerstore.array_types import Flags, Places
from timermq.timerstore.message import Message

from ...admission.admission import Refusal, TimerAdmission
from ...state.timer_options import TimerOptions
from .arrow_columns import (
    Column,
    Times,
    bulk_column,
    codes_of,
    column_of,
    distinct,
    equals,
    is_there,
    matches,
    sizes,
    starts_with,
    taken,
    value_at,
)
from .moments import Moments, moments_of
from .property_columns import properties_size, property_columns
from .schedule_columns import ScheduleColumns

_STEERING = ("TIMER_", "DELAY", "REAL_TOPIC", "REAL_QID")
"""How names of properties begin that admission has to see."""
_SYSTEM_TOPICS = "rmq_sys_"
_CONTROLS = r"[\x00-\x1f\x7f]"
_NOTHING = BulkColumn.of([b""])

FAR_DELAY_MAX_MS = 10 * 365 * 86_400_000
"""How far ahead a message may be due that does not go to the broker yet: what no broker may be set
to exceed."""

TopicRefusals = Callable[[Sequence[str]], Mapping[str, str]]
"""Which of some topics the broker takes no messages for, and its remark, the rule first."""


@attrs.frozen
class RowRefusal:
    """Why a row is not scheduled."""

    rule: str
    remark: str
    """The rule and the value that broke it, one line."""

    @classmethod
    def of(cls, rule: str, text: str) -> RowRefusal:
        """A refusal by a rule."""
        return cls(rule, f"{rule}: {text}")


@attrs.frozen(eq=False, kw_only=True)
class CheckedRows:
    """Some rows, and what is said about them."""

    batch: pa.RecordBatch
    deliver_ms: Times
    properties: Mapping[str, Column]
    """By name; null where a row has none."""
    refused: Mapping[int, RowRefusal]

    def kept(self) -> Flags:
        """The rows that are not refused."""
        kept = np.ones(self.batch.num_rows, np.bool_)
        kept[list(self.refused)] = False
        return kept

    def blocks(self, wanted: Flags) -> Iterator[BulkBlock]:
        """Rows as blocks, one a topic, in the order of the rows within it."""
        topics, codes = codes_of(column_of(self.batch, "topic"))
        for code, topic in enumerate(topics):
            places = np.flatnonzero((codes == code) & wanted)
            for first in range(0, len(places), ROWS_MAX):
                yield self._block(str(topic), places[first : first + ROWS_MAX])

    def _block(self, topic: str, places: Places) -> BulkBlock:
        is_all = len(places) == self.batch.num_rows
        properties: dict[str, BulkColumn] = {}
        for name, column in self.properties.items():
            values = column if is_all else taken(column, places)
            if values.null_count < len(values):
                properties[name] = bulk_column(values)
        bodies = column_of(self.batch, "body")
        return BulkBlock.of(
            topic,
            bulk_column(bodies if is_all else taken(bodies, places)),
            deliver_ms=self.deliver_ms[places],
            properties=properties,
        )


class RowCheck:
    """Checks rows of one job.

    Args:
        columns: Of the DataFrame.
        limits: The broker's.
        job_ms: The moment from which delays count, and by which past and far are told apart.
        topic_refusals: Asks the broker.
        has_far: What is beyond the broker's maximum goes elsewhere, up to ``FAR_DELAY_MAX_MS``.
    """

    def __init__(
        self,
        columns: ScheduleColumns,
        limits: BulkLimits,
        job_ms: int,
        *,
        topic_refusals: TopicRefusals,
        has_far: bool = False,
    ) -> None:
        self._columns = columns
        self._limits = limits
        self._job_ms = job_ms
        self._topic_refusals = topic_refusals
        self._admission = TimerAdmission(timer_options(limits, has_far=has_far), _never_congested)
        self._latest_ms = self._admission.latest_ms(job_ms)

    def check(self, batch: pa.RecordBatch) -> CheckedRows:
        """Decide on each row; ``batch`` has at most ``NAMES_MAX`` names of properties, or a row."""
        properties, twice = property_columns(batch, self._columns)
        moments = moments_of(
            self._columns.moment,
            column_of(batch, self._columns.moment),
            job_ms=self._job_ms,
            latest_ms=self._latest_ms,
            level_ms=self._limits.level_ms,
        )
        refused = self._by_value(batch, properties, twice)
        unfit = {name: _name_refusal(name) for name in properties}
        unsure = moments.unsure | self._unplain(batch, properties, unfit)
        deliver_ms = moments.deliver_ms.copy()
        for row in _rows(unsure):
            if row not in refused:
                verdict = self._ask(batch, row, properties, moments, unfit)
                if isinstance(verdict, RowRefusal):
                    refused[row] = verdict
                else:
                    deliver_ms[row] = verdict
        return CheckedRows(
            batch=batch, deliver_ms=deliver_ms, properties=properties, refused=refused
        )

    def _by_value(
        self, batch: pa.RecordBatch, properties: Mapping[str, Column], twice: Flags
    ) -> dict[int, RowRefusal]:
        """The rows that the broker's limits and its topics refuse."""
        refused: dict[int, RowRefusal] = {}
        limits = self._limits
        topics, body_sizes = column_of(batch, "topic"), sizes(column_of(batch, "body"))
        for topic, remark in self._topic_refusals(distinct(topics)).items():
            refusal = RowRefusal(remark.partition(":")[0], remark)
            refused.update(dict.fromkeys(_rows(equals(topics, topic)), refusal))
        for row in _rows(~is_there(topics)):
            refused[row] = RowRefusal.of("TOPIC_NAME", "the topic is null")
        for row in _rows(body_sizes == 0):
            refused[row] = RowRefusal.of("BODY_EMPTY", "the message has no body")
        for row in _rows(body_sizes > limits.body_size_max):
            refused[row] = _too_large("BODY_SIZE", limits.body_size_max, int(body_sizes[row]))
        size_max = limits.properties_size_max - limits.own_properties_size
        owned = properties_size(properties, batch.num_rows)
        for row in _rows(owned > size_max):
            refused[row] = _too_large("PROPERTIES_SIZE", size_max, int(owned[row]))
        for row in _rows(twice):
            refused[row] = RowRefusal.of(
                "PROPERTY_TWICE", "properties have a name twice, or beside the column key or tag"
            )
        return refused

    def _unplain(
        self,
        batch: pa.RecordBatch,
        properties: Mapping[str, Column],
        unfit: Mapping[str, RowRefusal | None],
    ) -> Flags:
        """Rows whose properties, or topic, admission has to see."""
        unplain = starts_with(column_of(batch, "topic"), _SYSTEM_TOPICS)
        for name, values in properties.items():
            if unfit[name] is not None or name.startswith(_STEERING):
                unplain |= is_there(values)
            else:
                unplain |= matches(values, _CONTROLS)
        return unplain

    def _ask(
        self,
        batch: pa.RecordBatch,
        row: int,
        properties: Mapping[str, Column],
        moments: Moments,
        unfit: Mapping[str, RowRefusal | None],
    ) -> RowRefusal | int:
        """The decision of admission on a row: a refusal, or the moment, 0 for now."""
        request = moments.property_of(row)
        if request is None:
            return RowRefusal.of("MOMENT_MISSING", f"{self._columns.moment} is null")
        own = {
            name: str(value)
            for name, values in properties.items()
            if (value := value_at(values, row))
        }
        pairs = [*own.items(), (moments.request, request)]
        text = "".join(f"{name}\x01{value}\x02" for name, value in pairs)
        topic = str(value_at(column_of(batch, "topic"), row))
        admitted = self._admission.admit(Message(topic, 0, b"", text.encode()), self._job_ms)
        if isinstance(admitted, Refusal):
            return RowRefusal(admitted.rule, admitted.remark)
        for name in own:
            refusal = unfit[name]
            if refusal is not None:
                return refusal
            if name.startswith(_STEERING):
                return RowRefusal.of(
                    "MOMENT_TWICE", f"the property {name} asks for a moment beside the column"
                )
        return admitted.deliver_ms or 0


def timer_options(limits: BulkLimits, *, has_far: bool) -> TimerOptions:
    """The broker's settings as admission takes them."""
    delay_max_ms = FAR_DELAY_MAX_MS if has_far else limits.delay_max_ms
    return TimerOptions(
        timer_wheel_enable=limits.delay_max_ms > 0,
        timer_precision_ms=limits.precision_ms,
        timer_max_delay_sec=max(delay_max_ms // 1000, 1),
        message_delay_level=" ".join(f"{delay // 1000}s" for delay in limits.level_ms),
    )


def _name_refusal(name: str) -> RowRefusal | None:
    """Why a block cannot have a property of this name."""
    try:
        BulkBlock.of("T", _NOTHING, properties={name: _NOTHING}).encode()
    except BulkBlockError as error:
        return RowRefusal("BULK_BLOCK", error.remark)
    return None


def _too_large(rule: str, most: int, found: int) -> RowRefusal:
    return RowRefusal.of(rule, f"expected at most {most} bytes, found {found}")


def _rows(flags: Flags) -> list[int]:
    return np.flatnonzero(flags).tolist()


def _never_congested(_: int) -> bool:
    return False
