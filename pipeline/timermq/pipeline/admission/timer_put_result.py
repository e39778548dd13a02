"""What became of a message at the door of the timer service."""

from __future__ import annotations

import attrs
import msgspec
import numpy as np
from numpy.typing import NDArray

from timermq.timerstore.message_columns import StoredColumns
from timermq.timerstore.put_status import PutResult

from .admission import Admitted, Refusal


# A structure of msgspec's for the reason given at `Message`.
class TimerPutResult(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """What became of one message at the door."""

    result: PutResult
    deliver_ms: int | None = None
    """The moment asked for; None without a delay request."""
    out_ms: int | None = None
    """Slot time; None unless the message waits on the wheel."""
    by_level: bool = False
    rule: str | None = None
    """The rule that refused the message; None when admission let it in."""

    @property
    def is_timer(self) -> bool:
        """Whether the message waits on the wheel."""
        return self.out_ms is not None


@attrs.frozen(eq=False)
class TimerPutColumns:
    """What became of a run of messages: all of them are stored."""

    stored: StoredColumns
    out_ms: NDArray[np.int64] | None
    """Slot times; None unless the messages wait on the wheel."""


def accepted(admitted: Admitted, result: PutResult) -> TimerPutResult:
    """The result of a message that admission let in."""
    return TimerPutResult(
        result=result,
        deliver_ms=admitted.deliver_ms,
        out_ms=admitted.out_ms,
        by_level=admitted.by_level,
    )


def refused(refusal: Refusal, now_ms: int) -> TimerPutResult:
    """The result of one that it refused."""
    return TimerPutResult(
        result=PutResult(
            status=refusal.status,
            phy_offset=-1,
            size=0,
            queue_offset=-1,
            store_ms=now_ms,
            remark=refusal.remark,
        ),
        rule=refusal.rule,
    )
