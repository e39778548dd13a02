"""The columns that a DataFrame for the sink has, compared before anything is sent.

====================  ===========================  ================================================
column                types                        meaning
====================  ===========================  ================================================
``topic``             string                       where the message goes
``body``              binary, string               its bytes; a string as UTF-8
``deliver_at``        long, timestamp, string      the moment: epoch milliseconds, or ISO 8601
                                                   with an offset
``delay_ms``          long, int, string            or: milliseconds from the moment of the job
``level``             int, long, string            or: one of the broker's delay levels
``key``               string                       optional: KEYS, divided by blanks
``tag``               string                       optional: TAGS
``properties``        map<string,string>           optional; a null value is no property
====================  ===========================  ================================================

Exactly one of ``deliver_at``, ``delay_ms`` and ``level`` is there. A moment that is past is now.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import attrs

from ..errors import SparkJobError
from .sink_options import NAME

MOMENTS = ("deliver_at", "delay_ms", "level")
"""The columns that say when; one of them."""
_NAMES = {"bigint": "long"}
_TYPES: Mapping[str, tuple[str, ...]] = {
    "topic": ("string",),
    "body": ("binary", "string"),
    "deliver_at": ("long", "timestamp", "string"),
    "delay_ms": ("long", "int", "string"),
    "level": ("int", "long", "string"),
    "key": ("string",),
    "tag": ("string",),
    "properties": ("map<string,string>",),
}


@attrs.frozen
class ScheduleColumns:
    """Which of the columns there are."""

    moment: str
    """The one of ``MOMENTS``."""
    has_key: bool
    has_tag: bool
    has_properties: bool

    @classmethod
    def of(cls, found: Iterable[tuple[str, str]]) -> ScheduleColumns:
        """Compare names and Spark types of a DataFrame with the table above.

        Raises:
            SparkJobError: A column is missing, unknown, or of another type.
        """
        names: list[str] = []
        for name, type_name in found:
            if name not in _TYPES:
                raise _wrong(name, f"one of {', '.join(_TYPES)}", "an unknown one")
            found_type = _NAMES.get(type_name, type_name)
            if found_type not in _TYPES[name]:
                raise _wrong(name, " or ".join(_TYPES[name]), found_type)
            if name in names:
                raise _wrong(name, "it once", "it twice")
            names.append(name)
        for name in ("topic", "body"):
            if name not in names:
                raise _wrong(name, _TYPES[name][0], "no such column")
        moments = [name for name in MOMENTS if name in names]
        if len(moments) != 1:
            raise SparkJobError(
                f"{NAME}: columns {', '.join(MOMENTS)}: expected one of them, found "
                f"{' and '.join(moments) or 'none'}"
            )
        return cls(moments[0], "key" in names, "tag" in names, "properties" in names)


def _wrong(name: str, expected: str, found: str) -> SparkJobError:
    return SparkJobError(f"{NAME}: column {name}: expected {expected}, found {found}")
