"""LIST_PENDING (9002): what will fire, page by page, in the order of the wheel.

Request body: a CBOR map of ``between`` ([from, to) in epoch milliseconds or null), ``topic``,
``key`` (null: any), ``limit``, and ``after`` (what the page before gave as ``next``, or null).
Answer body: a CBOR map of ``rows``, an array of maps, a row a message, and ``next``, null on the
last page.

A page goes on where the one before ended, so a listing costs one walk however many pages it has,
and memory stays that of a page. A page ends after ``limit`` rows, or after `SCAN_COUNT_MAX`
messages that do not match: then it has fewer rows, or none, and ``next`` all the same. The walk
gives way to other tasks every few messages.

Rows come in the order of slots; within a slot the newest first, and a message that rolls where it
rolls. A message that rolls between two pages may come twice.
"""

from __future__ import annotations

from typing import cast

import attrs
import cbor2
import trio

from timermq.pipeline.cancel.pending_deletes import PendingDeletes
from timermq.pipeline.cancel.pending_listing import (
    INT64_MAX,
    PendingPlace,
    PendingTimer,
    PendingTimers,
)
from timermq.pipeline.timer_message_store import TimerMessageStore
from timermq.remoting.cbor import CborError, decode_cbor
from timermq.remoting.codes import ResponseCode
from timermq.remoting.command import Command
from timermq.timerlog import NO_POS

from ..deferred_answers import answer_later
from ..options import BrokerOptions
from ..refusal import RefusedError
from ..security.access_rules import QUERY_SIZE_MAX
from ..session import Session

SCAN_COUNT = 64
"""Messages looked at between two looks at the other tasks: about a millisecond."""
SCAN_COUNT_MAX = 100_000
"""Messages looked at for one page: a few seconds at most, so that no caller gives up."""


@attrs.frozen(kw_only=True)
class PendingQuery:
    """The body of LIST_PENDING: which messages a page shows."""

    between: tuple[int, int] | None = None
    """Deliver times, epoch milliseconds; the second one is exclusive."""
    topic: str | None = None
    key: str | None = None
    """One of the message's keys, or its unique id."""
    limit: int
    after: PendingPlace | None = None
    """Start of the page; None: a new listing."""

    def matches(self, row: PendingTimer) -> bool:
        """Whether the row is one of those asked for."""
        return (
            (self.topic is None or row.topic == self.topic)
            and (self.between is None or self.between[0] <= row.deliver_ms < self.between[1])
            and (self.key is None or self.key == row.unique_id or self.key in row.keys.split())
        )


@attrs.frozen(kw_only=True)
class _Page:
    rows: list[PendingTimer]
    next: PendingPlace | None

    def encode(self) -> bytes:
        place = None if self.next is None else attrs.astuple(self.next)
        return cbor2.dumps({"rows": [attrs.asdict(row) for row in self.rows], "next": place})


@attrs.define(eq=False, kw_only=True)
class PendingProcessor:
    """Lists pending messages page by page."""

    options: BrokerOptions
    timer_store: TimerMessageStore
    _deletes: PendingDeletes | None = attrs.field(default=None, init=False)
    """Kept from page to page of a listing; dropped with the last one."""
    _learning: trio.Lock = attrs.field(factory=trio.Lock, init=False)
    """Two listings at once read deletes one after the other."""

    def handle(self, session: Session, command: Command) -> Command | None:
        """Start a pass over pending messages; the answer follows."""
        query = decode_query(command.body, self.options.pending_count_max)

        async def walk() -> Command:
            page = await self._page(query)
            return command.answer(ResponseCode.SUCCESS, body=page.encode())

        answer_later(session, command, walk)
        return None

    async def _page(self, query: PendingQuery) -> _Page:
        """The rows of one page, and where the next one begins."""
        pending = self.timer_store.pending()
        deletes = await self._learn(pending)
        rows: list[PendingTimer] = []
        start = pending.start if query.after is None else query.after
        walk = pending.walk(start, deletes, query.between or (0, INT64_MAX))
        for looked, (row, place) in enumerate(walk, start=1):
            if row is not None and query.matches(row):
                rows.append(row)
            if len(rows) >= query.limit or looked >= SCAN_COUNT_MAX:
                return _Page(rows=rows, next=place)
            if looked % SCAN_COUNT == 0:
                await trio.lowlevel.checkpoint()
        self._deletes = None
        return _Page(rows=rows, next=None)

    async def _learn(self, pending: PendingTimers) -> PendingDeletes:
        async with self._learning:
            deletes = self._deletes = self._deletes or pending.deletes()
            for _ in pending.learn(deletes):
                await trio.lowlevel.checkpoint()
            return deletes


def decode_query(body: bytes, limit_max: int) -> PendingQuery:
    """Read the body of a request.

    Raises:
        RefusedError: It is no such question (29).
    """
    try:
        fields: object = decode_cbor(body, size_max=QUERY_SIZE_MAX) if body else {}
    except CborError as error:
        raise _malformed(f"expected a CBOR map: {error}") from error
    if not isinstance(fields, dict):
        raise _malformed(f"expected a CBOR map, found {type(fields).__name__}")
    given = cast("dict[object, object]", fields)
    limit = given.get("limit", limit_max)
    if not isinstance(limit, int) or not 1 <= limit <= limit_max:
        raise _malformed(f"limit: expected 1 to {limit_max}, found {ascii(limit)[:64]}")
    return PendingQuery(
        between=_pair(given.get("between"), "between"),
        topic=_text(given.get("topic"), "topic"),
        key=_text(given.get("key"), "key"),
        limit=limit,
        after=_place(given.get("after")),
    )


def _place(value: object) -> PendingPlace | None:
    """The ``next`` of the page before: five numbers, or null."""
    if value is None:
        return None
    match value:
        case [int() as slot_ms, int() as pos, int() as log_end, int() as first, int() as end] if (
            all(NO_POS <= one <= INT64_MAX for one in (slot_ms, pos, log_end, first, end))
        ):
            return PendingPlace(
                slot_ms=slot_ms, pos=pos, log_end=log_end, queue_offset=first, queue_end=end
            )
        case _:
            raise _malformed(f"after: expected what next was, found {ascii(value)[:64]}")


def _pair(value: object, name: str) -> tuple[int, int] | None:
    match value:
        case None:
            return None
        case [int() as first, int() as second]:
            return first, second
        case _:
            raise _malformed(f"{name}: expected two integers, found {ascii(value)[:64]}")


def _text(value: object, name: str) -> str | None:
    if value is None or isinstance(value, str):
        return value
    raise _malformed(f"{name}: expected a text, found {ascii(value)[:64]}")


def _malformed(reason: str) -> RefusedError:
    return RefusedError(ResponseCode.INVALID_PARAMETER, "LIST_PENDING_BODY", reason)
