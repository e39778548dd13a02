"""The rows of a block as the store takes them: runs as columns, and single messages.

Rows whose properties have the same sizes differ in letters and digits alone: they are a run, which
is admitted and stored together, through ``RunAdmission``. A row fits into no run if its moment is
past or too far, if it has control characters, or if too few rows are like it. It becomes a single
message, which the admission routine checks as any other. Only rows that no message can be made of
are refused here.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import attrs
import numpy as np
from numpy.typing import NDArray

from timermq.pipeline.admission.run_request import OWN_PROPERTIES_SIZE_MAX
from timermq.pipeline.records.timer_properties import DELIVER
from timermq.pipeline.records.timer_record import MS_DIGITS
from timermq.remoting.bulk_block import ANY_QUEUE, BulkBlock, BulkColumn
from timermq.timerstore.array_types import Rows
from timermq.timerstore.byte_columns import Pieces, digit_counts, digits_of, joined_rows
from timermq.timerstore.message import Message
from timermq.timerstore.message_columns import MessageColumns
from timermq.timerstore.properties import UNIQ_KEY

from .bulk_topics import TopicQueues

BATCH_ROWS_MAX = 512
"""Rows stored together, between two turns of everything else: some 3 ms."""
BATCH_SIZE_MAX = 1 << 20
"""… and bytes of their bodies, but for the first."""
RUN_COUNT_MIN = 16
"""Rows of a run; fewer are cheaper one by one."""
TAG_SIZE = 16
"""Bytes of the tag of a job."""
ROW_DIGITS = 16
"""Digits of a row in its unique key, behind the tag of the job."""
_THIRTEEN_DIGITS_MIN = 10 ** (MS_DIGITS - 1)
_CONTROLS = bytes(range(0x20)) + b"\x7f"

Numbers = NDArray[np.int64]


@attrs.frozen(eq=False, kw_only=True)
class RowsOrigin:
    """Values that all rows of a block share, beside the block."""

    tag: bytes
    """How the unique keys of the job begin."""
    first: int
    """Number of the first row in the job."""
    job_ms: int
    born_host: bytes
    own: bytes
    """The broker's properties, which every message gets."""
    own_names: frozenset[str]
    """Names that a message sets in vain, as in every send."""
    queues: TopicQueues
    body_size_max: int


class BlockRows:
    """The rows of one block.

    Args:
        block: The block.
        origin: Of the block.
    """

    def __init__(self, block: BulkBlock, origin: RowsOrigin) -> None:
        self._block = block
        self._origin = origin
        rows = np.arange(len(block), dtype=np.int64)
        self._ordinals = origin.first + rows
        self._queue_ids = np.where(
            block.queue_ids == ANY_QUEUE, self._ordinals % origin.queues.turns, block.queue_ids
        ).astype(np.int64)
        self._bodies = _pieces(block.bodies)
        self._values = {
            name.encode(): _pieces(values)
            for name, values in block.properties.items()
            if name not in origin.own_names
        }

    def faults(self) -> dict[int, tuple[str, str]]:
        """Rows that no message can be made of: rule and remark."""
        found: dict[int, tuple[str, str]] = {}
        count = self._origin.queues.count
        wrong = (self._queue_ids < 0) | (self._queue_ids >= count)
        for row in np.flatnonzero(wrong).tolist():
            text = f"expected -1 to {count - 1}, found {self._queue_ids[row]}"
            found[row] = ("QUEUE_ID", f"QUEUE_ID: topic {self._block.topic}: {text}")
        size_max = self._origin.body_size_max
        for row in np.flatnonzero(self._bodies.sizes > size_max).tolist():
            text = f"expected at most {size_max} bytes, found {self._bodies.sizes[row]}"
            found[row] = ("BODY_SIZE", f"BODY_SIZE: {text}")
        for name, values in self._values.items():
            if b"\x01" not in values.data and b"\x02" not in values.data:
                continue
            for row, value in enumerate(values.each()):
                if b"\x01" in value or b"\x02" in value:
                    text = f"property {name.decode()!a}: expected no 0x01 and no 0x02"
                    found[row] = ("PROPERTY_TEXT", f"PROPERTY_TEXT: {text}, found {value[:48]!r}")
        return found

    def runs(self, rows: Numbers, *, now_ms: int, latest_ms: int) -> tuple[list[Numbers], Numbers]:
        """Sort rows: runs, each for ``columns``, and the rest, for ``messages``.

        Args:
            rows: Numbers in the block, none of them at fault.
            now_ms: Wall clock.
            latest_ms: The last moment that may be asked for.
        """
        fit = self._fit_run(rows, now_ms, latest_ms)
        single = [rows[~fit]]
        rows, groups = rows[fit], list[Numbers]()
        for group in _same_form(rows, self._forms(rows)):
            if len(group) < RUN_COUNT_MIN:
                single.append(group)
            else:
                groups += self._batches(group)
        return groups, np.sort(np.concatenate(single))

    def _fit_run(self, rows: Numbers, now_ms: int, latest_ms: int) -> NDArray[np.bool_]:
        moments = self._block.deliver_ms[rows]
        sizes = np.full(len(rows), own_size(self._origin.own), np.int64)
        fit = (moments > max(now_ms, _THIRTEEN_DIGITS_MIN - 1)) & (moments <= latest_ms)
        for name, values in self._values.items():
            if len(values.data.translate(None, _CONTROLS)) != len(values.data):
                fit[:] = False
            sizes += values.sizes[rows] + len(name) + 2
        return np.asarray(fit & (sizes <= OWN_PROPERTIES_SIZE_MAX), np.bool_)

    def _forms(self, rows: Numbers) -> Iterator[Numbers]:
        """The lengths that all rows of a run share, a column each."""
        for values in self._values.values():
            yield values.sizes[rows]
        yield digit_counts(self._queue_ids[rows])

    def _batches(self, rows: Numbers) -> Iterator[Numbers]:
        ends = np.cumsum(self._bodies.sizes[rows])
        first = 0
        while first < len(rows):
            start = int(ends[first - 1]) if first else 0
            last = int(np.searchsorted(ends, start + BATCH_SIZE_MAX, side="right"))
            last = min(max(last, first + 1), first + BATCH_ROWS_MAX)
            yield rows[first:last]
            first = last

    def columns(self, rows: Numbers) -> MessageColumns:
        """The messages of a run."""
        pieces: list[bytes | Rows] = [
            DELIVER,
            digits_of(self._block.deliver_ms[rows], MS_DIGITS),
            b"\x02",
        ]
        for name, values in self._values.items():
            found = _of(values, rows).rows
            if found is not None:
                pieces += name + b"\x01", found, b"\x02"
        pieces += UNIQ_KEY + self._origin.tag, digits_of(self._ordinals[rows], ROW_DIGITS), b"\x02"
        pieces.append(self._origin.own)
        properties = joined_rows(len(rows), pieces)
        bodies, queue_ids = _of(self._bodies, rows), self._queue_ids[rows]
        return MessageColumns(
            first=self._message(
                int(queue_ids[0]),
                bodies.data[int(bodies.starts[0]) : int(bodies.ends[0])],
                properties[0].tobytes(),
            ),
            queue_ids=queue_ids,
            bodies=bodies,
            properties=properties,
            born_ms=np.full(len(rows), self._origin.job_ms, np.int64),
        )

    def messages(self, rows: Numbers) -> list[Message]:
        """Rows as single messages, in their order."""
        moments, bodies = self._block.deliver_ms[rows].tolist(), _of(self._bodies, rows).each()
        values = {name: _of(one, rows).each() for name, one in self._values.items()}
        made: list[Message] = []
        for at, (ordinal, queue_id) in enumerate(
            zip(self._ordinals[rows].tolist(), self._queue_ids[rows].tolist(), strict=True)
        ):
            pieces = [b"%b%d\x02" % (DELIVER, moments[at])] if moments[at] else []
            pieces += [b"%b\x01%b\x02" % (name, one[at]) for name, one in values.items() if one[at]]
            key = b"%b%b%0*d\x02" % (UNIQ_KEY, self._origin.tag, ROW_DIGITS, ordinal)
            made.append(
                self._message(queue_id, bodies[at], b"".join((*pieces, key, self._origin.own)))
            )
        return made

    def _message(self, queue_id: int, body: bytes, properties: bytes) -> Message:
        return Message(
            self._block.topic,
            queue_id,
            body,
            properties,
            born_ms=self._origin.job_ms,
            born_host=self._origin.born_host,
        )


def own_size(own: bytes) -> int:
    """Bytes of properties that every row with a moment gets: moment, unique key, the broker's."""
    return len(DELIVER) + MS_DIGITS + len(UNIQ_KEY) + TAG_SIZE + ROW_DIGITS + 2 + len(own)


def row_in(unique_key: bytes, tag: bytes) -> int | None:
    """The row of the job with this tag that a unique key names; None if it is none of its."""
    digits = unique_key[len(tag) :]
    is_ours = unique_key.startswith(tag) and len(digits) == ROW_DIGITS and digits.isdigit()
    return int(digits) if is_ours else None


def _pieces(column: BulkColumn) -> Pieces:
    ends = np.cumsum(column.sizes, dtype=np.int64)
    return Pieces(bytes(column.data), ends - column.sizes, ends)


def _of(pieces: Pieces, rows: Numbers) -> Pieces:
    return Pieces(pieces.data, pieces.starts[rows], pieces.ends[rows])


def _same_form(rows: Numbers, forms: Iterator[Numbers]) -> Sequence[Numbers]:
    """Rows that are the same in all columns of ``forms``, in groups; each in order."""
    if not len(rows):
        return ()
    form = np.zeros(len(rows), np.int64)
    for column in forms:
        width = int(column.max()) + 1
        if int(column.min()) + 1 < width:
            # Made small again after each column: any number of them fits 64 bits.
            form = np.unique(form * width + column, return_inverse=True)[1].astype(np.int64)
    if not form.any():
        return (rows,)
    order = np.argsort(form, kind="stable")
    return np.split(rows[order], np.flatnonzero(np.diff(form[order])) + 1)
