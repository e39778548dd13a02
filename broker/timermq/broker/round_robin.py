"""Requests are served round robin: one of each connection, for a short while, then others go on.

Small sends are small work, and are stored together at once. Any other request may cost a
thousand times what it took to ask: an answer of megabytes, a filter that is tried on each message.
So what a connection has brought waits in its backlog. A round takes one request of each connection
after the other and ends after a millisecond; large batches and filters are read in steps of their
own. Behind some rounds there is a pause (``pauses``). Costly requests have a line of their own,
with a rest behind each (``costly_requests``). A connection whose peer has not read what it was
given already is passed over until it has, and one with a backlog is not received from: what one
asks for delays that one.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from functools import partial
from typing import cast

import trio

from timermq.pipeline.state.signal import Signal
from timermq.remoting.connection import Received

from .costly_requests import ROUND_SECONDS, CostlyRequests
from .dispatcher import Dispatcher
from .sending.send_processor import SEND_CODES
from .session import Answer, Session
from .steps import Steps


class RoundRobin:
    """The requests of all connections that are not worked on yet.

    Args:
        dispatcher: Does the work.
        costly: Knows whose requests take long.
    """

    def __init__(self, dispatcher: Dispatcher, costly: CostlyRequests) -> None:
        self._dispatcher = dispatcher
        self._costly = costly
        self._line: deque[Session] = deque()
        """Sessions in the order of their turns; those that have ended are passed over."""
        self._costly_lines: dict[str, deque[Session]] = {}
        """The same, of those whose requests took long, by owner: owners are round robin too."""
        self._in_line: set[Session] = set()
        """Sessions of both lines, and those that come back to one when their peers have room."""
        self.begun: dict[Session, Steps[Answer | None]] = {}
        """The steps left of half done requests at the heads of their backlogs."""
        self._is_behind = False
        """The task has not worked off both lines yet, so the next round is its own."""
        self._left = Signal()
        """There is something for the task."""

    def receive(self, chunks: Sequence[tuple[Session, Sequence[Received]]]) -> None:
        """Store the sends of what several sessions have brought; all else is to wait for its turn.

        Args:
            chunks: Sessions, each with what was read from it at once, in order.
        """
        self._take(chunks)
        if self._line and not self._is_behind:
            self._work()
        if self._line or self._costly_lines:
            self._left.set()
            for session, _ in chunks:
                if session in self._in_line:
                    session.waits()

    async def run(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Work on requests left over from a round, and on costly ones, until cancelled.

        Cancellation: requests that wait are not answered, as when the process stops.
        """
        task_status.started()
        while True:
            await self._left.wait()
            # Until both lines are empty each session in them has its turn here: at the checkpoints
            # below ``receive`` adds to the lines, and works on none.
            self._is_behind = True
            while self._line or self._costly_lines:
                await self._costly.pauses.work(self._work_on)
                rest = self._costly.rest_until - trio.current_time()
                # Only costly requests are left, and they rest. What comes meanwhile ends the wait.
                if rest > 0 and not self._line:
                    await self._left.wait_at_most(rest)
                else:
                    await trio.lowlevel.checkpoint()
            self._is_behind = False

    def drop(self, session: Session) -> None:
        """Drop the backlog of a connection that has ended."""
        session.backlog.clear()
        self.begun.pop(session, None)
        self._in_line.discard(session)

    def _take(self, chunks: Sequence[tuple[Session, Sequence[Received]]]) -> None:
        sends, others = self._dispatcher.sort(chunks)
        Session.send_all(self._dispatcher.handle_sends(sends))
        for session, speaker, command in others:
            session.backlog.append((speaker, command))
        for session, _ in chunks:
            if session not in self._in_line and (session.backlog or session.has_more()):
                self._in_line.add(session)
                self._line_up(session)

    def _line_up(self, session: Session) -> None:
        """A session waits for its turn; behind those that are there."""
        if self._costly.is_costly(session):
            line = self._costly_lines.setdefault(session.owner, deque())
            if session in self.begun:
                # Of one owner one request at a time is half done.
                line.appendleft(session)
            else:
                line.append(session)
        else:
            self._line.append(session)

    def _work_on(self) -> None:
        """Work for a round on each line: cheap requests wait for no rest after costly ones."""
        self._work()
        rest = self._costly.rest_until - trio.current_time()
        if self._costly_lines and rest <= 0:
            self._work_costly()

    def _work(self) -> None:
        """Work for one round on requests that are not known to be costly."""
        began = trio.current_time()
        answered: dict[Session, None] = {}
        while self._line and trio.current_time() - began < ROUND_SECONDS:
            self._work_for(self._line.popleft(), answered)
        for session in answered:
            session.flush()

    def _work_costly(self) -> None:
        """Work on one request of the owners whose requests are costly."""
        answered: dict[Session, None] = {}
        owner, line = next(iter(self._costly_lines.items()))
        del self._costly_lines[owner]
        session = line.popleft()
        if line:
            self._costly_lines[owner] = line
        self._work_for(session, answered)
        for session in answered:
            session.flush()

    def _work_for(self, session: Session, answered: dict[Session, None]) -> None:
        """Do a session's next request, or a step of it.

        ``answered`` gets the session if there is an answer to flush.
        """
        if session not in self._in_line:
            return
        if not session.has_room():
            session.when_room(partial(self._come_back, session))
            session.waits()
            return
        began, is_send = self._costly.work_seconds(), False
        if session.backlog:
            is_send = session.backlog[0][1].code in SEND_CODES
            answer = self._step(session)
            if answer is not None:
                session.queue(answer)
                answered[session] = None
        else:
            self._take([(session, session.more())])
        seconds = self._costly.work_seconds() - began
        self._costly.worked(session, seconds, is_send=is_send)
        if session.backlog or session.has_more():
            self._line_up(session)
        else:
            self._in_line.discard(session)
        session.waits()

    def _step(self, session: Session) -> Answer | None:
        """The next step of a session's next request, which leaves the backlog with the last one."""
        # A request is in the backlog until its last step, and in ``begun`` between two of them: a
        # session that ends between two is in neither.
        steps = self.begun.pop(session, None)
        if steps is None:
            steps = self._dispatcher.steps(session, *session.backlog[0])
        try:
            next(steps)
        except StopIteration as end:
            # The step itself may have ended the session, and emptied its backlog.
            if session.backlog:
                session.backlog.popleft()
            return cast("Answer | None", end.value)
        self.begun[session] = steps
        return None

    def _come_back(self, session: Session) -> None:
        """The peer has read what it was given."""
        if session in self._in_line:
            self._line_up(session)
            self._left.set()
