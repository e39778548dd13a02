"""How far each group has consumed each queue: ``config/consumerOffset.json``.

The number kept is that of the next message to consume. Consumers commit every few seconds and with
most pulls; the file is written at an interval. A commit may go backwards: consumers are reset, and
the last word counts.

Source: Java ``ConsumerOffsetManager``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from timermq.remoting.codes import ResponseCode

from .config_fields import ConfigFields
from .config_table import VersionedTable, in_order, read_version, version_json
from .refusal import RefusedError
from .topic_validator import TRANS_GROUP

TOPIC_GROUP_SEPARATOR = "@"


class ConsumerOffsetTable(VersionedTable):
    """The offsets of all groups.

    Args:
        now_ms: The wall clock, for the data version.
        version_step: Commits between two data versions.
    """

    path = "config/consumerOffset.json"
    without_it: str | None = "every group begins again as a new one"

    def __init__(self, *, now_ms: Callable[[], int], version_step: int) -> None:
        super().__init__(now_ms)
        self._version_step = version_step
        self._commits = 0
        self._offsets: dict[str, dict[int, int]] = {}
        self._keys: dict[str, set[str]] = {}
        """Group to its keys in the offsets: some requests ask for the topics of every group."""

    def load(self, data: object) -> None:
        """Replace the table by what a file has, decoded from JSON."""
        fields = ConfigFields(self.path, data)
        version = read_version(fields)
        # Derived from the offsets, and built again from them.
        fields.fields("groupTopicMap")
        offsets = fields.fields("offsetTable")
        self._offsets = {key: offsets.offsets(key) for key in list(offsets.rest)}
        self.data_version = version
        self._keys = {}
        for key in self._offsets:
            self._keys.setdefault(_group_of(key), set()).add(key)
        self._rest = fields.rest

    def replace(self, data: object) -> None:
        """Take a master's table over: it and nothing else.

        Args:
            data: As a file has it.

        Raises:
            ConfigTableError: It is none; the table is as before.
        """
        before = self._offsets, self.data_version
        self.load(data)
        if (self._offsets, self.data_version) != before:
            self.changes += 1

    def to_json(self) -> dict[str, object]:
        """The content of the file, for JSON."""
        return in_order(
            self._rest,
            dataVersion=version_json(self.data_version),
            groupTopicMap={group: self.topics_of(group) for group in self._keys},
            offsetTable={
                key: dict(sorted(queues.items())) for key, queues in self._offsets.items()
            },
        )

    def commit(self, *, group: str, topic: str, queue_id: int, offset: int) -> None:
        """Remember that ``group`` goes on at ``offset``; a negative one is ignored.

        Go commits -1 for queues that it has not touched.

        Raises:
            RefusedError: The group is the one by whose offsets transactions are found again (16).
        """
        if group == TRANS_GROUP:
            raise RefusedError(
                ResponseCode.NO_PERMISSION,
                "INTERNAL_GROUP",
                f"{group} is the broker's own: its offsets say which transactions are open",
            )
        self.keep(group=group, topic=topic, queue_id=queue_id, offset=offset)

    def keep(self, *, group: str, topic: str, queue_id: int, offset: int) -> None:
        """Commit an offset of the broker itself."""
        if offset < 0:
            return
        key = f"{topic}{TOPIC_GROUP_SEPARATOR}{group}"
        queues = self._offsets.get(key)
        if queues is None:
            queues = self._offsets[key] = {}
            self._keys.setdefault(_group_of(key), set()).add(key)
        if queues.get(queue_id) != offset:
            queues[queue_id] = offset
            self.changes += 1
        self._commits += 1
        if self._commits % self._version_step == 0:
            self._count_version()

    def query(self, *, group: str, topic: str, queue_id: int) -> int | None:
        """Next offset of ``group``; None when it never committed."""
        return self._offsets.get(f"{topic}{TOPIC_GROUP_SEPARATOR}{group}", {}).get(queue_id)

    def all(self) -> Iterator[tuple[str, str, dict[int, int]]]:
        """Group, topic, and queue to offset, of all that was ever committed."""
        for key, queues in self._offsets.items():
            topic, _, group = key.partition(TOPIC_GROUP_SEPARATOR)
            yield group, topic, dict(queues)

    def offsets(self, *, group: str, topic: str) -> dict[int, int]:
        """Queue to offset, of what the group committed."""
        return dict(self._offsets.get(f"{topic}{TOPIC_GROUP_SEPARATOR}{group}", {}))

    def topics_of(self, group: str) -> list[str]:
        """The topics of which the group committed something, in order."""
        return sorted(key.partition(TOPIC_GROUP_SEPARATOR)[0] for key in self._keys.get(group, ()))

    def delete_topic(self, topic: str) -> None:
        """Forget what all groups committed of the topic."""
        prefix = f"{topic}{TOPIC_GROUP_SEPARATOR}"
        for key in [key for key in self._offsets if key.startswith(prefix)]:
            self._delete(key)

    def delete_group(self, group: str) -> None:
        """Forget what the group committed of all topics."""
        for key in list(self._keys.get(group, ())):
            self._delete(key)

    def groups_of(self, topic: str) -> list[str]:
        """The groups that committed something of the topic, in order."""
        prefix = f"{topic}{TOPIC_GROUP_SEPARATOR}"
        return sorted(key.removeprefix(prefix) for key in self._offsets if key.startswith(prefix))

    def _delete(self, key: str) -> None:
        group = _group_of(key)
        del self._offsets[key]
        self._keys[group].discard(key)
        if not self._keys[group]:
            del self._keys[group]
        self.changes += 1


def _group_of(key: str) -> str:
    return key.partition(TOPIC_GROUP_SEPARATOR)[2]
