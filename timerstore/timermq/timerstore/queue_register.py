"""``config/consumeQueues.json``: what the log and the queues held when the store was last closed.

A file of ours beside RocketMQ's, so that what goes missing while the store is closed is noticed:
a log that ends earlier than it did is damaged, a queue that is shorter or gone is made again. Where
a queue ends that is about to be made again is noted too, should the process end in between.
When queues are made again, the records of a deleted topic, which the log keeps until it is
cleaned, must not bring the topic back. Losing the file loses these comforts and nothing else.

Written at a clean stop, when a topic is deleted and when old records are removed::

    {"queues": {"A": {"0": 12, "1": 9}}, "logEnd": 9000, "deletedTopics": {"T": 4711},
     "cleanedTo": 1024}

with the next offset of each queue, the end of the durable log, where it ended at each deletion, and
the position before which records were removed although everything that needs records was asked.
"""

from collections.abc import Iterable, Mapping

import attrs
import cattrs

from .config_file import fastjson
from .config_seal import UnsealedBitError, load_sealed, save_sealed_now
from .consume_queue import ConsumeQueue
from .disk import Disk
from .errors import StoreFormatError

_UNREADABLE = (
    StoreFormatError,
    UnsealedBitError,
    cattrs.BaseValidationError,
    TypeError,
    ValueError,
)


@attrs.frozen
class _Content:
    """The file, under its own names."""

    queues: dict[str, dict[int, int]] = attrs.field(factory=dict[str, dict[int, int]])
    logEnd: int = 0
    deletedTopics: dict[str, int] = attrs.field(factory=dict[str, int])
    cleanedTo: int = 0


class QueueRegister:
    """The list, as last written.

    Args:
        disk: The disk of the store.
        root: Root of the store.
    """

    def __init__(self, disk: Disk, root: str) -> None:
        self.damage: str | None = None
        """Why the file could not be used."""
        self._disk = disk
        self._path = f"{root}/config/consumeQueues.json"
        self._content = _Content()
        self._cleaned_to = 0
        """As far as it is known in memory: a full disk may have refused it."""

    def load(self) -> None:
        """Read the file; a damaged one counts as none, for everything in it can be found again."""
        try:
            found = load_sealed(self._disk, self._path, read_only=True)
            if found is not None and not isinstance(found, dict):
                raise TypeError("expected an object")
            if found is not None:
                self._content = cattrs.structure(found, _Content)
        except _UNREADABLE as error:
            self.damage = f"{self._path}: ignored: {error}"

    @property
    def log_end(self) -> int:
        """End of the durable log when the list was written, 0 without a list."""
        return self._content.logEnd

    @property
    def deleted_topics(self) -> Mapping[str, int]:
        """Deleted topics whose records are not cleaned yet, with where the log ended then."""
        return self._content.deletedTopics

    @property
    def cleaned_to(self) -> int:
        """Records before it were removed by cleaning, which leaves what is needed; 0: none were.

        RocketMQ, or a lost file, may have taken more from the log than this says.
        """
        return self._content.cleanedTo

    def note_cleaned(self, end: int) -> None:
        """Note durably that cleaning removes the records before a position (blocking).

        Raises:
            OSError: The disk refused; the next write notes it too, whatever it is for.
        """
        self._cleaned_to = max(self._cleaned_to, end)
        if self._cleaned_to > self._content.cleanedTo:
            self._write(self._content)

    def queues(self) -> Iterable[tuple[str, int, int]]:
        """Topic, queue id and next offset of each queue in the list."""
        for topic, offsets in self._content.queues.items():
            for queue_id, max_offset in offsets.items():
                yield topic, queue_id, max_offset

    def is_deleted(self, topic: str, phy_offset: int) -> bool:
        """Whether a record belongs to a topic that was deleted after it was stored."""
        return phy_offset < self._content.deletedTopics.get(topic, 0)

    def delete_topic(self, topic: str, phy_offset: int) -> None:
        """Note durably that a topic is deleted (blocking).

        Args:
            topic: The topic.
            phy_offset: End of the log: the topic's records before it are of no queue.

        Raises:
            OSError: The disk refused; nothing has changed.
        """
        content = self._content
        queues = {name: offsets for name, offsets in content.queues.items() if name != topic}
        deleted = {**content.deletedTopics, topic: phy_offset}
        self._write(attrs.evolve(content, queues=queues, deletedTopics=deleted))

    def note_ends(self, ends: Mapping[tuple[str, int], int]) -> None:
        """Note durably where queues end that are about to be made again (blocking).

        A process that ends in between leaves them shorter; the next one goes on by this.

        Args:
            ends: Topic and queue id to the next queue offset.
        """
        self._write(attrs.evolve(self._content, queues=_with_ends(self._content.queues, ends)))

    def limit_deletions(self, log_end: int) -> None:
        """Note durably that the log ends earlier than deletions say: a power cut took its tail.

        What is stored from there on is newer than the deletion (blocking, if there is any).
        """
        deleted = {
            topic: min(phy_offset, log_end)
            for topic, phy_offset in self._content.deletedTopics.items()
        }
        if deleted != self._content.deletedTopics:
            self._write(attrs.evolve(self._content, deletedTopics=deleted))

    def cut(self, log_end: int) -> None:
        """Note durably that the log is about to be cut to a position (blocking).

        Where the queues end is not known then; deletions that came later did not happen.

        Raises:
            OSError: The disk refused.
        """
        content = self._content
        deleted = {
            topic: phy_offset
            for topic, phy_offset in content.deletedTopics.items()
            if phy_offset <= log_end
        }
        self._write(_Content({}, min(content.logEnd, log_end), deleted, content.cleanedTo))

    def save(
        self,
        queues: Iterable[ConsumeQueue],
        *,
        log_start: int,
        log_end: int,
        ends: Mapping[tuple[str, int], int] | None = None,
    ) -> None:
        """Write the list, durably (blocking).

        Args:
            queues: All queues; what they hold is durable.
            ends: Next queue offset of queues whose files do not tell it.
            log_start: Start of the log; deletions before it are forgotten.
            log_end: End of the durable log.
        """
        offsets: dict[str, dict[int, int]] = {}
        for queue in queues:
            if queue.max_offset:
                offsets.setdefault(queue.topic, {})[queue.queue_id] = queue.max_offset
        deleted = {
            topic: phy_offset
            for topic, phy_offset in self._content.deletedTopics.items()
            if phy_offset > log_start
        }
        listed = _with_ends(offsets, ends or {})
        self._write(_Content(listed, log_end, deleted, self._content.cleanedTo))

    def _write(self, content: _Content) -> None:
        content = attrs.evolve(content, cleanedTo=max(content.cleanedTo, self._cleaned_to))
        save_sealed_now(self._disk, self._path, fastjson(attrs.asdict(content)))
        self._content = content


def _with_ends(
    queues: Mapping[str, Mapping[int, int]], ends: Mapping[tuple[str, int], int]
) -> dict[str, dict[int, int]]:
    """Next queue offsets by topic and queue id, some of them new."""
    listed = {topic: dict(offsets) for topic, offsets in queues.items()}
    for (topic, queue_id), end in ends.items():
        listed.setdefault(topic, {})[queue_id] = end
    return listed
