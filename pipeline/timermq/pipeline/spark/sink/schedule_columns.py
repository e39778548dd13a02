"""The columns that a DataFrame for the sink has, compared before anything is sent.

====================  ===========================  ================================================
column                types                        meaning
====================  ===========================  ================================================
``topic``             string                       where the message goes
``body``              binary, string               its bytes; a string as UTF-8
``deliver_at``        long, timestamp, string      the moment: epoch milliseconds, or ISO 8601
                                                   with an offset
``delay``             interval of days to seconds  or: how long after the moment of the job
``delay_ms``          long, int, string            or: milliseconds from that moment
``level``             int, long, string            or: one of the broker's delay levels
``key``               string                       optional: KEYS, divided by blanks
``tag``               string                       optional: TAGS
``properties``        map<string,string>           optional; a null value is no property
====================  ===========================  ================================================

Exactly one of ``deliver_at``, ``delay``, ``delay_ms`` and ``level`` is there. A moment that is past
is now.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import attrs
import pyarrow as pa

from ..errors import SparkJobError
from ..tables.declaration import ARROW
from .sink_options import NAME

MOMENTS = ("deliver_at", "delay", "delay_ms", "level")
"""The columns that say when; one of them."""
INTERVAL = "interval day to second"
"""Spark's name for a span of time; of one with fewer fields too, here."""
_NAMES = {"bigint": "long"}
_FIELDS = ("day", "hour", "minute", "second")
_TYPES: Mapping[str, tuple[str, ...]] = {
    "topic": ("string",),
    "body": ("binary", "string"),
    "deliver_at": ("long", "timestamp", "string"),
    "delay": (INTERVAL,),
    "delay_ms": ("long", "int", "string"),
    "level": ("int", "long", "string"),
    "key": ("string",),
    "tag": ("string",),
    "properties": ("map<string,string>",),
}


_ARROW: Mapping[str, pa.DataType] = ARROW | {
    "timestamp": pa.timestamp("us", tz="UTC"),
    INTERVAL: pa.duration("us"),
    "map<string,string>": pa.map_(pa.string(), pa.string()),
}


@attrs.frozen
class ScheduleColumns:
    """Which of the columns there are."""

    kinds: Mapping[str, pa.DataType]
    """Types of the columns, by name."""

    @property
    def moment(self) -> str:
        """The column that tells the moment: one of ``MOMENTS``."""
        return next(name for name in MOMENTS if name in self.kinds)

    @property
    def has_key(self) -> bool:
        """Whether rows may have KEYS."""
        return "key" in self.kinds

    @property
    def has_tag(self) -> bool:
        """Whether rows may have TAGS."""
        return "tag" in self.kinds

    @property
    def has_properties(self) -> bool:
        """Whether rows may have further properties."""
        return "properties" in self.kinds

    @classmethod
    def of(cls, found: Iterable[tuple[str, str]]) -> ScheduleColumns:
        """Compare names and Spark types of a DataFrame with the table above.

        Raises:
            SparkJobError: A column is missing, unknown, or of another type.
        """
        kinds: dict[str, pa.DataType] = {}
        for name, type_name in found:
            if name not in _TYPES:
                raise _wrong(name, f"one of {', '.join(_TYPES)}", "an unknown one")
            found_type = INTERVAL if _is_span(type_name) else _NAMES.get(type_name, type_name)
            if found_type not in _TYPES[name]:
                raise _wrong(name, " or ".join(_TYPES[name]), found_type)
            if name in kinds:
                raise _wrong(name, "it once", "it twice")
            kinds[name] = _ARROW[found_type]
        for name in ("topic", "body"):
            if name not in kinds:
                raise _wrong(name, _TYPES[name][0], "no such column")
        moments = [name for name in MOMENTS if name in kinds]
        if len(moments) != 1:
            raise SparkJobError(
                f"{NAME}: columns {', '.join(MOMENTS)}: expected one of them, found "
                f"{' and '.join(moments) or 'none'}"
            )
        return cls(kinds)


def _is_span(type_name: str) -> bool:
    """Whether a type of Spark is an interval without months, whose length is not known."""
    word, _, fields = type_name.partition(" ")
    return word == "interval" and all(one in _FIELDS for one in fields.split(" to "))


def _wrong(name: str, expected: str, found: str) -> SparkJobError:
    return SparkJobError(f"{NAME}: column {name}: expected {expected}, found {found}")
