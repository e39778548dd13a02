"""The content of cleaned segments, written down before it goes: the topics' messages, and a count.

No consumer may have come so far. The last reader would take for lost what had arrived and gone.
What was damaged has been written down before it was, and says nothing any more.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterator

import attrs

from timermq.client.history import Event
from timermq.pipeline.records.system_topics import TIMER_TOPIC
from timermq.timerstore.disk import Disk
from timermq.timerstore.record import Record

from .seen_messages import SeenMessages, place_of
from .segment_records import published, segment_records
from .staged.staged_message import LOST, first_id, name_of
from .steps import TOPICS

FAMILIES = {"commitlog": "segments of the log", "timerlog": "segments of the timer log"}


@attrs.define(kw_only=True)
class RemovedSegments:
    """The segments that were removed in one simulation."""

    root: str
    """The root directory of the store."""
    now_ms: Callable[[], int]
    tell: Callable[[Event], None]
    """Writes an event into the history."""
    seen: SeenMessages
    counts: Counter[str]
    """Counts the removed files, by the names in ``FAMILIES``."""
    damaged: Collection[int] = ()
    """Positions of records that were damaged, and told then as they had been."""

    def before_removal(self, disk: Disk, path: str) -> None:
        """A process is about to remove a file.

        Cleaning takes the oldest segment and never the last one; what recovery cuts off is newer.
        """
        directory, _, name = path.rpartition("/")
        family = FAMILIES.get(directory.removeprefix(f"{self.root}/"))
        if family is None or disk.list_dir(directory)[-1] == name:
            return
        if disk.list_dir(directory)[0] != name:
            return
        self.counts[f"{family} cleaned"] += 1
        if family == FAMILIES["commitlog"]:
            for record in _read(disk, path):
                if record.topic in TOPICS:
                    self._note(record)
                elif record.topic == TIMER_TOPIC and record.phy_offset not in self.damaged:
                    self._note_delete(record)

    def _note(self, record: Record) -> None:
        properties = record.properties_dict()
        if LOST in properties:
            # A repair has put it there: it tells of nothing, as it tells nothing to consumers.
            self.seen.fillers.add(place_of(record))
            return
        if record.phy_offset in self.damaged:
            return
        name = name_of(properties)
        self.tell(published(record, self.now_ms()))
        self.seen.forget((record.topic, name), (record.queue_id, record.queue_offset))

    def _note_delete(self, record: Record) -> None:
        """With a delete goes what it cancelled: a second request for that is not answered so."""
        cancelled_key = record.properties_dict().get("TIMER_DEL_UNIQKEY")
        if cancelled_key is not None:
            # Behind the topic, if the delete names one.
            self.seen.forgotten.add(first_id(cancelled_key.rpartition("+")[2]))


def _read(disk: Disk, path: str) -> Iterator[Record]:
    file = disk.open(path, read_only=True)
    data = file.read(0, file.size())
    file.close()
    return segment_records(data, int(path.rpartition("/")[2]))
