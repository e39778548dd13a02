"""Every processor with what it works on, and the table of request codes.

A new family of codes gets a module of its own, a field in ``Processors`` and its lines in
``handlers``; a family that is not here is answered with 3.
"""

from __future__ import annotations

from collections.abc import Mapping

import attrs

from timermq.pipeline.clock.clock import WatchedClock
from timermq.remoting.codes import RequestCode

from .admin.admin_processors import AdminProcessors
from .admin.query_processor import QueryProcessor
from .admin.topic_processor import Saved
from .broker_parts import BrokerParts
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
from .pending.cancel_processor import CancelProcessor
from .pending.explain_processor import ExplainProcessor
from .pending.pending_processor import PendingProcessor
from .pending.quarantine_processor import QuarantineProcessor
from .pending.recall_processor import RecallProcessor
from .replication.succession import Succession
from .replication.succession_processor import SuccessionProcessor
from .security.access_control import AccessControl
from .security.tls import Tls
from .sending.reply_processor import ReplyProcessor
from .sending.run_reader import RunReader
from .sending.send_processor import SendProcessor
from .sending.send_reader import SendReader
from .sending.send_request import AnswerFacts
from .tables import Tables
from .transactions.end_transaction_processor import EndTransactionProcessor
from .transactions.resume_processor import ResumeProcessor
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
    resume: ResumeProcessor
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
    succession: SuccessionProcessor

    @classmethod
    def build(
        cls,
        parts: BrokerParts,
        *,
        transactions: Transactions,
        clock: WatchedClock,
        store_host: bytes,
        saved: Saved,
        access: AccessControl | None,
        tls: Tls,
        succession: Succession,
    ) -> Processors:
        """Make all processors.

        Args:
            parts: Tables, services and settings that they work on.
            transactions: What waits for its producers' decision.
            clock: The wall clock, watched.
            store_host: The broker's address as records and message ids hold it.
            saved: Waits until the tables are on the disk.
            access: Access control, for watchers; None: all requests are allowed.
            tls: TLS of the connections, for watchers.
            succession: Which replica leads.
        """
        options, checks, stamp, make = parts.options, parts.checks, parts.stamp, parts.make
        send = make(
            SendProcessor,
            transactions=transactions,
            run_reader=RunReader(parts.tables.topics, checks, stamp),
            reader=SendReader(
                options,
                message_size_max=parts.message_size_max,
                timer_options=parts.timer_store.options,
                checks=checks,
                stamp=stamp,
                now_ms=parts.now_ms,
            ),
            facts=AnswerFacts.of(options, store_host),
        )
        source = make(
            SnapshotSource,
            clock=clock,
            send=send,
            access=access,
            tls=tls,
            open_doors=tuple(options.open_addresses()),
        )
        return cls(
            send=send,
            pull=make(PullProcessor),
            client=make(ClientProcessor),
            offset=make(OffsetProcessor),
            lock=make(LockProcessor),
            send_back=make(SendBackProcessor),
            query=make(QueryProcessor),
            end_transaction=make(EndTransactionProcessor, transactions=transactions),
            resume=make(ResumeProcessor, transactions=transactions),
            recall=make(RecallProcessor),
            cancel=make(CancelProcessor),
            route=make(RouteProcessor),
            name_server=make(NameServerProcessor, saved=saved),
            reply=make(ReplyProcessor),
            pending=make(PendingProcessor),
            explain=make(ExplainProcessor, transactions=transactions),
            quarantine=make(QuarantineProcessor),
            clock=make(ClockProcessor, clock=clock),
            bulk=BulkScheduling.build(parts),
            admin=AdminProcessors.build(parts, saved),
            succession=SuccessionProcessor(succession),
            watch=make(WatchProcessor, source=source),
        )

    def handlers(self) -> Mapping[int, Handler]:
        """Request code to processor, for everything but sends."""
        store = self.query.store
        return {
            **self.admin.handlers(),
            **self.route.handlers(),
            **self.name_server.handlers(),
            **self.bulk.processor.handlers(),
            **self.succession.handlers(),
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
            RequestCode.RESUME_CHECK_HALF_MESSAGE: self.resume.handle,
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
                **self.admin.info.in_steps(),
                RequestCode.PULL_MESSAGE: self.pull.steps,
                RequestCode.LITE_PULL_MESSAGE: self.pull.steps,
            },
        )
