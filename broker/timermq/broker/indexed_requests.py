"""Indexed requests: look-ups by key that wait for the index when it is far behind.

Usually the index is up to date within a second, and a look-up brings it there itself, in the same
step. After the start of a store without an index, with millions of messages, that would delay all
timers for minutes: then the request waits in a task of its own while the background indexes, and is
refused when that takes too long. A record without an index entry is never taken as missing.
"""

from __future__ import annotations

from collections.abc import Callable

import trio

from timermq.remoting.codes import ResponseCode
from timermq.remoting.command import Command
from timermq.timerstore.index_follower import IndexBehindError
from timermq.timerstore.message_store import MessageStore

from .deferred_answers import answer_later
from .refusal import RefusedError
from .session import Session

LookUp = Callable[[Session, Command], Command | None]
"""A processor that finds messages by key; see ``dispatcher.Handler``."""

INDEX_WAIT_S = 2.0
"""Seconds that a look-up waits for the index: clients wait three for an answer."""
INDEX_PAUSE_S = 0.05
"""Seconds between two looks at where it is."""


def when_indexed(store: MessageStore, look_up: LookUp) -> LookUp:
    """A processor that looks up keys, called as soon as the index is near the end of the log.

    A request that waits is refused (INDEX_BEHIND, 2) after ``INDEX_WAIT_S``.
    """

    async def work(session: Session, command: Command) -> Command | None:
        with trio.move_on_after(INDEX_WAIT_S):
            while _behind(store) is not None:  # noqa: ASYNC110 - nothing says when it is
                await trio.sleep(INDEX_PAUSE_S)
        check_index(store)
        return look_up(session, command)

    def handle(session: Session, command: Command) -> Command | None:
        if _behind(store) is None:
            return look_up(session, command)
        answer_later(session, command, lambda: work(session, command))
        return None

    return handle


def check_index(store: MessageStore) -> None:
    """Refuse a look-up by key for which much of the log would have to be read.

    Raises:
        RefusedError: INDEX_BEHIND (2); the same request may be sent again.
    """
    error = _behind(store)
    if error is not None:
        raise RefusedError(ResponseCode.SYSTEM_BUSY, "INDEX_BEHIND", str(error)) from error


def _behind(store: MessageStore) -> IndexBehindError | None:
    """Why a look-up would take too long now; None when it would not."""
    try:
        if store.index is not None:
            store.index.check_near()
    except IndexBehindError as error:
        return error
    return None
