"""Messages that were on their way to their topics when the clock was set back.

They are not due any more, and must not keep those behind them waiting, which may be due before. So
they step aside here until they are due again. Only what was between stages 3 and 5 can be here, a
few batches for each time that the clock is set; beyond a limit the stage waits instead (BOUNDED).

The mark that ends their slot waits with them: the read pointer must not pass what is not delivered.
"""

from __future__ import annotations

import attrs
import numpy as np
from numpy.typing import NDArray

from timermq.timerlog import MAGIC_ROLL
from timermq.timerstore.record_block import RecordBlock

from .sorted_runs import joined
from .timer_request import DeliverBatch, ReadMark, Requests

EARLY_SIZE_MAX = 16 << 20
"""Bytes of records."""


@attrs.define(eq=False)
class EarlyMessages:
    """The messages that stepped aside, in the order in which they are to appear."""

    mark: ReadMark | None = attrs.field(default=None, init=False)
    """The newest one that came behind them."""
    _held: DeliverBatch | None = attrs.field(default=None, init=False)

    def __bool__(self) -> bool:
        return self._held is not None

    @property
    def is_full(self) -> bool:
        """Whether no more may step aside."""
        return self._held is not None and len(self._held.block.data) >= EARLY_SIZE_MAX

    def first_ms(self) -> int:
        """When the first of them is due; there must be one."""
        assert self._held is not None
        return int(self._held.requests["deliver_ms"][0])

    def first_py(self) -> int | None:
        """Position of the oldest body of them; None: there is none."""
        return None if self._held is None else int(self._held.requests["offset_py"].min())

    def are_in(self, batch: DeliverBatch, now_ms: int) -> bool:
        """Whether a message of the batch is not due."""
        deliver_ms = batch.requests["deliver_ms"]
        return len(deliver_ms) > 0 and int(deliver_ms.max()) > now_ms

    def exchange(self, batch: DeliverBatch | None, now_ms: int) -> DeliverBatch | None:
        """Take a batch, and give what is due of it and of those held, in order; None: nothing."""
        batches = [one for one in (self._held, batch) if one is not None]
        requests = joined([one.requests for one in batches])
        records = [record for one in batches for record in one.block.records()]
        order: NDArray[np.intp] = np.lexsort((requests["order_py"], requests["deliver_ms"]))
        # A roll goes back to the wheel: it may at any time.
        is_due = (requests["deliver_ms"] <= now_ms) | ((requests["magic"] & MAGIC_ROLL) != 0)
        self._held = _part(requests, records, order[~is_due[order]])
        return _part(requests, records, order[is_due[order]])

    def take_mark(self) -> ReadMark | None:
        """The mark behind them, when none of them is left."""
        if self._held is not None:
            return None
        mark, self.mark = self.mark, None
        return mark


def _part(requests: Requests, records: list[bytes], rows: NDArray[np.intp]) -> DeliverBatch | None:
    if not len(rows):
        return None
    indexes: list[int] = rows.tolist()
    part: Requests = requests[rows]
    return DeliverBatch(requests=part, block=RecordBlock.of([records[index] for index in indexes]))
