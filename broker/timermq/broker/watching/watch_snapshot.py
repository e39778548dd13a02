"""The snapshot that watchers are sent: one reading of the broker for all of them."""

from __future__ import annotations

import heapq
import importlib.metadata
from collections.abc import Mapping
from typing import TypedDict

import attrs
import psutil
import trio

from timermq.pipeline.clock.clock import WatchedClock
from timermq.pipeline.clock.clock_watch import ClockStatus
from timermq.pipeline.state.timer_counts import TimerStatistics
from timermq.pipeline.timer_message_store import TimerMessageStore
from timermq.pipeline.wheel_occupancy import WheelOccupancy
from timermq.remoting.watch import SLOTS_MAX, TOPICS_MAX, Counters, Snapshot, WatchView
from timermq.timerstore.scrub import ScrubStatistics
from timermq.timerstore.store_statistics import StoreStatistics

from ..consuming.long_polling import LongPolling
from ..replication.follow_state import FollowState
from ..replication.followers import Followers, FollowersSummary
from ..replication.role import Role
from ..security.access_control import AccessControl
from ..security.tls import Tls
from ..sending.send_processor import SendProcessor


class SecurityFields(TypedDict, total=False):
    """The fields of a snapshot about who was not let in."""

    failed_logins: int
    failed_login_ms: int
    missing_rights: int
    tls_refused: int
    door_problem: str | None
    open_doors: tuple[str, ...]


class FollowerFields(TypedDict):
    """The fields of a snapshot about followers and the master."""

    followers: int
    followers_in_sync: int
    followers_behind: int
    followers_silent_ms: int
    master: str | None
    master_behind: int
    master_behind_ms: int | None
    master_error: str | None


@attrs.define(eq=False, kw_only=True)
class SnapshotSource:
    """The sources of one broker's snapshots."""

    broker_name: str
    address: str
    timer_store: TimerMessageStore
    clock: WatchedClock
    send: SendProcessor
    long_polling: LongPolling
    followers: Followers
    role: Role
    follow_state: FollowState
    access: AccessControl | None
    """None: there is no access control."""
    tls: Tls
    open_doors: tuple[str, ...]
    """Addresses beyond loopback that are served without access control."""
    _version: str = attrs.field(factory=lambda: importlib.metadata.version("timermq"), init=False)
    _process: psutil.Process = attrs.field(factory=psutil.Process, init=False)
    _started_at: float | None = attrs.field(default=None, init=False)
    """trio's time when the broker began to serve."""

    def start(self) -> None:
        """The broker serves from now on."""
        self._started_at = trio.current_time()

    def read(self) -> WatchSnapshot:
        """The broker as it is now; the wheel is read once for all views."""
        started_at = trio.current_time() if self._started_at is None else self._started_at
        live, timer_options = self.timer_store.live(), self.timer_store.options
        return WatchSnapshot(
            source=self,
            uptime_ms=round((trio.current_time() - started_at) * 1000),
            occupancy=WheelOccupancy.of(live, timer_options.timer_precision_ms),
            timer=self.timer_store.statistics(live),
            store=self.timer_store.store.statistics(),
            scrub=self.timer_store.scrub.statistics(),
            clock=self.clock.status(),
        )

    def process(self) -> tuple[int, int, int]:
        """CPU milliseconds, resident memory, and its anonymous part."""
        with self._process.oneshot():
            times, memory = self._process.cpu_times(), self._process.memory_info()
        own = memory.rss - getattr(memory, "shared", 0)  # only Linux tells them apart
        return round((times.user + times.system) * 1000), memory.rss, own

    @property
    def version(self) -> str:
        """Version of this program, as ``timermq --version`` prints it."""
        return self._version


@attrs.define(eq=False, kw_only=True)
class WatchSnapshot:
    """One snapshot; the parts that differ among watchers are made for each view once."""

    source: SnapshotSource
    uptime_ms: int
    occupancy: WheelOccupancy
    timer: TimerStatistics
    store: StoreStatistics
    scrub: ScrubStatistics
    clock: ClockStatus
    _process: tuple[int, int, int] | None = attrs.field(default=None, init=False)
    _bodies: dict[WatchView, bytes] = attrs.field(factory=dict[WatchView, bytes], init=False)

    def body(self, view: WatchView) -> bytes:
        """The encoded snapshot for a view."""
        view = attrs.evolve(view, interval_ms=WatchView().interval_ms)  # it shows nothing of it
        body = self._bodies.get(view)
        if body is None:
            body = self._bodies[view] = self.snapshot(view).encode()
        return body

    def snapshot(self, view: WatchView) -> Snapshot:
        """The snapshot for a view, before it is encoded."""
        source, timer, state = self.source, self.timer, self.source.timer_store.state
        if self._process is None:
            self._process = source.process()
        cpu_ms, memory_size, memory_own_size = self._process
        from_ms = timer.now_ms // view.width_ms * view.width_ms
        last, held_up = timer.last_set_aside, (timer.deliver_backoff, timer.enqueue_backoff)
        topics = _pending(timer.pending_by_topic, view.topic)
        return Snapshot(
            version=source.version,
            broker=source.broker_name,
            address=source.address,
            now_ms=timer.now_ms,
            uptime_ms=self.uptime_ms,
            clock=self.clock.state.value,
            clock_fault=None if self.clock.fault is None else self.clock.fault.value,
            clock_off_ms=self.clock.off_ms,
            clock_believed_in_ms=self.clock.believed_in_ms,
            clock_drift_ppm=self.clock.drift_ppm,
            precision_ms=self.occupancy.precision_ms,
            read_ms=timer.read_ms,
            commit_read_ms=timer.commit_read_ms,
            write_ms=state.write_ms,
            read_lag_ms=self.occupancy.overdue_ms(timer.now_ms),
            enqueue_lag=max(0, timer.queue_offset_max - timer.commit_queue_offset),
            pending=self.occupancy.pending,
            from_ms=from_ms,
            width_ms=view.width_ms,
            buckets=self.occupancy.buckets(
                from_ms=from_ms, width_ms=view.width_ms, count=view.count
            ),
            slots=self.occupancy.next_slots(SLOTS_MAX),
            topics=tuple(heapq.nlargest(TOPICS_MAX, topics, key=lambda one: one[1])),
            topic_count=len(topics),
            counters=self._counters(cpu_ms),
            lateness_bounds_ms=timer.lateness_bounds_ms,
            lateness_max_ms=timer.lateness_max_ms,
            disk_used_ratio=self.store.disk_used_ratio,
            refusal=self.store.refusal,
            held_pulls=source.long_polling.held,
            memory_size=memory_size,
            memory_own_size=memory_own_size,
            quarantined=timer.quarantined,
            set_aside_reason=None if last is None else last.reason,
            set_aside_ms=None if last is None else last.time_ms,
            scrub_done_ratio=self.scrub.done_ratio,
            scrub_whole_ms=self.scrub.whole_ms,
            scrub_damaged=self.scrub.damaged,
            scrub_mended=self.scrub.repaired,
            scrub_left=self.scrub.left,
            **self._followers(),
            **self._security(),
            held_up=sum(one.count for one in held_up),
            held_up_since_ms=min(
                (one.since_ms for one in held_up if one.since_ms is not None), default=None
            ),
            held_up_error=next((one.error for one in held_up if one.error is not None), None),
        )

    def _followers(self) -> FollowerFields:
        """How far the followers are, or how far this one is."""
        source = self.source
        found = FollowersSummary.of(source.followers.rows())
        row = None if source.role.is_master else source.follow_state.row(trio.current_time())
        return FollowerFields(
            master=None if row is None else row.master or "",
            master_behind=0 if row is None else row.behind,
            master_behind_ms=None if row is None else row.behind_ms,
            master_error=None if row is None else row.error,
            followers=found.linked,
            followers_in_sync=found.in_sync,
            followers_behind=found.behind,
            followers_silent_ms=found.silent_ms,
        )

    def _security(self) -> SecurityFields:
        """Connections and requests that were refused, and why changed rules are not in force."""
        source, now = self.source, trio.current_time()
        access = None if source.access is None else source.access.statistics()
        fields = SecurityFields(
            tls_refused=source.tls.refused,
            door_problem=source.tls.problem,
            open_doors=source.open_doors,
        )
        if access is not None:
            fields["failed_logins"] = access.failed_logins
            fields["missing_rights"] = access.missing_rights
            fields["door_problem"] = access.problem or source.tls.problem
            if access.failed_at is not None:
                age_ms = round((now - access.failed_at) * 1000)
                fields["failed_login_ms"] = self.timer.now_ms - age_ms
        return fields

    def _counters(self, cpu_ms: int) -> Counters:
        timer, store = self.timer, self.store
        return Counters(
            sent=self.source.send.messages,
            timers=timer.timers,
            enqueued=timer.enqueued,
            delivered=timer.delivered,
            rolled=timer.rolled,
            cancelled=timer.cancelled,
            refused=sum(timer.refused.values()),
            repeated=timer.repeated,
            missing=timer.missing,
            set_aside=timer.set_aside,
            retried=timer.retried,
            early=timer.early,
            clock_steps_forward=self.clock.steps_forward,
            clock_steps_backward=self.clock.steps_backward,
            stored=store.put_count,
            flushes=store.flush_count,
            cpu_ms=cpu_ms,
            lateness=timer.lateness,
        )


def _pending(counts: Mapping[str, int], text: str | None) -> list[tuple[str, int]]:
    """Topics with pending messages whose names contain a text."""
    return [
        (topic, count)
        for topic, count in counts.items()
        if count > 0 and (text is None or text in topic)
    ]
