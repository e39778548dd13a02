"""The shared parts of a broker's processors: options, stores, tables, and the checks of a send.

A processor names what it needs in its fields, and no more; ``make`` gives it that by those names.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar, cast

import attrs

from timermq.pipeline.run_admission import RunAdmission
from timermq.pipeline.timer_message_store import TimerMessageStore
from timermq.timerstore.message_id import UniqueIdGenerator
from timermq.timerstore.message_store import MessageStore

from .client_ids import ClientIds
from .options import BrokerOptions
from .sending.message_stamp import MessageStamp
from .sending.send_checks import SendChecks
from .tables import Tables, make_tables

Made = TypeVar("Made", bound=attrs.AttrsInstance)


@attrs.frozen(eq=False, kw_only=True)
class BrokerParts:
    """The parts of one broker that more than one processor works on."""

    options: BrokerOptions
    timer_store: TimerMessageStore
    tables: Tables
    """Their fields count as parts, too."""
    run_admission: RunAdmission
    checks: SendChecks
    stamp: MessageStamp
    now_ms: Callable[[], int]
    """The wall clock, epoch milliseconds."""

    @classmethod
    def of(
        cls,
        options: BrokerOptions,
        timer_store: TimerMessageStore,
        now_ms: Callable[[], int],
        *,
        address: str,
        ha_address: str = "",
        unique_ids: UniqueIdGenerator,
        work_seconds: Callable[[], float] = time.thread_time,
    ) -> BrokerParts:
        """Make the parts over an open store; the tables are empty.

        Args:
            options: Settings of the broker.
            timer_store: The one entry for messages; processors read its store.
            now_ms: The wall clock, epoch milliseconds.
            address: ``host:port`` that clients connect to.
            ha_address: The same of followers; empty: they cannot.
            unique_ids: Makes the keys of messages that have none.
            work_seconds: How long this thread has worked so far.
        """
        tables = make_tables(options, timer_store, now_ms, address, ha_address, work_seconds)
        return cls(
            options=options,
            timer_store=timer_store,
            tables=tables,
            run_admission=RunAdmission(timer_store),
            checks=SendChecks(options, tables.topics, tables.groups, tables.locks, now_ms),
            stamp=MessageStamp(
                options,
                unique_ids,
                leave_timer_properties=timer_store.options.leave_timer_properties,
            ),
            now_ms=now_ms,
        )

    def make(self, cls: type[Made], **own: object) -> Made:
        """An object of a class whose fields have the names and types of parts.

        Args:
            cls: Its class; fields with a default keep that.
            own: The fields that have no part's name.

        Raises:
            AttributeError: A field has no part's name, and is not given.
        """
        names = [one.name for one in attrs.fields(cls) if one.default is attrs.NOTHING]
        parts = {name: self._part(name) for name in names if name not in own}
        # Types are compared by tests/unit/broker/test_broker_parts.py.
        return cast("Callable[..., Made]", cls)(**parts, **own)

    def _part(self, name: str) -> object:
        return getattr(self if hasattr(self, name) else self.tables, name)

    @property
    def store(self) -> MessageStore:
        """The message store below the timer service."""
        return self.timer_store.store

    @property
    def message_size_max(self) -> int:
        """Bytes of a body, single or batch."""
        return self.store.options.max_message_size

    @property
    def broker_name(self) -> str:
        """The name of the broker in routes."""
        return self.options.broker_name

    @property
    def address(self) -> str:
        """``host:port`` that clients connect to."""
        return self.tables.own.address

    @property
    def ids(self) -> ClientIds:
        """Which connection each client id belongs to."""
        return self.tables.clients.ids
