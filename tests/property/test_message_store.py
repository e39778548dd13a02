"""The store beside a list of messages, through clean stops, kills, power cuts and full disks.

| what happens | what may be lost | what must survive |
|---|---|---|
| clean stop, process kill | nothing | every message that was put |
| power cut | the unsynced tail of the log, torn in its sectors | what was acknowledged as flushed |
| full disk | the batch that did not fit, as a whole | everything before and after |

Segments hold a few records and queue files five units, so that blanks, new segments and gaps come
up in the first steps.
"""

from __future__ import annotations

from random import Random

import attrs
import trio
import trio.testing
from hypothesis import note, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from fakes import ManualClock
from timermq.simulator.disks.memory_disk import MemoryDisk
from timermq.timerstore.java_hash import tags_code
from timermq.timerstore.message import Message, pack_host
from timermq.timerstore.message_store import MessageStore
from timermq.timerstore.put_status import PutStatus
from timermq.timerstore.record import decode_record
from timermq.timerstore.store_options import FlushDiskType, StoreOptions

ROOT = "/store"
HOST = pack_host("127.0.0.1", 10911)
TOPICS = ("A", "SCHEDULE_TOPIC_XXXX")
TAGS = ("", "red", "blue")
DISK_SIZE = 1 << 22
READ_MAX = 1 << 20


@attrs.frozen
class Stored:
    """A message that the store has taken."""

    number: int
    """What its body says: each number once."""
    topic: str
    queue_id: int
    queue_offset: int
    phy_offset: int
    end: int
    store_ms: int
    tag: str
    key: str


batches = st.lists(
    st.tuples(
        st.sampled_from(TOPICS),
        st.integers(0, 1),
        st.sampled_from(TAGS),
        st.integers(0, 250),
    ),
    min_size=1,
    max_size=9,
)


class StoreMachine(RuleBasedStateMachine):
    """Steps that a store lives through."""

    def __init__(self) -> None:
        super().__init__()
        self.clock = ManualClock()
        self.disk = MemoryDisk(now_ms=self.clock.now_ms, total=DISK_SIZE)
        self.stored: list[Stored] = []
        self.flushed_end = 0
        """Everything before it was acknowledged as durable."""
        self.next_number = 0

    @initialize(flush_disk_type=st.sampled_from(FlushDiskType))
    def begin(self, flush_disk_type: FlushDiskType) -> None:
        """Open a new store of tiny files, which flushes in this way."""
        self.options = StoreOptions(
            mapped_file_size_commit_log=1024,
            mapped_file_size_consume_queue=100,
            max_hash_slot_num=5,
            max_index_num=12,
            flush_disk_type=flush_disk_type,
            disk_space_warning_level_ratio=100,
            max_transfer_count_on_message_in_memory=7,
        )
        self.open()

    def open(self) -> None:
        """Open what is on the disk."""
        self.store = MessageStore.open(
            self.disk, ROOT, self.options, now_ms=self.clock.now_ms, store_host=HOST
        )

    @rule(batch=batches, passed_ms=st.integers(-5, 2000))
    def put(self, batch: list[tuple[str, int, str, int]], passed_ms: int) -> None:
        """A batch is stored whole, with dense queue offsets."""
        self.clock.time_ms += passed_ms
        self.try_put(batch)

    def try_put(self, batch: list[tuple[str, int, str, int]]) -> bool:
        """Put a batch; whether the store took it."""
        messages: list[Message] = []
        for number, (topic, queue_id, tag, size) in enumerate(batch, self.next_number):
            names = f"UNIQ_KEY\x01u{number}\x02KEYS\x01k{number % 4}\x02DELAY\x01{number % 3}\x02"
            names += f"TAGS\x01{tag}\x02" if tag else ""
            body = str(number).encode().ljust(size)
            messages.append(
                Message(topic=topic, queue_id=queue_id, body=body, properties=names.encode())
            )
        results = self.store.put(messages)
        statuses = {result.status for result in results}

        assert statuses in ({PutStatus.PUT_OK}, {PutStatus.SERVICE_NOT_AVAILABLE})

        if PutStatus.PUT_OK not in statuses:
            return False
        for number, ((topic, queue_id, tag, _), result) in enumerate(
            zip(batch, results, strict=True), self.next_number
        ):
            before = [one for one in self.stored if (one.topic, one.queue_id) == (topic, queue_id)]

            assert len(before) == result.queue_offset
            assert not self.stored or self.stored[-1].store_ms <= result.store_ms

            self.stored.append(
                Stored(
                    number,
                    topic,
                    queue_id,
                    result.queue_offset,
                    result.phy_offset,
                    result.end,
                    result.store_ms,
                    tag,
                    f"k{number % 4}",
                )
            )
        self.next_number += len(batch)
        return True

    @rule(batch=batches, room=st.integers(0, 3))
    def put_on_full_disk(self, batch: list[tuple[str, int, str, int]], room: int) -> None:
        """What does not fit is refused as a whole; with room again the store goes on."""
        usage = self.disk.usage(ROOT)
        self.disk.total = usage.used + room * 4096
        self.try_put(batch)
        self.disk.total = DISK_SIZE
        trio.run(self.store.clean)
        self.flush()

    @rule()
    def flush(self) -> None:
        """Everything put so far is durable."""
        trio.run(self.store.flush)
        self.flushed_end = self.store.commit_log.max_offset

        assert self.store.commit_log.flushed_where == self.flushed_end

    @precondition(lambda self: bool(self.stored))
    @rule(data=st.data())
    def wait_flushed(self, data: st.DataObject) -> None:
        """A wait for one message makes at least everything before it durable."""
        end = data.draw(st.sampled_from(self.stored)).end

        assert trio.run(self.store.wait_flushed, end)

        self.flushed_end = max(self.flushed_end, end)

    @rule(seconds=st.integers(1, 30))
    def serve(self, seconds: int) -> None:
        """The background works for a while."""

        async def run_for_a_while() -> None:
            async with trio.open_nursery() as nursery:
                await nursery.start(self.store.run)
                await trio.sleep(seconds)
                nursery.cancel_scope.cancel()

        trio.run(run_for_a_while, clock=trio.testing.MockClock(autojump_threshold=0))
        self.flushed_end = self.store.commit_log.flushed_where

    @rule()
    def stop_and_start(self) -> None:
        """A clean stop keeps everything, and the next start has nothing to do."""
        trio.run(self.store.aclose)
        self.open()
        self.flushed_end = self.store.commit_log.max_offset

        assert self.store.recovery.last_exit_ok
        assert self.store.recovery.dispatched_count == 0

    @rule()
    def kill(self) -> None:
        """A process kill keeps everything that was put."""
        self.disk.process_kill()
        self.look_on()
        self.open()

    def look_on(self) -> None:
        """Opened read only, a store that was cut off shows the same, and nothing is written."""
        before = self.contents()
        self.store = MessageStore.open(
            self.disk,
            ROOT,
            self.options,
            now_ms=self.clock.now_ms,
            store_host=HOST,
            read_only=True,
        )
        self.stored = [one for one in self.stored if one.end <= self.store.commit_log.max_offset]
        self.shows_what_was_stored()
        if self.stored:
            self.check_keys(self.stored[len(self.stored) // 2])
        trio.run(self.store.aclose)

        assert before == self.contents()

    def contents(self, path: str = ROOT) -> dict[str, bytes]:
        """All files of the store."""
        if not self.disk.is_dir(path):
            file = self.disk.open(path, read_only=True)
            try:
                return {path: file.read(0, file.size())}
            finally:
                file.close()
        found: dict[str, bytes] = {}
        for name in self.disk.list_dir(path):
            found |= self.contents(f"{path}/{name}")
        return found

    @rule(seed=st.none() | st.integers(0, 1 << 16))
    def cut_power(self, seed: int | None) -> None:
        """A power cut keeps what was acknowledged, and of the rest a beginning."""
        self.disk.power_cut(None if seed is None else Random(seed))
        self.look_on()
        self.open()
        end = self.store.commit_log.max_offset
        note(f"{self.store.recovery}")

        assert end >= self.flushed_end

        self.stored = [one for one in self.stored if one.end <= end]

    @precondition(lambda self: bool(self.stored))
    @rule(data=st.data())
    def lose_a_queue(self, data: st.DataObject) -> None:
        """A queue whose files are removed while the store is closed is made again."""
        one = data.draw(st.sampled_from(self.stored))
        trio.run(self.store.aclose)
        directory = f"{ROOT}/consumequeue/{one.topic}/{one.queue_id}"
        for name in self.disk.list_dir(directory):
            self.disk.remove(f"{directory}/{name}")
        if self.disk.is_dir(directory):
            self.disk.sync_dir_now(directory)
        self.open()
        self.flushed_end = self.store.commit_log.max_offset

    @precondition(lambda self: bool(self.stored))
    @rule(data=st.data(), moved_ms=st.integers(-1, 1))
    def find_by_time(self, data: st.DataObject, moved_ms: int) -> None:
        """Offsets by time are those that a walk over all messages finds."""
        one = data.draw(st.sampled_from(self.stored))
        time_ms = one.store_ms + moved_ms
        queue = self.store.queue(one.topic, one.queue_id)
        assert queue is not None
        times = [
            other.store_ms
            for other in self.stored
            if (other.topic, other.queue_id) == (one.topic, one.queue_id)
        ][: queue.max_offset]
        earlier = sum(store_ms < time_ms for store_ms in times)
        not_later = sum(store_ms <= time_ms for store_ms in times)

        found = self.store.offset_by_time(one.topic, one.queue_id, time_ms)
        found_upper = self.store.offset_by_time(one.topic, one.queue_id, time_ms, upper=True)

        assert earlier == found
        assert max(not_later - 1, 0) == found_upper

    @precondition(lambda self: bool(self.stored))
    @rule(data=st.data())
    def find_by_key(self, data: st.DataObject) -> None:
        """A query by key gives the messages with this key, in the order of the log."""
        self.check_keys(data.draw(st.sampled_from(self.stored)))

    def check_keys(self, one: Stored) -> None:
        """Ask for the keys of a message."""
        expected = [
            other.phy_offset
            for other in self.stored
            if (other.topic, other.key) == (one.topic, one.key)
        ]

        by_key = self.store.query(one.topic, one.key, count_max=64)
        by_unique_key = self.store.query(one.topic, f"u{one.number}", count_max=64, unique=True)

        assert expected[-64:] == [decode_record(data).phy_offset for data in by_key]
        assert [one.phy_offset] == [decode_record(data).phy_offset for data in by_unique_key]

    @invariant(check_during_init=False)
    def shows_what_was_stored(self) -> None:
        """Queues hold what was stored, in order; with SYNC_FLUSH nothing that is not durable."""
        log = self.store.commit_log
        readable_end = log.flushed_where if self.options.is_sync_flush else log.max_offset
        for topic in TOPICS:
            for queue_id in (0, 1):
                expected = [
                    one
                    for one in self.stored
                    if (one.topic, one.queue_id) == (topic, queue_id) and one.end <= readable_end
                ]

                assert [one.number for one in expected] == self.read(topic, queue_id)

                self.check_units(topic, queue_id, expected)

    def check_units(self, topic: str, queue_id: int, expected: list[Stored]) -> None:
        """The units of a queue are dense, and say position, size and tags code."""
        queue = self.store.queue(topic, queue_id)
        units: list[tuple[int, int, int]] = []
        if queue is not None:
            while len(units) < queue.max_offset:
                units += queue.units(len(units), 100).tolist()

        assert [self.unit(one) for one in expected] == units

    def unit(self, one: Stored) -> tuple[int, int, int]:
        """The unit of a message."""
        level = one.number % 3
        if one.topic == "SCHEDULE_TOPIC_XXXX" and level:
            code = one.store_ms + self.options.delay_levels_ms[level - 1]
        else:
            code = tags_code(one.tag.encode())
        return one.phy_offset, one.end - one.phy_offset, code

    def read(self, topic: str, queue_id: int) -> list[int]:
        """Read a queue from its beginning, as a consumer does."""
        numbers: list[int] = []
        offset = 0
        while True:
            got = self.store.get(topic, queue_id, offset, count_max=5, bytes_max=READ_MAX)
            if not got.count:
                return numbers
            data = b"".join(got.records)
            while data:
                size = int.from_bytes(data[:4])
                numbers.append(int(decode_record(data[:size]).body))
                data = data[size:]
            offset = got.next_offset


TestStore = StoreMachine.TestCase
TestStore.settings = settings(
    max_examples=40, stateful_step_count=25, deadline=None, report_multiple_bugs=False
)
