"""The broker: a store, its timer service, the processors and the server, from start to stop.

Start: the sockets are bound first (a port in use is known before anything is touched), then the
store is opened and recovered, then the tables are read; requests are taken last.

Stop, in this order and within a bound: no connection is accepted and nothing received any more;
open requests are answered; the timer service drains; the tables are saved; the store flushes
everything, writes its checkpoint and removes its abort file. What does not finish in time is cut
off and found again by recovery. A service that fails ends the broker without a clean stop, and
recovery does its work at the next start: half a broker is worse than none.

Source: Java ``BrokerController``.
"""

from __future__ import annotations

import os
import random
import time
from collections.abc import Callable
from contextlib import closing
from functools import cached_property
from typing import TYPE_CHECKING

import attrs
import structlog
import trio

from timermq.pipeline.clock.clock import Clock, WatchedClock, trio_time_ms
from timermq.pipeline.records.system_topics import OWN_TOPICS
from timermq.pipeline.state.timer_options import TimerOptions
from timermq.pipeline.timer_message_store import TimerMessageStore
from timermq.timerstore.consume_queue import ConsumeQueue
from timermq.timerstore.disk import Disk
from timermq.timerstore.message_id import UniqueIdGenerator
from timermq.timerstore.message_store import MessageStore
from timermq.timerstore.store_options import StoreOptions

from .broker_parts import BrokerParts
from .broker_statistics import BrokerStatistics
from .compatibility import SERVED
from .config_table import ConfigSaver
from .endpoint import Endpoint
from .failure import failure_told
from .front_end import FrontEnd
from .namesrv.name_server_link import NameServerLinks, OpenStream, open_tcp
from .options import STOP_TIMEOUT_MS, BrokerOptions
from .processors import Processors
from .replication.master_side import MasterSide
from .replication.replica import FOLLOWS, Replica
from .security.access_control import AccessControl
from .security.outward_access import OutwardAccess
from .security.tls import Tls
from .transactions.transaction_check import TransactionCheck
from .transactions.transactions import Transactions

if TYPE_CHECKING:
    from .metrics.http_server import HttpServer
    from .metrics.metrics_page import MetricsPage

REQUESTS_SHARE = 0.3
TIMERS_SHARE = 0.3
FOLLOWERS_SHARE = 0.1
"""Parts of the stop's time for open requests, for the timers, and for followers to get what is
left of the log; the rest is for the disk."""

log = structlog.get_logger("timermq.broker.broker")


class Broker(Replica):
    """One broker process; made by ``open``.

    Args:
        endpoint: Bound sockets and names.
        timer_store: The timer service over an open store.
        options: Settings of the broker.
        clock: The wall clock.
        stop_timeout_ms: Bound of a graceful stop.
        work_seconds: How long this thread has worked so far.
        open_stream: Opens connections to name servers, and to other replicas.
        steady_ms: A monotonic clock, milliseconds, that a lease is judged by.
        draw: A number from 0 to 1, another each time, that pauses are varied by.
    """

    def __init__(
        self,
        *,
        endpoint: Endpoint,
        timer_store: TimerMessageStore,
        options: BrokerOptions,
        clock: WatchedClock,
        stop_timeout_ms: int = STOP_TIMEOUT_MS,
        work_seconds: Callable[[], float] = time.thread_time,
        open_stream: OpenStream = open_tcp,
        steady_ms: Callable[[], float] = trio_time_ms,
        draw: Callable[[], float] = random.random,
    ) -> None:
        # A copy: what an operator changes while this broker serves concerns this one alone.
        self.options = options = attrs.evolve(options)
        self.endpoint = endpoint
        self.timer_store = timer_store
        self.store = timer_store.store
        self._clock = clock
        self._stop_timeout = stop_timeout_ms / 1000
        self._services = trio.CancelScope(shield=True)
        self._stop_requested = trio.Event()
        self._timers_done = trio.Event()
        self._ingesting = trio.CancelScope()
        parts = BrokerParts.of(
            options,
            timer_store,
            clock.now_ms,
            address=endpoint.address,
            ha_address=endpoint.ha_address,
            unique_ids=UniqueIdGenerator(
                endpoint.store_host,
                os.getpid(),
                instance=clock.now_ms() & 0xFFFFFFFF,
                now_ms=clock.now_ms,
            ),
            work_seconds=work_seconds,
        )
        self.tables = parts.tables
        self.role = parts.tables.role
        self._open_stream, self._draw = open_stream, draw
        self._outward = OutwardAccess(options, open_stream)
        self.name_servers = NameServerLinks(
            options.registers_with,
            self.tables.own,
            self._outward.open_name_server,
            self._outward.sign,
        )
        """The name servers at which this broker registers."""
        self._saver = self._load_tables()
        timer_store.scrub.tables.add_owner(self._saver.write_again)
        self.transactions = Transactions(timer_store, self.tables.offsets, options)
        self.transaction_check = TransactionCheck(
            self.transactions, self.tables.clients, self.tables.topics, options, clock.now_ms
        )
        self.succession = self._make_succession()
        """Which replica leads, and how that changes."""
        self.lease = self._lease_keeper(steady_ms)
        """What this broker leads by, if that is a lease."""
        self.access = AccessControl.of(options, self.store, frozenset(SERVED))
        self.tls = Tls(options, endpoint.sockets)
        self.processors = Processors.build(
            parts,
            transactions=self.transactions,
            clock=clock,
            store_host=endpoint.store_host,
            saved=self._saver.saved,
            access=self.access,
            tls=self.tls,
            succession=self.succession,
        )
        self.dispatcher = self.processors.dispatcher(self.tables, self.access)
        self.master_side = MasterSide(
            options,
            self.store,
            self.tables.followers,
            endpoint.sockets,
            listens=endpoint.ha_listener is not None,
            role=self.role,
            wake_readers=self.tables.long_polling.wake_all,
        )
        """The links of followers."""
        if self.master_side.listens:
            self.succession.begin_first()
        self.master_side.epochs = self.succession.told_epochs
        self._front_end = FrontEnd(
            options,
            endpoint.sockets,
            self.tls,
            self.tables,
            self.dispatcher,
            message_size_max=self.store.options.max_message_size,
        )
        self.server = self._front_end.server
        if not self.role.is_master:
            timer_store.park()
            self._park()
        self.store.on_arrival(self.tables.long_polling.notify_message_arriving)
        self.store.on_arrival(self._let_read)

    @classmethod
    async def open(
        cls,
        *,
        disk: Disk,
        root: str,
        options: BrokerOptions,
        store_options: StoreOptions,
        timer_options: TimerOptions,
        clock: Clock,
        steady_ms: Callable[[], float] = trio_time_ms,
        stop_timeout_ms: int = STOP_TIMEOUT_MS,
    ) -> Broker:
        """Bind the sockets, open and recover the store and its timers; ``run`` takes requests.

        Args:
            disk: The disk of the store.
            root: Its directory.
            options: Settings of the broker.
            store_options: Settings of the store.
            timer_options: Settings of the timer service.
            clock: The wall clock; it is watched.
            steady_ms: A monotonic clock, milliseconds, to watch it by.
            stop_timeout_ms: Bound of a graceful stop.

        Raises:
            OSError: A socket or a file cannot be had.
            StoreError: The store is foreign, damaged, or served by another process.
            ConfigTableError: A table under ``config/`` holds something else.
            PlainAclError: The rules of access cannot be read.
            TlsError: Certificate or key cannot be used.
            CredentialsError: The account of this broker cannot be used.
        """
        endpoint = await Endpoint.bind(options)
        try:
            watched = WatchedClock(clock, timer_options, steady_ms)
            store = MessageStore.open(
                disk, root, store_options, now_ms=watched.now_ms, store_host=endpoint.store_host
            )
            try:
                timer_store = TimerMessageStore(store, timer_options, watched)
                watched.begin(timer_store.persisted_ms)
                return cls(
                    endpoint=endpoint,
                    timer_store=timer_store,
                    options=options,
                    clock=watched,
                    stop_timeout_ms=stop_timeout_ms,
                    steady_ms=steady_ms,
                )
            except BaseException:
                store.abandon()
                raise
        except BaseException:
            endpoint.close()
            raise

    def request_stop(self) -> None:
        """Begin a graceful stop; ``run`` returns when it is done."""
        self._stop_requested.set()

    def abort(self) -> None:
        """End at once, as a kill does: nothing is flushed, saved or marked, and recovery follows.

        For callers that cannot wait for a graceful stop; the process's end closes files and lock.
        """
        self._services.cancel()
        self._stop_requested.set()

    async def run(
        self, *, task_status: trio.TaskStatus[Endpoint] = trio.TASK_STATUS_IGNORED
    ) -> None:
        """Serve until ``request_stop`` or cancellation, and stop gracefully either way.

        Raises:
            BaseExceptionGroup: A service failed; nothing was marked as cleanly stopped.

        Cancellation: takes as long as a graceful stop does, at most its bound.
        """
        async with trio.open_nursery() as nursery:
            try:
                try:
                    await nursery.start(self._serve, name="broker services")
                except RuntimeError:
                    if self.next_life is None:
                        raise
                    # It was fenced while it started.
                    task_status.started(self.endpoint)
                    return
                log.info(
                    "broker ready",
                    broker=self.options.broker_name,
                    address=self.endpoint.address,
                    listen=self.endpoint.listen,
                    vip_listen=self.endpoint.vip_listen,
                    namesrv_listen=self.endpoint.namesrv_listen,
                    metrics_listen=self.endpoint.metrics_listen,
                    ha_listen=self.endpoint.ha_listen,
                    store=self.store.root,
                )
                task_status.started(self.endpoint)
                await self._stop_requested.wait()
            finally:
                self._stop_requested.set()

    def statistics(self) -> BrokerStatistics:
        """A moment's picture; reads memory only."""
        tables, send = self.tables, self.processors.send
        return BrokerStatistics(
            now_ms=self._clock.now_ms(),
            connections=self.server.connections,
            connections_accepted=self.server.accepted,
            connections_turned_away=self.server.turned_away,
            held_pulls=tables.long_polling.held,
            unflushed_answers=tables.durable.waiting,
            topics=sum(1 for _ in tables.topics.all()),
            subscription_groups=sum(1 for _ in tables.groups.all()),
            requests=dict(self.dispatcher.requests),
            send_messages=send.messages,
            send_requests_refused=send.refused,
            bulk_ingested=self.processors.bulk.ingest_task.ingested,
            bulk_refused=self.processors.bulk.ingest_task.refused,
            store=self.store.statistics(),
            timer=self.timer_store.statistics(),
            scrub=self.timer_store.scrub.statistics(),
            transactions=self.transactions.statistics(),
            clock=self._clock.status(),
            followers=tables.followers.rows(),
            followers_refused=self.master_side.service.refused,
            following=tables.follow_row(),
            tls_refused=self.tls.refused,
            tls_problem=self.tls.problem,
            access=None if self.access is None else self.access.statistics(),
            epoch=max(self.succession.epochs.epochs.last_number, 0),
            lease=None if self.lease is None else self.lease.status(),
        )

    @cached_property
    def metrics_page(self) -> MetricsPage:
        """The page of metrics, made at its first use."""
        # Imported late: with the library below it, it is a tenth of the time that a start takes.
        from .metrics.metrics_page import MetricsPage

        return MetricsPage(
            options=self.options,
            tables=self.tables,
            timer_store=self.timer_store,
            transactions=self.transactions,
            source=self.processors.watch.source,
            statistics=self.statistics,
        )

    @cached_property
    def http_server(self) -> HttpServer:
        """The server of metrics and health; None where the settings have none."""
        from .metrics.http_server import HttpServer, Pages

        return HttpServer(
            Pages(metrics=self.metrics_page, unready=self.unready),
            connections_max=self.options.metrics_connections_max,
            names=self.options.metrics_names,
        )

    def unready(self) -> str | None:
        """Why sends are not taken now; None when they are."""
        if self._stop_requested.is_set():
            return "the broker stops"
        if not self.options.is_writeable:
            return f"broker_permission {self.options.broker_permission} lets no messages in"
        if not self.role.is_master:
            return FOLLOWS if self.lease is None else self.lease.refusal() or FOLLOWS
        begins_ms = self.options.start_accept_send_request_time_stamp
        if self._clock.now_ms() < begins_ms:
            return f"sends are taken from {begins_ms} on (start_accept_send_request_time_stamp)"
        return self.store.writeable()

    async def _serve(
        self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED
    ) -> None:
        """The services; shielded, so that a cancelled ``run`` still stops in order."""
        with self._services, failure_told(), closing(self.endpoint.sockets):
            async with trio.open_nursery() as services:
                await services.start(self.store.run, name="store")
                await services.start(self._run_timers, name="timers")
                await services.start(self.tables.durable.run, name="durable answers")
                await services.start(self.tables.long_polling.run, self.processors.pull.run_again)
                services.start_soon(self.tables.clients.notices.run, name="group notices")
                await services.start(self._saver.run, name="config saver")
                services.start_soon(self.processors.watch.run, name="watchers")
                if self.access is not None:
                    await services.start(self.access.run, name="access control")
                services.start_soon(self._check_transactions, name="transaction check")
                await services.start(self._front_end.run, self.endpoint.listeners, name="front end")
                services.start_soon(self.processors.name_server.run, name="name server")
                await services.start(self.processors.reply.run, name="replies")
                if self.endpoint.ha_listener is not None:
                    listener = self.endpoint.ha_listener
                    await services.start(self.master_side.run, listener, name="followers")
                services.start_soon(self.name_servers.run, name="registrations")
                services.start_soon(self.succession.run, name="succession")
                services.start_soon(self._follow_master, name="following")
                services.start_soon(self._put_back_sectors, name="sectors put back")
                if self.lease is not None:
                    await services.start(self.lease.run, name="lease")
                services.start_soon(self._ingest_bulk, name="bulk ingest")
                if self.endpoint.metrics_listener is not None:
                    listeners = [self.endpoint.metrics_listener]
                    await services.start(self.http_server.run, listeners, name="metrics")
                task_status.started()
                await self._stop_requested.wait()
                await self._stop_services()
                services.cancel_scope.cancel()
            await self._saver.save()
            await self.store.aclose()
            log.info("broker stopped", broker=self.options.broker_name)

    async def _run_timers(
        self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED
    ) -> None:
        await self.timer_store.run(task_status=task_status)
        self._timers_done.set()

    async def _ingest_bulk(self) -> None:
        with self._ingesting:
            work = self.processors.bulk.ingest_task.run
            await self.role.run_while(is_master=True, work=work)

    async def _check_transactions(self) -> None:
        await self.role.run_while(is_master=True, work=self.transaction_check.run)

    async def _stop_services(self) -> None:
        """Let requests and timers finish, each within its share of the time."""
        self._ingesting.cancel()
        with trio.move_on_after(self._stop_timeout * REQUESTS_SHARE) as requests:
            await self.name_servers.say_goodbye()
            await self.server.stop()
        self.timer_store.request_stop()
        with trio.move_on_after(self._stop_timeout * TIMERS_SHARE) as timers:
            await self._timers_done.wait()
        with trio.move_on_after(self._stop_timeout * FOLLOWERS_SHARE) as followers:
            await self.master_side.drain()
        if self.lease is not None and not followers.cancelled_caught:
            await self.lease.give_up()
        if requests.cancelled_caught or timers.cancelled_caught:
            log.warning(
                "stop cut short",
                requests_left=requests.cancelled_caught,
                timers_left=timers.cancelled_caught,
            )

    def _let_read(self, queue: ConsumeQueue) -> None:
        """See to it that what arrives can be read: its topic may be gone, or have fewer queues.

        A follower has the topics of its master, which sees to it.
        """
        if queue.topic not in OWN_TOPICS and self.role.is_master:
            self.tables.topics.let_read(queue.topic, queue.queue_id)

    def _load_tables(self) -> ConfigSaver:
        """Read the tables' files, and add the topics that only the store knows."""
        tables = self.tables
        saver = ConfigSaver(
            self.store.disk,
            self.store.root,
            prompt=(tables.topics, tables.groups, tables.texts, tables.locks),
            periodic=(tables.offsets,),
            interval_ms=self.options.flush_consumer_offset_interval_ms,
        )
        saver.load()
        self.tables.restore_topics(self.store.queues())
        tables.topics.on_change(saver.changed)
        tables.topics.on_change(self.name_servers.changed)
        tables.role.on_change(self.name_servers.changed)
        tables.groups.on_change(saver.changed)
        tables.locks.on_change(saver.changed)
        return saver
