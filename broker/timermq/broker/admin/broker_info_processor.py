"""The broker about itself: its rates, its settings, its tables as files have them.

Source: Java ``AdminBrokerProcessor``: ``prepareRuntimeInfo``, ``getBrokerConfig`` and others.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import attrs
import structlog

from timermq.pipeline.timer_message_store import TimerMessageStore
from timermq.remoting.admin_body import encode_properties
from timermq.remoting.codes import RequestCode, ResponseCode
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
from ..dispatcher import Handler, StepHandler
from ..namesrv.own_broker import OwnBroker
from ..options import BrokerOptions
from ..refusal import RefusedError
from ..replication.acknowledged_checkpoint import AcknowledgedCheckpoint
from ..replication.followers import Followers
from ..replication.greeting import OURS
from ..session import Session
from ..steps import Steps, at_once
from ..topic_config import TopicConfigTable
from .broker_stats import STATISTICS, BrokerStats, per_call, tps
from .live_settings import change_on_request, settings_text
from .runtime_info import RuntimeInfo

log = structlog.get_logger("timermq.broker.admin.broker_info_processor")


@attrs.frozen(eq=False, kw_only=True)
class BrokerInfoProcessor:
    """Answers questions about the broker: rates, settings, tables, clean-up."""

    options: BrokerOptions
    timer_store: TimerMessageStore
    topics: TopicConfigTable
    offsets: ConsumerOffsetTable
    stats: BrokerStats
    runtime: RuntimeInfo
    own: OwnBroker
    followers: Followers
    now_ms: Callable[[], int]
    acknowledged: AcknowledgedCheckpoint = attrs.Factory(AcknowledgedCheckpoint)

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

    def in_steps(self) -> Mapping[int, StepHandler]:
        """Request code to the steps of an answer that may take long."""
        return {RequestCode.GET_BROKER_RUNTIME_INFO: self.runtime_info_steps}

    def runtime_info(self, session: Session, command: Command) -> Command | None:
        """How busy the broker is, name by name (28)."""
        return at_once(self.runtime_info_steps(session, command))

    def runtime_info_steps(self, _session: Session, command: Command) -> Steps[Command | None]:
        """The same in steps: messages since the last reading of the queues are counted first."""
        yield from self.stats.sizes.read(self.timer_store.store)
        table = self.runtime.table()
        return command.answer(ResponseCode.SUCCESS, body=encode_json({"table": table}))

    def config(self, _session: Session, command: Command) -> Command:
        """All settings, as properties (26), and where followers link."""
        version = fastjson(version_json(self.topics.data_version), pretty=False)
        settings = settings_text(self._sections())
        if self.own.ha_address:
            settings |= {"haListenPort": self.own.ha_address.rpartition(":")[2], OURS: "1"}
        return command.answer(
            ResponseCode.SUCCESS, ext={"version": version}, body=encode_properties(settings)
        )

    def update_config(self, session: Session, command: Command) -> Command:
        """Change settings until the next start: all that are named, or none (25)."""
        return change_on_request(session, command, self._sections(), self.topics)

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
        """The seven numbers of the timer checkpoint (60), as far as followers have its log."""
        page = self.acknowledged.answer(
            self.timer_store.files.checkpoint.encode()[: CHECKPOINT.size],
            self.timer_store.store.commit_log.max_offset,
            self.followers.acknowledged_by_all(),
        )
        if page is None:
            raise RefusedError(
                ResponseCode.SYSTEM_ERROR,
                "TIMER_CHECK_POINT",
                "no follower has acknowledged the log up to a checkpoint yet: ask again",
            )
        return command.answer(ResponseCode.SUCCESS, body=page)

    def timer_metrics(self, _session: Session, command: Command) -> Command:
        """Numbers of pending messages, by topic (61)."""
        metrics = self.timer_store.files.metrics.text(self.now_ms())
        return command.answer(ResponseCode.SUCCESS, body=metrics.encode())

    def stats_data(self, _session: Session, command: Command) -> Command:
        """Growth of one of ``STATISTICS`` in the last minute, hour and day (315)."""
        header = StatsHeader.of(command)
        name, key = header.stats_name, header.stats_key
        found = self.stats.growth(name, key)
        if found is None:
            raise RefusedError(
                ResponseCode.SYSTEM_ERROR,
                "STATS_NAME" if name not in STATISTICS else "STATS_KEY",
                f"The stats <{ascii(name)[1:-1][:130]}> <{ascii(key)[1:-1][:260]}> not exist",
            )
        _, column = STATISTICS[name]
        body = {
            span: {
                "avgpt": per_call(growth, column),
                "sum": growth.counts[column],
                "tps": tps(growth, column),
            }
            for span, growth in found.items()
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
