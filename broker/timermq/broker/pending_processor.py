"""LIST_PENDING (9002): what will fire, page by page, in the order in which it will.

Request body: a CBOR map of ``between`` ([from, to) in epoch milliseconds or null), ``topic``,
``key`` (null: any), ``limit``, and ``after`` ([deliver_ms, phy_offset] of the last row of the
page before, or null). Answer body: a CBOR array of maps, a row a message. A page is the smallest
``limit`` rows above ``after``, found in one pass: memory stays that of a page however much is
pending, and rows that fire between two pages shift nothing. The pass gives way to other tasks
every few rows.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterator
from typing import cast

import attrs
import cbor2
import structlog
import trio

from timermq.pipeline.pending import PendingTimer
from timermq.pipeline.timer_message_store import TimerMessageStore
from timermq.remoting.codes import ResponseCode
from timermq.remoting.command import Command
from timermq.remoting.plain_cbor import PlainCborError, decode_plain

from .answers import refusal_answer
from .options import BrokerOptions
from .refusal import RefusedError
from .session import Session

SCAN_COUNT = 256
"""Rows looked at between two looks at the other tasks."""

log = structlog.get_logger("timermq.broker.pending_processor")


@attrs.frozen(kw_only=True)
class PendingQuery:
    """What a page is to show."""

    between: tuple[int, int] | None = None
    """Deliver times, epoch milliseconds; the second one is exclusive."""
    topic: str | None = None
    key: str | None = None
    """One of the message's keys, or its unique id."""
    limit: int
    after: tuple[int, int] | None = None
    """Deliver time and position of the last row that was shown."""

    def matches(self, row: PendingTimer) -> bool:
        """Whether the row is one of those asked for, on this page or a later one."""
        return (
            (self.topic is None or row.topic == self.topic)
            and (self.between is None or self.between[0] <= row.deliver_ms < self.between[1])
            and (self.key is None or self.key == row.unique_id or self.key in row.keys.split())
            and (self.after is None or _place(row) > self.after)
        )


@attrs.frozen(eq=False, kw_only=True)
class PendingProcessor:
    """The processor."""

    options: BrokerOptions
    timer_store: TimerMessageStore

    def handle(self, session: Session, command: Command) -> Command | None:
        """Start a pass over what is pending; the answer follows."""
        query = _decode(command.body, self.options.pending_count_max)

        async def answer_later() -> None:
            try:
                rows = await self._page(query)
            except Exception as error:
                log.exception("pending timers not listed", remote=session.remote_address)
                failed = RefusedError(ResponseCode.SYSTEM_ERROR, "LIST_PENDING", repr(error))
                session.send(refusal_answer(command, failed))
            else:
                body = cbor2.dumps([attrs.asdict(row) for row in rows])
                session.send(command.answer(ResponseCode.SUCCESS, body=body))

        if not session.start_soon(answer_later):
            raise RefusedError(
                ResponseCode.SYSTEM_BUSY,
                "CONNECTION_TASKS_MAX",
                f"[OVERLOAD] {self.options.connection_tasks_max} long requests of this connection "
                "are under way",
            )
        return None

    async def _page(self, query: PendingQuery) -> list[PendingTimer]:
        """The rows of one page, in order."""
        chosen: list[_Chosen] = []
        rows = self.timer_store.pending()
        while (chunk := _take(rows, SCAN_COUNT)) is not None:
            for row in chunk:
                if query.matches(row):
                    place = _place(row)
                    one = _Chosen((-place[0], -place[1]), row)
                    if len(chosen) < query.limit:
                        heapq.heappush(chosen, one)
                    else:
                        heapq.heappushpop(chosen, one)
            await trio.lowlevel.checkpoint()
        return sorted((one.row for one in chosen), key=_place)


@attrs.frozen(order=True)
class _Chosen:
    """A row on the page so far: the heap's root is the latest, which makes room first."""

    rank: tuple[int, int]
    row: PendingTimer = attrs.field(order=False)


def _place(row: PendingTimer) -> tuple[int, int]:
    return row.deliver_ms, row.phy_offset


def _take(rows: Iterator[PendingTimer], count: int) -> list[PendingTimer] | None:
    """The next rows; None at the end."""
    chunk = [row for _, row in zip(range(count), rows, strict=False)]
    return chunk or None


def _decode(body: bytes, limit_max: int) -> PendingQuery:
    try:
        fields: object = decode_plain(body) if body else {}
    except PlainCborError as error:
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
        after=_pair(given.get("after"), "after"),
    )


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
