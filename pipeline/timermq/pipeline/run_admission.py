"""Admission of a run: its messages are admitted and stored together, with moments as a column.

No rule stands here. What ``run_request`` finds in the first message holds for all, because the
messages differ in letters and digits of values alone. Unless every moment lets its message in, each
message goes through ``admission`` by itself.
"""

from __future__ import annotations

import attrs
import numpy as np
from msgspec import structs
from numpy.typing import NDArray

from timermq.timerstore.array_types import Rows
from timermq.timerstore.byte_columns import digits_of, numbers_in, rows_like
from timermq.timerstore.message_columns import MessageColumns, StoredColumns

from .admission.admission import Admitted, TimerPutColumns, TimerPutResult, accepted
from .admission.run_request import TIMER, breaks_run, fit_run, request_at
from .records.timer_properties import DELIVER
from .records.timer_record import MS_DIGITS, OUT_SIZE, TIMER_TOPIC, timer_tail
from .timer_message_store import TimerMessageStore

DIGITS_MAX = 15
"""Numbers of so many digits are no overflow, even as seconds."""


@attrs.frozen(eq=False, kw_only=True)
class AdmittedColumns:
    """A run that may be stored: ``Admitted`` as columns."""

    columns: MessageColumns
    deliver_ms: NDArray[np.int64] | None = None
    """The moments asked for; None for messages without a delay request."""
    out_ms: NDArray[np.int64] | None = None
    """Slot times; None unless the messages go on the wheel."""

    def each(self) -> list[Admitted]:
        """The messages one by one."""
        messages = self.columns.messages()
        if self.deliver_ms is None or self.out_ms is None:
            return [Admitted(message=message) for message in messages]
        moments = zip(self.deliver_ms.tolist(), self.out_ms.tolist(), strict=True)
        return [
            Admitted(message=message, deliver_ms=deliver_ms, out_ms=out_ms)
            for message, (deliver_ms, out_ms) in zip(messages, moments, strict=True)
        ]


class RunAdmission:
    """Admits runs and stores them.

    Args:
        timer_store: Where messages go. It decides on each of them when a run is not admitted whole.
    """

    def __init__(self, timer_store: TimerMessageStore) -> None:
        self._timer_store = timer_store
        self._admission = timer_store.admission
        self._options = timer_store.options

    def put(self, columns: MessageColumns) -> TimerPutColumns | list[TimerPutResult]:
        """Store a run, each message now or for its moment, as ``TimerMessageStore.put`` would.

        Returns:
            Where all messages stand; or one result a message, if they were put one by one.
        """
        timer_store, now_ms = self._timer_store, self._timer_store.clock.now_ms()
        admitted = self.admit(columns, now_ms)
        if admitted is None:
            return timer_store.put(columns.messages())
        if admitted.deliver_ms is not None:
            timer_store.state.expect(int(admitted.deliver_ms.min()), now_ms)
        stored = timer_store.store.put_columns(admitted.columns)
        if isinstance(stored, StoredColumns):
            return TimerPutColumns(stored, admitted.out_ms)
        return [accepted(one, result) for one, result in zip(admitted.each(), stored, strict=True)]

    def admit(self, columns: MessageColumns, now_ms: int) -> AdmittedColumns | None:
        """The decision of the admission routine on each message, if it lets all of them in.

        Returns:
            None when it may decide otherwise; nothing is counted then.
        """
        first, rows = columns.first, columns.properties
        text, latest_ms = first.properties, self._admission.latest_ms(now_ms)
        if not fit_run([text]) or breaks_run(first):
            return None
        at = text.find(TIMER)
        if at < 0:
            return AdmittedColumns(columns=columns)
        request = request_at(text, at)
        if request is None:
            return None
        mark, end, unit_ms = request
        asked = numbers_in(rows[:, mark:end]) if end - mark <= DIGITS_MAX else None
        if asked is None:
            return None
        deliver_ms = now_ms + asked * unit_ms if unit_ms else asked
        if not now_ms < int(deliver_ms.min()) <= int(deliver_ms.max()) <= latest_ms:
            return None
        precision_ms = self._options.timer_precision_ms
        out_ms = (deliver_ms - 1) // precision_ms * precision_ms
        tails = _tails(deliver_ms, out_ms, first.topic, columns.queue_ids)
        if tails is None or not self._timer_store.flow.takes_all(out_ms.tolist()):
            return None
        self._admission.counts.timers += len(columns)
        # An absolute moment is stated again, in the tail.
        own = (rows,) if unit_ms else (rows[:, :at], rows[:, end + 1 :])
        properties = np.concatenate((*own, tails), axis=1)
        redirected = attrs.evolve(
            columns,
            first=structs.replace(
                first, topic=TIMER_TOPIC, queue_id=0, properties=properties[0].tobytes()
            ),
            queue_ids=np.zeros_like(columns.queue_ids),
            properties=properties,
        )
        return AdmittedColumns(columns=redirected, deliver_ms=deliver_ms, out_ms=out_ms)


def _tails(
    deliver_ms: NDArray[np.int64],
    out_ms: NDArray[np.int64],
    topic: str,
    queue_ids: NDArray[np.int64],
) -> Rows | None:
    """``timer_tail`` of many messages that were never rolled, as rows.

    Returns:
        None when the queues have not the same number of digits.
    """
    tail = timer_tail(
        deliver_ms=int(deliver_ms[0]),
        out_ms=int(out_ms[0]),
        topic=topic,
        queue_id=int(queue_ids[0]),
    )
    first, last = int(queue_ids.min()), int(queue_ids.max())
    digits = len(str(first))
    if digits != len(str(last)):
        return None
    places = [(len(DELIVER), deliver_ms), (len(tail) - MS_DIGITS - 1, out_ms)]
    columns = [(at, digits_of(moments, MS_DIGITS)) for at, moments in places]
    if first != last:
        columns.append((len(tail) - OUT_SIZE - 1 - digits, digits_of(queue_ids, digits)))
    return rows_like(tail, len(deliver_ms), columns)
