"""Every processor with what it works on, and the table of request codes.

A new family of codes gets a module of its own, a field in ``Processors`` and its lines in
``handlers``; a family that is not here is answered with 3.
"""

from __future__ import annotations

import os
from collections.abc import Mapping

import attrs

from timermq.pipeline.clock.clock import WatchedClock
from timermq.pipeline.run_admission import RunAdmission
from timermq.pipeline.timer_message_store import TimerMessageStore
from timermq.remoting.codes import RequestCode
from timermq.timerstore.message_id import UniqueIdGenerator

from .admin.admin_processors import AdminProcessors
from .admin.query_processor import QueryProcessor
from .admin.topic_processor import Saved
from .bulk.bulk_scheduling import BulkScheduling
from .consuming.client_processor import ClientProcessor
from .consuming.lock_processor import LockProcessor
from .consuming.offset_processor import OffsetProcessor
from .consuming.pull_processor import PullProcessor
from .consuming.send_back_processor import SendBackProcessor
from .dispatcher import Dispatcher, Handler
from .indexed_requests import when_indexed
from .namesrv.name_server_processor import NameServerProcessor
from .namesrv.route_processor import RouteProcessor
from .options import BrokerOptions
from .pending.cancel_processor import CancelProcessor
from .pending.explain_processor import ExplainProcessor
from .pending.pending_processor import PendingProcessor
from .pending.quarantine_processor import QuarantineProcessor
from .pending.recall_processor import RecallProcessor
from .security.access_control import AccessControl
from .security.tls import Tls
from .sending.message_stamp import MessageStamp
from .sending.reply_processor import ReplyProcessor
from .sending.run_reader import RunReader
from .sending.send_checks import SendChecks
from .sending.send_processor import SendProcessor
from .sending.send_reader import SendReader
from .sending.send_request import AnswerFacts
from .tables import Tables as Tables
from .transactions.end_transaction_processor import EndTransactionProcessor
from .transactions.transactions import Transactions
from .watching.clock_processor import ClockProcessor
from .watching.watch_processor import WatchProcessor
from .watching.watch_snapshot import SnapshotSource


@attrs.frozen(eq=False, kw_only=True)
class Processors:
    """All processors, one for each family of request codes."""

    send: SendProcessor
    pull: PullProcessor
    client: ClientProcessor
    offset: OffsetProcessor
    lock: LockProcessor
    send_back: SendBackProcessor
    query: QueryProcessor
    end_transaction: EndTransactionProcessor
    recall: RecallProcessor
    cancel: CancelProcessor
    route: RouteProcessor
    name_server: NameServerProcessor
    reply: ReplyProcessor
    pending: PendingProcessor
    explain: ExplainProcessor
    quarantine: QuarantineProcessor
    watch: WatchProcessor
    clock: ClockProcessor
    bulk: BulkScheduling
    admin: AdminProcessors

    @classmethod
    def build(
        cls,
        *,
        options: BrokerOptions,
        tables: Tables,
        timer_store: TimerMessageStore,
        transactions: Transactions,
        clock: WatchedClock,
        address: str,
        store_host: bytes,
        saved: Saved,
        access: AccessControl | None,
        tls: Tls,
    ) -> Processors:
        """Make all processors.

        Args:
            options: Settings of the broker.
            tables: What they share.
            timer_store: Takes all messages; its store is read by the processors.
            transactions: What waits for its producers' decision.
            clock: The wall clock.
            address: ``host:port`` for routes.
            store_host: The same address as records and message ids hold it.
            saved: Waits until the tables are on the disk.
            access: Access control, for watchers; None: all requests are allowed.
            tls: TLS of the connections, for watchers.
        """
        store, topics, groups = timer_store.store, tables.topics, tables.groups
        now_ms = clock.now_ms
        unique_ids = UniqueIdGenerator(
            store_host, os.getpid(), instance=now_ms() & 0xFFFFFFFF, now_ms=now_ms
        )
        checks = SendChecks(options, topics, groups, tables.locks, now_ms)
        stamp = MessageStamp(options, unique_ids)
        reader = SendReader(
            options,
            message_size_max=store.options.max_message_size,
            timer_options=timer_store.options,
            checks=checks,
            stamp=stamp,
            now_ms=now_ms,
        )
        columns = RunAdmission(timer_store)
        send = SendProcessor(
            timer_store=timer_store,
            transactions=transactions,
            run_admission=columns,
            run_reader=RunReader(topics, checks, stamp),
            reader=reader,
            durable=tables.durable,
            facts=AnswerFacts.of(options, store_host),
        )
        return cls(
            send=send,
            pull=PullProcessor(
                options=options,
                store=store,
                topics=topics,
                groups=groups,
                offsets=tables.offsets,
                clients=tables.clients,
                long_polling=tables.long_polling,
                resets=tables.resets,
                rates=tables.rates,
            ),
            client=ClientProcessor(
                options=options, topics=topics, groups=groups, clients=tables.clients
            ),
            offset=OffsetProcessor(
                store=store,
                topics=topics,
                groups=groups,
                offsets=tables.offsets,
                resets=tables.resets,
            ),
            lock=LockProcessor(
                broker_name=options.broker_name,
                topics=topics,
                groups=groups,
                locks=tables.locks,
                ids=tables.clients.ids,
            ),
            send_back=SendBackProcessor(
                options=options,
                timer_store=timer_store,
                topics=topics,
                groups=groups,
                durable=tables.durable,
            ),
            query=QueryProcessor(options=options, store=store),
            end_transaction=EndTransactionProcessor(
                options=options,
                store=store,
                transactions=transactions,
                durable=tables.durable,
                now_ms=now_ms,
            ),
            recall=RecallProcessor(
                options=options,
                timer_store=timer_store,
                topics=topics,
                durable=tables.durable,
                now_ms=now_ms,
            ),
            cancel=CancelProcessor(
                options=options,
                timer_store=timer_store,
                durable=tables.durable,
                now_ms=now_ms,
            ),
            route=RouteProcessor(own=tables.own, routes=tables.routes),
            name_server=NameServerProcessor(
                own=tables.own, routes=tables.routes, texts=tables.texts, saved=saved
            ),
            reply=ReplyProcessor(
                options=options,
                ids=tables.clients.ids,
                calls=tables.calls,
                address=address,
                message_size_max=store.options.max_message_size,
                now_ms=now_ms,
            ),
            pending=PendingProcessor(options=options, timer_store=timer_store),
            explain=ExplainProcessor(
                timer_store=timer_store, offsets=tables.offsets, transactions=transactions
            ),
            quarantine=QuarantineProcessor(
                options=options,
                timer_store=timer_store,
                topics=topics,
                checks=checks,
                durable=tables.durable,
            ),
            clock=ClockProcessor(clock=clock, timer_store=timer_store),
            bulk=BulkScheduling.build(
                options=options,
                timer_store=timer_store,
                columns=columns,
                topics=topics,
                checks=checks,
                stamp=stamp,
                now_ms=now_ms,
            ),
            admin=AdminProcessors.build(
                options=options,
                tables=tables,
                timer_store=timer_store,
                clock=clock,
                address=address,
                saved=saved,
            ),
            watch=WatchProcessor(
                options=options,
                source=SnapshotSource(
                    broker_name=options.broker_name,
                    address=address,
                    timer_store=timer_store,
                    clock=clock,
                    send=send,
                    long_polling=tables.long_polling,
                    access=access,
                    tls=tls,
                    open_doors=tuple(options.open_addresses()),
                ),
            ),
        )

    def handlers(self) -> Mapping[int, Handler]:
        """Request code to processor, for everything but sends."""
        store = self.query.store
        return {
            **self.admin.handlers(),
            **self.route.handlers(),
            **self.name_server.handlers(),
            **self.bulk.processor.handlers(),
            RequestCode.PULL_MESSAGE: self.pull.handle,
            RequestCode.LITE_PULL_MESSAGE: self.pull.handle,
            RequestCode.SEND_REPLY_MESSAGE: self.reply.reply,
            RequestCode.SEND_REPLY_MESSAGE_V2: self.reply.reply,
            RequestCode.HEART_BEAT: self.client.heartbeat,
            RequestCode.UNREGISTER_CLIENT: self.client.unregister,
            RequestCode.GET_CONSUMER_LIST_BY_GROUP: self.client.consumer_list,
            RequestCode.CHECK_CLIENT_CONFIG: self.client.check_client_config,
            RequestCode.QUERY_CONSUMER_OFFSET: self.offset.query_consumer_offset,
            RequestCode.UPDATE_CONSUMER_OFFSET: self.offset.update_consumer_offset,
            RequestCode.SEARCH_OFFSET_BY_TIMESTAMP: self.offset.search_offset_by_timestamp,
            RequestCode.GET_MAX_OFFSET: self.offset.max_offset,
            RequestCode.GET_MIN_OFFSET: self.offset.min_offset,
            RequestCode.GET_EARLIEST_MSG_STORETIME: self.offset.earliest_store_time,
            RequestCode.CONSUMER_SEND_MSG_BACK: self.send_back.handle,
            RequestCode.LOCK_BATCH_MQ: self.lock.lock,
            RequestCode.UNLOCK_BATCH_MQ: self.lock.unlock,
            RequestCode.QUERY_MESSAGE: when_indexed(store, self.query.query_message),
            RequestCode.QUERY_CONSUME_QUEUE: self.query.consume_queue,
            RequestCode.VIEW_MESSAGE_BY_ID: self.query.view_message_by_id,
            RequestCode.END_TRANSACTION: self.end_transaction.handle,
            RequestCode.RECALL_MESSAGE: when_indexed(store, self.recall.handle),
            RequestCode.CANCEL_MESSAGE: when_indexed(store, self.cancel.handle),
            RequestCode.LIST_PENDING: self.pending.handle,
            RequestCode.EXPLAIN_MESSAGE: when_indexed(store, self.explain.handle),
            RequestCode.LIST_QUARANTINE: self.quarantine.list,
            RequestCode.SHOW_QUARANTINE: self.quarantine.show,
            RequestCode.RETRY_QUARANTINE: self.quarantine.retry,
            RequestCode.DROP_QUARANTINE: self.quarantine.drop,
            RequestCode.WATCH: self.watch.watch,
            RequestCode.UNWATCH: self.watch.unwatch,
            RequestCode.CLOCK: self.clock.handle,
        }

    def dispatcher(self, tables: Tables, access: AccessControl | None) -> Dispatcher:
        """Brings requests to these processors; without ``access`` those of all clients."""
        return Dispatcher(
            access=access,
            send=self.send,
            handlers=self.handlers(),
            clients=tables.clients,
            long_polling=tables.long_polling,
            calls=tables.calls,
            routes=tables.routes,
            in_steps={
                RequestCode.PULL_MESSAGE: self.pull.steps,
                RequestCode.LITE_PULL_MESSAGE: self.pull.steps,
            },
        )
