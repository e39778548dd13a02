"""The moments of many rows: columns that say when, made into epoch milliseconds.

No rule stands here. A row whose moment is not plainly one that is let in is *unsure*, and goes to
admission as the request that a producer would have written (``TIMER_DELIVER_MS`` and so on).
"""

from __future__ import annotations

from collections.abc import Sequence

import attrs
import numpy as np
import pyarrow as pa

from timermq.timerstore.array_types import Flags
from timermq.timerstore.number_text import NUMBER_DIGITS_MAX

from ..moment_text import ISO, iso_ms
from .arrow_columns import (
    Column,
    Times,
    array_of,
    cast,
    first_there,
    integers,
    is_there,
    masked,
    matches,
    value_at,
    values_of,
    where,
)

REQUESTS = {
    "deliver_at": "TIMER_DELIVER_MS",
    "delay": "TIMER_DELAY_MS",
    "delay_ms": "TIMER_DELAY_MS",
    "level": "DELAY",
}
"""Column to the property that asks for the same."""
_US = 1000
"""Microseconds in a millisecond."""
_SAFE_MAX = 1 << 62
"""Numbers below it may be added to a moment; what is larger is decided with Python's integers."""
_DIGITS = rf"^[0-9]{{1,{NUMBER_DIGITS_MAX}}}$"


@attrs.frozen(eq=False, kw_only=True)
class Moments:
    """A column of ``MOMENTS``, row by row."""

    deliver_ms: Times
    """Right where the row is not unsure."""
    unsure: Flags
    """Null, past, far, negative, or no number."""
    asked: Column
    """The requested values: a number of milliseconds or a level, or a text; null for none."""
    request: str
    """Name of the property that asks so."""

    def property_of(self, row: int) -> str | None:
        """The value of the request of a row; None when it asks for nothing."""
        value = value_at(self.asked, row)
        return None if value is None else str(value)


def moments_of(
    column: str, array: Column, *, job_ms: int, latest_ms: int, level_ms: Sequence[int]
) -> Moments:
    """Read a column.

    Args:
        column: Its name.
        array: As Spark hands it over.
        job_ms: From when delays count.
        latest_ms: The last moment that may be asked for, other than by a level.
        level_ms: The broker's levels, level 1 first.
    """
    asked = _asked(column, array)
    numbers, is_number = _numbers(asked)
    if column == "level":
        delays = np.array([0, *level_ms], np.int64)
        known = is_number & (numbers > 0) & (numbers < len(delays))
        deliver_ms = job_ms + delays[np.where(known, numbers, 0)]
        return Moments(deliver_ms=deliver_ms, unsure=~known, asked=asked, request=REQUESTS[column])
    safe = is_number & (numbers >= 0) & (numbers < _SAFE_MAX)
    deliver_ms = np.where(safe, numbers, 0)
    if column in ("delay", "delay_ms"):
        deliver_ms = deliver_ms + job_ms
    sure = safe & (deliver_ms > job_ms) & (deliver_ms <= latest_ms)
    return Moments(deliver_ms=deliver_ms, unsure=~sure, asked=asked, request=REQUESTS[column])


def _asked(column: str, array: Column) -> Column:
    """Milliseconds for moments of whatever form, and what is none as it is."""
    if pa.types.is_timestamp(array.type):
        return _ms_of(array)
    if pa.types.is_integer(array.type):
        return cast(array, pa.int64())
    if pa.types.is_duration(array.type):
        micros = cast(array, pa.int64())
        return masked(-(-integers(micros) // _US), is_there(micros))
    is_iso = matches(array, ISO) if column == "deliver_at" else np.zeros(len(array), np.bool_)
    if not is_iso.any():
        return array
    return first_there(cast(_iso_ms(where(is_iso, array)), pa.string()), array)


def _iso_ms(texts: Column) -> Column:
    """ISO 8601 with an offset in milliseconds; null for a date that there is not."""
    try:
        return _ms_of(texts)
    except pa.ArrowInvalid:
        return array_of([iso_ms(text) for text in values_of(texts)], pa.int64())


def _ms_of(moments: Column) -> Column:
    """Timestamps, or their texts, rounded up: never before the moment that was asked for."""
    micros = cast(cast(moments, pa.timestamp("us", tz="UTC")), pa.int64())
    return masked(-(-integers(micros) // _US), is_there(micros))


def _numbers(asked: Column) -> tuple[Times, Flags]:
    """Values, and whether there is one."""
    if pa.types.is_string(asked.type):
        asked = cast(where(matches(asked, _DIGITS), asked), pa.int64())
    return integers(asked), is_there(asked)
