"""The messages that RocketMQ left waiting for classic levels, as ``timermq.pending`` has them.

Which of them still wait, and until when, is decided where work is cut, as the next start decides it
(``level_outlook``): a delivery behind the offsets answers for one message alone, whichever task
would read it. Tasks get places and moments, and read the rest from the records.

Of a store that is served there are none: its broker has taken them over.
"""

from __future__ import annotations

from collections.abc import Iterator

import attrs
import numpy as np

from timermq.pipeline.offline_store import open_offline
from timermq.timerstore.array_types import Places
from timermq.timerstore.os_disk import OsDisk
from timermq.timerstore.properties import REAL_QID_NAME, REAL_TOPIC_NAME

from ..levels.level_outlook import level_outlooks
from ..records.destination import QUEUE_ID_DIGITS_MAX
from .byte_arrays import distinct, numbers_in
from .record_chunks import RecordChunk
from .record_gathering import gathered
from .store_view import LogView, StoreView
from .timer_arrays import TimerArrays

MESSAGES_PER_SPAN = 100_000


@attrs.frozen(eq=False, kw_only=True)
class LevelSpan:
    """Messages that move to the wheel with the next start."""

    log: LogView
    positions: Places
    sizes: Places
    deliver_ms: Places

    def chunks(self) -> Iterator[tuple[RecordChunk, TimerArrays]]:
        """Their records, and what they ask for.

        Raises:
            SparkJobError: The store was cleaned meanwhile.
        """
        for chunk, rows in gathered(self.log, self.positions, self.sizes):
            yield chunk, _timers(chunk, self.deliver_ms[rows])


def level_spans(view: StoreView) -> list[LevelSpan]:
    """The messages of classic levels in pieces, those that are due first in front.

    Args:
        view: The store.

    Raises:
        StoreError: It is damaged.
    """
    if not view.levels_left:
        return []
    with open_offline(OsDisk(), view.root, view.store_options, view.timer_options) as offline:
        places = [
            (one.phy_offset, one.size, one.deliver_ms)
            for one in level_outlooks(offline.store, offline.timer_options)
            if one.message is not None
        ]
    columns = np.array(places, np.int64).reshape(-1, 3).T
    cuts = np.arange(MESSAGES_PER_SPAN, len(places), MESSAGES_PER_SPAN)
    pieces = zip(*(np.split(column, cuts) for column in columns), strict=True)
    return [
        LevelSpan(log=view.log, positions=positions, sizes=sizes, deliver_ms=deliver_ms)
        for positions, sizes, deliver_ms in pieces
        if len(positions)
    ]


def _timers(chunk: RecordChunk, deliver_ms: Places) -> TimerArrays:
    """Topics and queues, which were looked at where work was cut."""
    topics, topic_of = distinct(chunk.found.value(REAL_TOPIC_NAME))
    queue_id, _ = numbers_in(chunk.found.value(REAL_QID_NAME), QUEUE_ID_DIGITS_MAX)
    none = np.zeros(len(chunk), np.int64)
    return TimerArrays(
        deliver_ms=deliver_ms,
        out_ms=none,
        names=[*(topic.decode("utf-8", "replace") for topic in topics), ""],
        topic_of=topic_of,
        queue_id=queue_id,
        order_py=chunk.heads["phy_offset"].astype(np.int64),
        rolls=none,
        is_delete=np.zeros(len(chunk), np.bool_),
        faults={},
    )
