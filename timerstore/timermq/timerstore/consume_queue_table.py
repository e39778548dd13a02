"""All consume queues of a store: ``consumequeue/<topic>/<queueId>``.

Corresponds to RocketMQ's ConsumeQueueStore.
"""

from collections.abc import Iterator

import trio

from .consume_queue import ConsumeQueue
from .disk import Disk, is_out_of_files
from .errors import StoreFormatError
from .unit_scan import has_file_of

QueueKey = tuple[str, int]
"""Topic and queue id."""

CLEANED_COUNT = 64
"""Queues that are cleaned between two checkpoints: two milliseconds without files that go."""


class ConsumeQueueTable:
    """The queues by topic and queue id.

    Args:
        disk: The disk of the files.
        root: Root of the store.
        segment_size: Bytes of one file of a queue.
        read_only: Nothing is written.
    """

    def __init__(self, disk: Disk, root: str, *, segment_size: int, read_only: bool) -> None:
        self._disk = disk
        self._root = root
        self._directory = f"{root}/consumequeue"
        self._segment_size = segment_size
        self._read_only = read_only
        self._queues: dict[str, dict[int, ConsumeQueue]] = {}
        self.damage: list[str] = []
        """Why queues could not be opened, one sentence each."""
        self._dirty: dict[ConsumeQueue, None] = {}
        self._unnamed: set[ConsumeQueue] = set()
        """Queues whose directories and files may not have durable names: new ones, and those that
        an earlier process left, which may have been killed before its next flush."""

    def __iter__(self) -> Iterator[ConsumeQueue]:
        for queues in self._queues.values():
            yield from queues.values()

    def __len__(self) -> int:
        return sum(map(len, self._queues.values()))

    def get(self, topic: str, queue_id: int) -> ConsumeQueue | None:
        """The queue, None when no message ever went there."""
        queues = self._queues.get(topic)
        return None if queues is None else queues.get(queue_id)

    def find_or_create(self, topic: str, queue_id: int) -> ConsumeQueue:
        """The queue, a new and empty one if need be; its files come with the first unit."""
        queue = self.get(topic, queue_id)
        if queue is None:
            queue = ConsumeQueue(
                self._disk,
                f"{self._directory}/{topic}/{queue_id}",
                topic,
                queue_id,
                segment_size=self._segment_size,
                read_only=self._read_only,
            )
            self._queues.setdefault(topic, {})[queue_id] = queue
            self._unnamed.add(queue)
        return queue

    def recover(self) -> None:
        """Open every queue that has a directory and find its end; nothing is written.

        A queue whose files are damaged is empty then, and in ``damage``: it is to be made again.

        Raises:
            StoreFormatError: No queue has a file of the length that the settings say.
            OSError: Too many files are open.
        """
        is_one_good = False
        refused: StoreFormatError | None = None
        for topic in self._disk.list_dir(self._directory):
            for name in self._disk.list_dir(f"{self._directory}/{topic}"):
                if name.isascii() and name.isdigit():
                    queue = self.find_or_create(topic, int(name))
                    error = self._recover_queue(queue)
                    is_one_good |= queue.has_files or (
                        error is not None
                        and has_file_of(self._disk, queue.directory, self._segment_size)
                    )
                    if isinstance(error, StoreFormatError):
                        refused = refused or error
        if refused is not None and not is_one_good:
            raise refused

    def _recover_queue(self, queue: ConsumeQueue) -> StoreFormatError | OSError | None:
        """Open a queue; why it cannot be taken, if so."""
        try:
            queue.recover()
        except (StoreFormatError, OSError) as error:
            if isinstance(error, OSError) and is_out_of_files(error):
                raise
            queue.lose()
            self.damage.append(str(error))
            return error
        return None

    def mark_dirty(self, queue: ConsumeQueue) -> None:
        """Note that a queue has units which are not durable."""
        self._dirty[queue] = None

    async def flush(self) -> None:
        """Make every unit appended so far durable, names of new queues included.

        Cancellation: what was not synced is synced by the next call.

        Raises:
            OSError: A sync failed.
        """
        for queue in list(self._dirty):
            # Taken out before the sync: units that come during it make the queue dirty again.
            self._dirty.pop(queue, None)
            try:
                await self._flush_one(queue)
            except BaseException:
                self._dirty[queue] = None
                raise

    async def _flush_one(self, queue: ConsumeQueue) -> None:
        await queue.flush()
        if queue in self._unnamed:
            topic_directory = f"{self._directory}/{queue.topic}"
            for directory in (queue.directory, topic_directory, self._directory, self._root):
                await self._disk.sync_dir(directory)
            self._unnamed.discard(queue)

    async def delete_before(self, min_phy_offset: int) -> int:
        """Remove files that point to records which the log no longer holds; how many.

        With a checkpoint now and then; no queue may be removed meanwhile.

        Cancellation: comes into effect when all queues are through.

        Raises:
            OSError: A file was not removed.
        """
        count = 0
        with trio.CancelScope(shield=True):
            for number, queue in enumerate(list(self)):
                if number % CLEANED_COUNT == CLEANED_COUNT - 1:
                    await trio.lowlevel.checkpoint()
                count += queue.delete_before(min_phy_offset)
        return count

    def remove(self, queue: ConsumeQueue) -> None:
        """Remove one queue and its files, durably (blocking)."""
        del self._queues[queue.topic][queue.queue_id]
        self._dirty.pop(queue, None)
        self._unnamed.discard(queue)
        queue.remove()

    def delete_topic(self, topic: str) -> None:
        """Remove the queues of a topic and their files, durably (blocking)."""
        for queue in list(self._queues.get(topic, {}).values()):
            self.remove(queue)
        self._queues.pop(topic, None)
        self._disk.remove_dir(f"{self._directory}/{topic}")
        if self._disk.is_dir(self._directory):
            self._disk.sync_dir_now(self._directory)

    def close(self) -> None:
        """Give the files back; nothing is written."""
        for queue in self:
            queue.close()
