"""How busy the broker is, name by name: the answer to GET_BROKER_RUNTIME_INFO, in Java's texts.

All names of RocketMQ's broker are there, because its tools stop at a name that is missing. Names of
features that this broker does not have show the values of a RocketMQ that does not use them.

Source: Java ``AdminBrokerProcessor.prepareRuntimeInfo``, ``DefaultMessageStore.getRuntimeInfo``,
``StoreStatsService.getRuntimeInfo``.
"""

from __future__ import annotations

import importlib.metadata
from collections.abc import Callable

import attrs

from timermq.pipeline.timer_message_store import TimerMessageStore
from timermq.remoting.codes import VERSION

from ..options import BrokerOptions
from .broker_rates import BrokerRates, Totals
from .broker_stats import BrokerStats

_POOLS = ("ack", "litePull", "pull", "query", "send")
NOT_HERE = {
    # RocketMQ's pools of threads: here requests wait in sockets alone.
    **{
        f"{pool}ThreadPoolQueue{what}": "0"
        for pool in _POOLS
        for what in ("Capacity", "HeadWaitTimeMills", "Size")
    },
    "EndTransactionQueueSize": "0",
    "EndTransactionThreadPoolQueueCapacity": "0",
    # Bytes on their way to the queues are not counted apart, and no lock is held over a put.
    "dispatchMaxBuffer": "0",
    "pageCacheLockTimeMills": "0",
    # Memory beside the page cache: RocketMQ's number where it has none.
    "remainTransientStoreBufferNumbs": "2147483647",
}
"""Names of features that are not here, with values that never change."""


@attrs.frozen(eq=False, kw_only=True)
class RuntimeInfo:
    """The names and their values at this moment."""

    options: BrokerOptions
    timer_store: TimerMessageStore
    stats: BrokerStats
    now_ms: Callable[[], int]
    started_ms: int

    @property
    def rates(self) -> BrokerRates:
        """Messages and pulls a second."""
        return self.stats.rates

    def table(self) -> dict[str, str]:
        """All names with their values; users' messages are counted up to the last reading."""
        return {
            **NOT_HERE,
            **self._identity(),
            **self._days(),
            **self._traffic(),
            **self._puts(),
            **self._files(),
            **self._disk(),
            **self._timers(),
        }

    def _identity(self) -> dict[str, str]:
        uptime_ms = max(self.now_ms() - self.started_ms, 0)
        version = importlib.metadata.version("timermq")
        begins_ms = self.options.start_accept_send_request_time_stamp
        return {
            "bootTimestamp": str(self.started_ms),
            "brokerActive": "true",
            "brokerVersion": str(VERSION),
            "brokerVersionDesc": f"TIMERMQ_{version}",
            "runtime": _duration(uptime_ms),
            "startAcceptSendRequestTimeStamp": str(begins_ms),
        }

    def _days(self) -> dict[str, str]:
        now, rates = self.rates.totals(), self.rates
        morning, yesterday = rates.morning, rates.yesterday_morning
        return {
            "msgGetTotalTodayMorning": str(morning.user_got),
            "msgGetTotalTodayNow": str(now.user_got),
            "msgGetTotalYesterdayMorning": str(yesterday.user_got),
            "msgPutTotalTodayMorning": str(morning.user_put),
            "msgPutTotalTodayNow": str(now.user_put),
            "msgPutTotalYesterdayMorning": str(yesterday.user_put),
        }

    def _traffic(self) -> dict[str, str]:
        return {
            "getFoundTps": self._tps(lambda one: one.found),
            "getMessageEntireTimeMax": str(int(self.rates.pull_seconds_max * 1000)),
            "getMissTps": self._tps(lambda one: one.missed),
            "getTotalTps": self._tps(lambda one: one.found + one.missed),
            "getTransferredTps": self._tps(lambda one: one.got),
            "putTps": self._tps(lambda one: one.put),
        }

    def _puts(self) -> dict[str, str]:
        store, times = self.timer_store.store.statistics(), self.stats.put_times
        count = max(store.put_count, 1)
        return {
            "putLatency99": f"{times.latency_ms(0.99):.2f}",
            "putLatency999": f"{times.latency_ms(0.999):.2f}",
            "putMessageAverageSize": str(store.put_size / count),
            "putMessageDistributeTime": times.spread(),
            "putMessageEntireTimeMax": str(times.max_ms),
            "putMessageFailedTimes": str(store.refused_count),
            "putMessageSizeTotal": str(store.put_size),
            "putMessageTimesTotal": str(count),
        }

    def _files(self) -> dict[str, str]:
        store = self.timer_store.store
        log, now = store.commit_log, store.statistics()
        return {
            "commitLogMaxOffset": str(now.max_phy_offset),
            "commitLogMinOffset": str(now.min_phy_offset),
            "dispatchBehindBytes": str(now.max_phy_offset - now.dispatched_to),
            "earliestMessageTimeStamp": str(log.earliest_store_ms() or self.now_ms()),
            "remainHowManyDataToFlush": size_text(log.max_offset - log.flushed_where),
        }

    def _disk(self) -> dict[str, str]:
        store = self.timer_store.store
        usage = store.disk.usage(store.root)
        # Of what this user may fill, as in Java; the system may keep some for its own.
        ratio = f"{usage.used / max(usage.used + usage.free, 1):.4f}"
        total, free = size_text(usage.total), size_text(usage.free)
        return {
            "commitLogDirCapacity": f"Total : {total}, Free : {free}.",
            "commitLogDiskRatio": ratio,
            f"commitLogDiskRatio_{store.root}/commitlog": ratio,
            "consumeQueueDiskRatio": ratio,
        }

    def _timers(self) -> dict[str, str]:
        timer, state = self.timer_store.statistics(), self.timer_store.state
        behind_ms = max(min(timer.now_ms, state.write_ms) - timer.read_ms, 0)
        return {
            "timerCongestNum": str(timer.pending),
            "timerDequeueTps": f"{self._minute(lambda one: one.dequeued):.2f}",
            "timerEnqueueTps": f"{self._minute(lambda one: one.enqueued):.2f}",
            "timerOffsetBehind": str(max(timer.queue_offset_max - timer.commit_queue_offset, 0)),
            "timerReadBehind": str(behind_ms // 1000),
            # Left by RocketMQ in queues of classic levels; here levels wait on the wheel.
            **{
                f"scheduleMessageOffset_{level}": f"{next_offset},{end}"
                for level, (next_offset, end) in self.timer_store.takeover.progress().items()
            },
        }

    def _tps(self, value: Callable[[Totals], int]) -> str:
        """Over ten seconds, one and ten minutes."""
        return " ".join(f"{rate:.2f}" for rate in self.rates.rates(value))

    def _minute(self, value: Callable[[Totals], int]) -> float:
        return self.rates.rates(value)[1]


def size_text(size: int) -> str:
    """A number of bytes as RocketMQ writes it: ``252.0 GiB``, ``0 B``."""
    units = ("B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB")
    power = max(size.bit_length() - 1, 0) // 10
    return f"{size} B" if not power else f"{size / (1 << 10 * power):.1f} {units[power]}"


def _duration(time_ms: int) -> str:
    """As Java writes it: ``[ 0 days, 0 hours, 1 minutes, 9 seconds ]``."""
    minutes, seconds = divmod(time_ms // 1000, 60)
    hours, minutes = divmod(minutes, 60)
    days, hours = divmod(hours, 24)
    return f"[ {days} days, {hours} hours, {minutes} minutes, {seconds} seconds ]"
