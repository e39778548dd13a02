"""What a follower copies of its master beside the log: topics, groups, offsets, how far timers are.

They are asked for in rounds. The end of the master's log is asked for last, and what may not run
ahead of the log waits until that much of it is copied: an offset never points behind what is here.

Source: Java ``SlaveSynchronize``, which takes everything at once.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TypeVar

import attrs
import structlog
import trio

from timermq.pipeline.records.deduplication import origin_in
from timermq.pipeline.records.system_topics import OWN_TOPICS
from timermq.pipeline.records.timer_record import TIMER_TOPIC
from timermq.pipeline.timer_message_store import TimerMessageStore
from timermq.timerstore.config_file import DataVersion
from timermq.timerstore.delay_offset import DelayOffsets
from timermq.timerstore.log_reading import LogReading
from timermq.timerstore.record import record_topic

from ..config_fields import ConfigFields, ConfigTableError
from ..consumer_offset import ConsumerOffsetTable
from ..security.log_limit import LogLimit
from ..subscription_group import SubscriptionGroupTable
from ..topic_config import TopicConfigTable
from .follow_options import FollowOptions
from .follow_state import FollowState
from .master_calls import MasterCalls, RefusedCallError
from .slot_progress import Sample, SlotProgress

LINK_PAUSE = 0.05
"""Seconds between two looks whether what was copied is linked in the wheel."""
LINK_LOOKS = 200
"""Looks until it is given up for this round."""
REST_SIZE_MAX = 8 << 20
"""Bytes of the log that are read for what was delivered since the last round."""

T = TypeVar("T")

log = structlog.get_logger("timermq.broker.replication.master_tables")


@attrs.define(eq=False, kw_only=True)
class MasterTables:
    """The copies of one follower."""

    options: FollowOptions
    timer_store: TimerMessageStore
    topics: TopicConfigTable
    groups: SubscriptionGroupTable
    offsets: ConsumerOffsetTable
    state: FollowState
    _progress: SlotProgress = attrs.field(factory=SlotProgress, init=False)
    _limits: dict[str, LogLimit] = attrs.field(factory=dict[str, LogLimit], init=False)
    _known: set[str] = attrs.field(factory=set[str], init=False)
    """Topics that the master had the last time."""
    _delays: DelayOffsets | None = attrs.field(default=None, init=False)
    _counted_to: int | None = attrs.field(default=None, init=False)
    """Position of the log as of which the master's numbers of pending messages are."""

    async def run(self, calls: MasterCalls) -> None:
        """Copy round after round until cancelled.

        Raises:
            FollowError: The master does not answer.
            StoreFailedError: The store has failed.
            OSError: The disk refused.
        """
        self._progress.forget()
        self._counted_to = None
        tables_at = trio.current_time() + self.options.follow_tables_interval_ms / 1000
        try:
            while True:
                if trio.current_time() >= tables_at:
                    await self.copy_tables(calls)
                    tables_at = trio.current_time() + self.options.follow_tables_interval_ms / 1000
                await self._copy_positions(calls)
                await trio.sleep(self.options.follow_interval_ms / 1000)
        finally:
            self._count_rest()

    def _count_rest(self) -> None:
        """Take what the master has delivered since it told its numbers from these: it is gone."""
        store, metrics = self.timer_store.store, self.timer_store.files.metrics
        begin, end = self._counted_to, store.commit_log.max_offset
        if begin is None or end - begin > REST_SIZE_MAX:
            return
        for _, record in LogReading(store.commit_log, begin, end=end, purpose="what was delivered"):
            if origin_in(record) is not None:
                topic = record_topic(record).decode(errors="replace")
                if topic in metrics.counts():
                    metrics.add(topic, -1)

    async def copy_tables(self, calls: MasterCalls) -> None:
        """Copy topics and groups, as they are now; before the log, whose messages need them.

        Raises:
            FollowError: The master does not answer.
            StoreFailedError: The store has failed.
        """
        topics = await self._asked("topics", calls.topics)
        if topics is not None:
            wanted = {name: topics.get(name) for name in ("topicConfigTable", "dataVersion")}
            if self._taken("topics", lambda: self.topics.replace(wanted)):
                await self._delete_topics(ConfigFields("topics", wanted["topicConfigTable"]).rest)
        groups = await self._asked("groups", calls.groups)
        if groups is not None:
            names = ("subscriptionGroupTable", "forbiddenTable", "dataVersion")
            wanted = {name: groups.get(name) for name in names}
            self._taken("groups", lambda: self.groups.replace(wanted))

    async def _delete_topics(self, now: dict[str, object]) -> None:
        """Remove the queues of topics that the master has deleted."""
        for topic in self._known - now.keys():
            if topic not in OWN_TOPICS and self.topics.get(topic) is None:
                log.info("topic deleted by the master", topic=topic)
                await self.timer_store.store.delete_topic(topic)
        self._known = set(now)

    async def _copy_positions(self, calls: MasterCalls) -> None:
        """Offsets and positions, once the log is copied that they speak of."""
        offsets = await self._asked("consumer offsets", calls.consumer_offsets)
        delays = await self._asked("delay offsets", calls.delay_offsets)
        timer = await self._asked("timer positions", calls.timer)
        pending = await self._asked("pending messages", calls.pending)
        ends = await calls.log()
        store = self.timer_store.store
        self.state.told(ends.end, trio.current_time())
        store.copied_from(ends.start)
        await self._wait_copied(ends.end)
        if offsets is not None:
            wanted = {name: offsets.get(name) for name in ("offsetTable", "dataVersion")}
            self._taken("consumer offsets", lambda: self.offsets.replace(wanted))
        if delays is not None:
            await self._take_delays(delays)
        is_linked = await self._is_linked()
        if pending is not None:
            # What is linked later counts by itself.
            self.timer_store.files.metrics.replace(pending)
            self._counted_to = ends.end
        if timer is not None and ends.now_ms is not None and is_linked:
            found = self._progress.add(
                Sample(
                    read_ms=timer.read_ms,
                    queue_offset=timer.queue_offset,
                    end=ends.end,
                    now_ms=ends.now_ms,
                )
            )
            if found is not None:
                self.timer_store.pass_slots(
                    read_ms=found.read_ms,
                    queue_offset=found.queue_offset,
                    scan_py=found.scan_py,
                )

    async def _wait_copied(self, end: int) -> None:
        commit_log = self.timer_store.store.commit_log
        while commit_log.max_offset < end:
            await self.state.growth.wait()

    async def _is_linked(self) -> bool:
        """Whether the entries of the timer topic that are copied now come to the wheel soon."""
        store, state = self.timer_store.store, self.timer_store.state
        end, entries = store.commit_log.max_offset, None
        for _ in range(LINK_LOOKS):
            if entries is None and store.dispatch() >= end:
                queue = store.queue(TIMER_TOPIC, 0)
                entries = 0 if queue is None else queue.max_offset
            if entries is not None and state.commit_queue_offset >= entries:
                return True
            await trio.sleep(LINK_PAUSE)
        return False

    async def _take_delays(self, found: dict[str, object]) -> None:
        fields = ConfigFields("delay offsets", found)
        try:
            version = fields.fields("dataVersion")
            delays = DelayOffsets(
                offsets=fields.offsets("offsetTable"),
                scan_py=fields.integer("scanPy", -1),
                data_version=DataVersion(
                    counter=version.integer("counter", 0),
                    state_version=version.integer("stateVersion", 0),
                    timestamp=version.integer("timestamp", 0),
                ),
            )
        except ConfigTableError as error:
            self._tell("delay offsets", str(error))
            return
        if delays.scan_py == -1:
            delays = attrs.evolve(delays, scan_py=None)
        if delays != self._delays and (delays.offsets or self._delays is not None):
            store = self.timer_store.store
            await delays.save(store.disk, store.root)
        self._delays = delays

    async def _asked(self, what: str, call: Callable[[], Awaitable[T]]) -> T | None:
        """An answer; None of a master that refuses to give it: the others count all the same."""
        try:
            return await call()
        except RefusedCallError as error:
            self._tell(what, error.text)
            return None

    def _taken(self, what: str, take: Callable[[], object]) -> bool:
        """Whether a table could be taken over."""
        try:
            take()
        except ConfigTableError as error:
            self._tell(what, str(error))
            return False
        return True

    def _tell(self, what: str, reason: str) -> None:
        count = self._limits.setdefault(what, LogLimit()).take()
        if count:
            log.warning("not copied from the master", what=what, reason=reason, count=count)
