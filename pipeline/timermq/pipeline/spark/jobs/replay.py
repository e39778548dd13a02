"""``replay``: a time range of an archive once more, moved in time.

An archive is a table with the columns of ``timermq.delivered``, as ``archive`` writes it: Parquet
by date and topic. Messages keep their distances: each is due as long after the new beginning as it
was due after the old one. Bodies that producers have compressed go unpacked.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from timermq.timerstore.body_codec import UNPACKED_SIZE_MAX, unpacked
from timermq.timerstore.message import SysFlag
from timermq.timerstore.record_spans import RecordError

from ..errors import SparkJobError

NEEDED = ("topic", "body", "properties", "deliver_ms", "stored_ms")
OWN_NAMES = (
    "UNIQ_KEY",
    "DELAY",
    "REAL_TOPIC",
    "REAL_QID",
    "MSG_REGION",
    "TRACE_ON",
    "CLUSTER",
    "WAIT",
    "INNER_NUM",
    "TRAN_MSG",
)
"""Properties of the first life of a message; it gets new ones. So do all that begin TIMER_."""
_SEPARATORS = ("\x01", "\x02")


def replayed(
    archive: DataFrame,
    *,
    from_ms: int,
    to_ms: int,
    shift_ms: int,
    topics: Sequence[str] = (),
) -> DataFrame:
    """Rows for the sink of the messages that were due in a range.

    Args:
        archive: With the columns ``NEEDED``.
        from_ms: First moment, epoch milliseconds. A message that asked for none counts by the
            moment at which it was stored.
        to_ms: The moment behind the last one.
        shift_ms: Added to each moment.
        topics: Only these; none for all.

    Raises:
        SparkJobError: The table is no archive; when it is read, also that a body does not unpack.
    """
    for name in NEEDED:
        if name not in archive.columns:
            raise SparkJobError(
                f"archive: column {name}: expected the columns of timermq.delivered, found "
                f"{', '.join(archive.columns)}"
            )
    moment = F.coalesce(archive.deliver_ms, archive.stored_ms)
    chosen = archive.where((moment >= from_ms) & (moment < to_ms))
    if topics:
        chosen = chosen.where(archive.topic.isin(*topics))
    name, value = _SEPARATORS
    pieces = F.split(archive.properties.cast("string"), value)
    pairs = F.transform(
        F.filter(pieces, lambda piece: ~_is_own(F.substring_index(piece, name, 1))),
        lambda piece: F.struct(
            F.substring_index(piece, name, 1).alias("key"),
            F.substring_index(piece, name, -1).alias("value"),
        ),
    )
    body = archive.body
    if "sys_flag" in archive.columns:
        # Bodies that are as they were sent do not go through Python.
        packed = F.when(archive.sys_flag.bitwiseAND(int(SysFlag.COMPRESSED)) != 0, body)
        unpack = F.udf(_unpacked, "binary", useArrow=False)
        body = F.coalesce(unpack(packed, archive.sys_flag, archive.stored_ms), body).alias("body")
    return chosen.select(
        archive.topic,
        body,
        (moment + shift_ms).alias("deliver_at"),
        F.map_from_entries(pairs).alias("properties"),
    )


def replay_name(
    archive: str, from_ms: int, to_ms: int, shift_ms: int, *, topics: Sequence[str]
) -> str:
    """A name for a job that replays the same messages to the same moments."""
    said = repr((archive.rstrip("/"), from_ms, to_ms, shift_ms, sorted(topics)))
    return f"replay-{hashlib.blake2b(said.encode(), digest_size=10).hexdigest()}"


def _unpacked(body: bytes | None, sys_flag: int, stored_ms: int) -> bytes | None:
    """A body as its producer wrote it; None for None."""
    if body is None:
        return None
    try:
        place = f"archive: message stored at {stored_ms}"
        return unpacked(bytes(body), sys_flag, place, size_max=UNPACKED_SIZE_MAX)
    except RecordError as error:
        raise SparkJobError(str(error)) from None


def _is_own(name: Column) -> Column:
    """Whether a property is none that the producer gave, or no property at all."""
    return (name == "") | name.isin(*OWN_NAMES) | name.startswith("TIMER_")
