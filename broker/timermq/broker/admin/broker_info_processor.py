"""The broker about itself: its rates, its settings, its tables as files have them.

Source: Java ``AdminBrokerProcessor``: ``prepareRuntimeInfo``, ``getBrokerConfig`` and others.
"""

from __future__ import annotations

import importlib.metadata
from collections.abc import Callable, Mapping, Sequence

import attrs
import structlog

from timermq.pipeline.timer_message_store import TimerMessageStore
from timermq.remoting.admin_body import decode_properties, encode_properties
from timermq.remoting.codes import VERSION, RequestCode, ResponseCode
from timermq.remoting.command import Command
from timermq.remoting.query_header import StatsHeader
from timermq.remoting.queue_json import encode_json
from timermq.timerlog.timer_checkpoint import CHECKPOINT
from timermq.timerstore.config_file import load_json
from timermq.timerstore.delay_offset import PATH as DELAY_OFFSET_FILE
from timermq.timerstore.fastjson import fastjson

from ..config_table import version_json
from ..consumer_offset import ConsumerOffsetTable
from ..deferred_answers import answer_later
from ..dispatcher import Handler
from ..options import BrokerOptions
from ..refusal import RefusedError
from ..session import Session
from ..topic_config import TopicConfig, TopicConfigTable
from .broker_rates import DAY_MS, HOUR_MS, MINUTE_MS, BrokerRates, Totals, topic_put_count
from .live_settings import change_settings, settings_text

STATS_TOPIC_PUT = "TOPIC_PUT_NUMS"
STATS_GROUP_GET = "GROUP_GET_NUMS"

log = structlog.get_logger("timermq.broker.admin.broker_info_processor")


@attrs.frozen(eq=False, kw_only=True)
class BrokerInfoProcessor:
    """Answers questions about the broker: rates, settings, tables, clean-up."""

    options: BrokerOptions
    timer_store: TimerMessageStore
    topics: TopicConfigTable
    offsets: ConsumerOffsetTable
    rates: BrokerRates
    now_ms: Callable[[], int]
    started_ms: int

    def handlers(self) -> Mapping[int, Handler]:
        """Request code to the method that answers it."""
        return {
            RequestCode.GET_BROKER_RUNTIME_INFO: self.runtime_info,
            RequestCode.GET_BROKER_CONFIG: self.config,
            RequestCode.UPDATE_BROKER_CONFIG: self.update_config,
            RequestCode.GET_ALL_CONSUMER_OFFSET: self.all_consumer_offsets,
            RequestCode.GET_ALL_DELAY_OFFSET: self.all_delay_offsets,
            RequestCode.GET_TIMER_CHECK_POINT: self.timer_checkpoint,
            RequestCode.GET_TIMER_METRICS: self.timer_metrics,
            RequestCode.VIEW_BROKER_STATS_DATA: self.stats_data,
            RequestCode.CLEAN_EXPIRED_CONSUMEQUEUE: self.clean_files,
            RequestCode.DELETE_EXPIRED_COMMITLOG: self.clean_files,
        }

    def runtime_info(self, _session: Session, command: Command) -> Command:
        """How busy the broker is, name by name (28)."""
        table = {**self._identity(), **self._traffic(), **self._files(), **self._timers()}
        return command.answer(ResponseCode.SUCCESS, body=encode_json({"table": table}))

    def config(self, _session: Session, command: Command) -> Command:
        """All settings, as properties (26)."""
        version = fastjson(version_json(self.topics.data_version), pretty=False)
        return command.answer(
            ResponseCode.SUCCESS,
            ext={"version": version},
            body=encode_properties(settings_text(self._sections())),
        )

    def update_config(self, session: Session, command: Command) -> Command:
        """Change settings until the next start: all that are named, or none (25)."""
        changed = change_settings(self._sections(), decode_properties(command.body))
        for key, value in changed.items():
            log.warning(
                "setting changed until the next start",
                key=key,
                value=value,
                remote=session.remote_address,
            )
        if changed:
            self.topics.settings_changed()
        return command.answer(ResponseCode.SUCCESS)

    def all_consumer_offsets(self, _session: Session, command: Command) -> Command:
        """The table of committed offsets, as its file has it (43)."""
        return command.answer(ResponseCode.SUCCESS, body=encode_json(self.offsets.to_json()))

    def all_delay_offsets(self, _session: Session, command: Command) -> Command:
        """How far the classic levels are, as their file has it (45)."""
        store = self.timer_store.store
        found = load_json(store.disk, f"{store.root}/{DELAY_OFFSET_FILE}")
        body = fastjson({"offsetTable": {}} if found is None else found)
        return command.answer(ResponseCode.SUCCESS, body=body.encode())

    def timer_checkpoint(self, _session: Session, command: Command) -> Command:
        """The seven numbers of the timer checkpoint (60)."""
        return command.answer(
            ResponseCode.SUCCESS, body=self.timer_store.files.checkpoint.encode()[: CHECKPOINT.size]
        )

    def timer_metrics(self, _session: Session, command: Command) -> Command:
        """Numbers of pending messages, by topic (61)."""
        metrics = self.timer_store.files.metrics.text(self.now_ms())
        return command.answer(ResponseCode.SUCCESS, body=metrics.encode())

    def stats_data(self, _session: Session, command: Command) -> Command:
        """Messages of the last minute, hour and day: put to a topic, or got of it by a group (315).

        What a group got is known for the last minute only.
        """
        header = StatsHeader.of(command)
        name, key = header.stats_name, header.stats_key
        if name == STATS_TOPIC_PUT:
            now_ms, store = self.now_ms(), self.timer_store.store
            config = self.topics.get(key) or TopicConfig(topic_name=key, write_queue_nums=0)
            spans = (MINUTE_MS, HOUR_MS, DAY_MS)
            sums = [topic_put_count(store, config, from_ms=now_ms - span) for span in spans]
        elif name == STATS_GROUP_GET:
            topic, _, group = key.partition("@")
            sums = [self.rates.consumed(topic, group), 0, 0]
        else:
            raise RefusedError(
                ResponseCode.SYSTEM_ERROR,
                "STATS_NAME",
                f"expected {STATS_TOPIC_PUT} or {STATS_GROUP_GET}, found {ascii(name)[:130]}",
            )
        body = {
            field: {"avgpt": 0.0, "sum": count, "tps": count / (span / 1000)}
            for field, span, count in zip(
                ("statsMinute", "statsHour", "statsDay"),
                (MINUTE_MS, HOUR_MS, DAY_MS),
                sums,
                strict=True,
            )
        }
        return command.answer(ResponseCode.SUCCESS, body=encode_json(body))

    def clean_files(self, session: Session, command: Command) -> None:
        """Remove old files now, by the same rules as in the background (306, 329)."""

        async def clean() -> Command:
            removed = await self.timer_store.store.clean()
            log.info("cleaned on request", segments=removed, remote=session.remote_address)
            return command.answer(ResponseCode.SUCCESS)

        answer_later(session, command, clean)

    def _sections(self) -> Sequence[attrs.AttrsInstance]:
        """The options that this broker works with."""
        return self.options, self.timer_store.store.options, self.timer_store.options

    def _identity(self) -> dict[str, str]:
        uptime_ms = max(self.now_ms() - self.started_ms, 0)
        version = importlib.metadata.version("timermq")
        return {
            "bootTimestamp": str(self.started_ms),
            "brokerActive": "true",
            "brokerVersion": str(VERSION),
            "brokerVersionDesc": f"TIMERMQ_{version}",
            "runtime": _duration(uptime_ms),
            "startAcceptSendRequestTimeStamp": str(
                self.options.start_accept_send_request_time_stamp
            ),
        }

    def _traffic(self) -> dict[str, str]:
        now, rates = self.rates.totals(), self.rates
        morning, yesterday = rates.morning, rates.yesterday_morning
        got_tps = _rates(rates.rates(lambda one: one.got))
        return {
            "getFoundTps": got_tps,
            "getTransferredTps": got_tps,
            "msgGetTotalTodayMorning": str(morning.got),
            "msgGetTotalTodayNow": str(now.got),
            "msgGetTotalYesterdayMorning": str(yesterday.got),
            "msgPutTotalTodayMorning": str(morning.put),
            "msgPutTotalTodayNow": str(now.put),
            "msgPutTotalYesterdayMorning": str(yesterday.put),
            "putTps": _rates(rates.rates(lambda one: one.put)),
            # RocketMQ's pools of threads: here requests wait in sockets alone.
            **{
                f"{pool}ThreadPoolQueue{what}": "0"
                for pool in ("ack", "litePull", "pull", "query", "send")
                for what in ("Capacity", "HeadWaitTimeMills", "Size")
            },
        }

    def _files(self) -> dict[str, str]:
        store = self.timer_store.store
        log_, now = store.commit_log, store.statistics()
        return {
            "commitLogDiskRatio": f"{now.disk_used_ratio:.4f}",
            "commitLogMaxOffset": str(now.max_phy_offset),
            "commitLogMinOffset": str(now.min_phy_offset),
            "consumeQueueDiskRatio": f"{now.disk_used_ratio:.4f}",
            "dispatchBehindBytes": str(now.max_phy_offset - now.dispatched_to),
            "dispatchMaxBuffer": "0",
            "earliestMessageTimeStamp": str(log_.earliest_store_ms() or self.now_ms()),
            "pageCacheLockTimeMills": "0",
            "remainHowManyDataToFlush": str(log_.max_offset - log_.flushed_where),
        }

    def _timers(self) -> dict[str, str]:
        timer, state = self.timer_store.statistics(), self.timer_store.state
        behind_ms = max(min(timer.now_ms, state.write_ms) - timer.read_ms, 0)
        return {
            "timerCongestNum": str(timer.pending),
            "timerDequeueTps": f"{self._rate(lambda one: one.dequeued):.2f}",
            "timerEnqueueTps": f"{self._rate(lambda one: one.enqueued):.2f}",
            "timerOffsetBehind": str(max(timer.queue_offset_max - timer.commit_queue_offset, 0)),
            "timerReadBehind": str(behind_ms // 1000),
            # Left by RocketMQ in queues of classic levels; here levels wait on the wheel.
            **{
                f"scheduleMessageOffset_{level}": f"{next_offset},{end}"
                for level, (next_offset, end) in self.timer_store.takeover.progress().items()
            },
        }

    def _rate(self, value: Callable[[Totals], int]) -> float:
        return self.rates.rates(value)[1]


def _rates(rates: Sequence[float]) -> str:
    return " ".join(f"{rate:.2f}" for rate in rates)


def _duration(time_ms: int) -> str:
    """As Java writes it: ``[ 0 days, 0 hours, 1 minutes, 9 seconds ]``."""
    minutes, seconds = divmod(time_ms // 1000, 60)
    hours, minutes = divmod(minutes, 60)
    days, hours = divmod(hours, 24)
    return f"[ {days} days, {hours} hours, {minutes} minutes, {seconds} seconds ]"
