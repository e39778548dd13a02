"""Which half messages are taken: those that can be renewed, committed and put aside afterwards.

Each check makes the properties of a half message longer, and a wheel needs room for its own when a
message asks for a moment at its commit. What has no such room is refused while its producer is
there to be told, under the same rule as a timer.
"""

from __future__ import annotations

from timermq.pipeline.admission.admission import Refusal
from timermq.pipeline.admission.usual_request import OWN_PROPERTIES_SIZE_MAX
from timermq.pipeline.records.timer_properties import REQUEST_NAMES
from timermq.timerstore.message import Message
from timermq.timerstore.properties import PROPERTIES_SIZE_MAX, find
from timermq.timerstore.put_status import PutStatus

from .half_message import RENEWAL_SIZE_MAX

HALF_PROPERTIES_SIZE_MAX = PROPERTIES_SIZE_MAX - RENEWAL_SIZE_MAX
"""Bytes of the properties of a half message, with its real topic, queue and id."""
DELAYED_PROPERTIES_SIZE_MAX = min(HALF_PROPERTIES_SIZE_MAX, OWN_PROPERTIES_SIZE_MAX)
"""The same of one that asks for a moment; a commit only takes properties away."""


def size_refusal(half: Message) -> Refusal | None:
    """Why a half message is not taken for its properties; None when it is.

    Args:
        half: What `half_message.parked` made.
    """
    size = len(half.properties)
    if size <= DELAYED_PROPERTIES_SIZE_MAX:
        return None
    is_delayed = any(find(half.properties, key) is not None for key in REQUEST_NAMES)
    size_max = DELAYED_PROPERTIES_SIZE_MAX if is_delayed else HALF_PROPERTIES_SIZE_MAX
    if size <= size_max:
        return None
    return Refusal(
        status=PutStatus.PROPERTIES_SIZE_EXCEEDED,
        rule="PROPERTIES_SIZE",
        remark=f"PROPERTIES_SIZE: expected at most {size_max} bytes on a half message, with those "
        f"of the broker, found {size}",
    )
