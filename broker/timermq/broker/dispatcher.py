"""Brings requests to the processors: the whole chunk that a connection has read, as one batch.

All small sends of a chunk become one put. All else is done one by one, and looked up by its code in
a table; a code that is not there is answered with 3. Every processor's refusal becomes an answer
here, and so does every mistake of ours: a request is always answered unless it is one-way.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType

import structlog

from timermq.remoting.codes import FLAG_RESPONSE, RequestCode
from timermq.remoting.command import Command
from timermq.remoting.connection import Received, Request, one_by_one
from timermq.remoting.errors import RemoteProtocolError
from timermq.remoting.send_run.send_run import SendRun
from timermq.remoting.send_run.send_v2 import SendV2

from .admin.client_calls import ClientCalls
from .client_registry import ClientRegistry
from .consuming.long_polling import LongPolling
from .namesrv.route_table import RouteTable
from .refusal import RefusedError, failed_answer, refusal_answer, unsupported_answer
from .replication.parked_requests import ParkedRequests
from .security.access_control import AccessControl
from .sending.send_processor import SEND_CODES, SendProcessor, SessionReceived
from .session import Answer, Session
from .speaker import NOBODY, UNLIMITED, Speaker
from .steps import Steps, at_once

Handler = Callable[[Session, Command], Command | None]
"""A processor's entrance: the answer, or None when it comes later through the session."""

StepHandler = Callable[[Session, Command], Steps[Command | None]]
"""Does what takes long in a request and changes nothing."""

MESSAGE_SIZE_MAX = 65_536
"""Bytes of a message that is stored together with those of others, at once. Larger ones wait for
their turn."""
SMALL_SIZE_MAX = 4_096
"""The same for a batch, which may hold two hundred messages; the largest takes twenty
milliseconds."""
_BATCH_CODES = frozenset({RequestCode.SEND_BATCH_MESSAGE, RequestCode.SEND_MESSAGES})

SessionCommand = tuple[Session, Speaker, Command]
"""A request, where it came from and who speaks in it."""

log = structlog.get_logger("timermq.broker.dispatcher")


class Dispatcher:
    """The table of processors, and of those that drop what they hold of an ended connection.

    Args:
        send: The processor of all sends.
        handlers: Request code to processor, for everything else.
        clients: Registrations.
        long_polling: Held pulls.
        calls: What we have asked of clients.
        routes: Brokers that have registered.
        access: Lets requests through; None: all of them.
        in_steps: Handlers of requests that may take long; the others work at once.
    """

    def __init__(
        self,
        *,
        send: SendProcessor,
        handlers: Mapping[int, Handler],
        clients: ClientRegistry,
        long_polling: LongPolling,
        calls: ClientCalls,
        routes: RouteTable,
        access: AccessControl | None = None,
        in_steps: Mapping[int, StepHandler] = MappingProxyType({}),
    ) -> None:
        self._in_steps = dict(in_steps)
        self._access = access
        self.checks_access = access is not None
        """Whether requests need a signature."""
        self._send: SendProcessor | ParkedRequests = send
        self._unparked = (send, dict[int, Handler](), dict[int, StepHandler]())
        """The processors that a follower does not ask."""
        self.handlers = dict(handlers)
        """Request code to processor."""
        self._clients = clients
        self._long_polling = long_polling
        self._calls = calls
        self._routes = routes
        self.requests: Counter[int] = Counter()
        """Requests so far by code; codes without a processor count as -1."""

    def park(self, parked: ParkedRequests) -> None:
        """Have requests that a follower does not do answered by ``parked``, until ``unpark``."""
        instead = parked.handlers()
        self._unparked = (
            self._unparked[0],
            {code: self.handlers[code] for code in instead},
            {code: self._in_steps.pop(code) for code in instead if code in self._in_steps},
        )
        self._send = parked
        self.handlers.update(instead)

    def unpark(self) -> None:
        """Bring all requests to their processors again."""
        self._send, handlers, in_steps = self._unparked
        self.handlers.update(handlers)
        self._in_steps.update(in_steps)

    def handle(self, session: Session, requests: Sequence[Received]) -> list[Answer]:
        """Work on a chunk of requests of one session; see ``handle_all``."""
        return [answer for _, answer in self.handle_all([(session, requests)])]

    def handle_all(
        self, chunks: Sequence[tuple[Session, Sequence[Received]]]
    ) -> list[tuple[Session, Answer]]:
        """Work at once on what several sessions have brought; connections do it in ``round_robin``.

        Args:
            chunks: Sessions, each with what was read from it at once, in order, answers to our own
                calls among it.

        Returns:
            The answers that can go now, each with its session; sends first.
        """
        sends, others = self.sort(chunks)
        answers = self.handle_sends(sends)
        for session, speaker, command in others:
            answer = self.handle_one(session, speaker, command)
            if answer is not None:
                answers.append((session, answer))
        return answers

    def sort(
        self, chunks: Sequence[tuple[Session, Sequence[Received]]]
    ) -> tuple[list[SessionReceived], list[SessionCommand]]:
        """The requests that several sessions brought and may do: small sends, and all others."""
        sends: list[SessionReceived] = []
        others: list[SessionCommand] = []
        for session, requests in chunks:
            try:
                self._sort(session, requests, sends, others)
            except Exception:
                # One task brings the requests of all connections: a mistake of ours in looking
                # through those of one ends that one; what came before it is done.
                _give_up(session)
        return sends, others

    def close(self, session: Session) -> None:
        """Have processors drop what they hold of a connection that has ended."""
        session.is_open = False
        for part in (self._clients, self._long_polling, self._calls, self._routes):
            try:
                part.drop(session)
            except Exception:
                # A mistake of ours over one peer that has gone: the others are served on.
                log.exception("connection not forgotten whole", remote=session.remote_address)

    def _sort(
        self,
        session: Session,
        requests: Sequence[Received],
        sends: list[SessionReceived],
        others: list[SessionCommand],
    ) -> None:
        """Put what a session has brought and may ask for where it belongs, with its speaker."""
        spoken: Sequence[tuple[Speaker, Sequence[Received]]] = [(UNLIMITED, requests)]
        if self._access is not None:
            spoken = self._access.admit(session, requests)
        for speaker, part in spoken:
            if part and speaker is not NOBODY:
                session.speaker, session.is_known = speaker, True
            for request in part:
                self._sort_one(session, speaker, request, sends, others)
            if part:
                session.language, session.version = part[-1].language, part[-1].version

    def _sort_one(
        self,
        session: Session,
        speaker: Speaker,
        request: Received,
        sends: list[SessionReceived],
        others: list[SessionCommand],
    ) -> None:
        if request.flag & FLAG_RESPONSE:
            if isinstance(request, Command):
                self._calls.answered(session, request)
        elif isinstance(request, SendRun):
            sends.append((session, request))
        elif isinstance(request, SendV2):
            if _is_large(request):
                others.append((session, speaker, request.to_command()))
            else:
                sends.append((session, request))
        elif request.code in SEND_CODES and not _is_large(request):
            sends.append((session, request))
        else:
            others.append((session, speaker, request))

    def handle_sends(self, sends: list[SessionReceived]) -> list[tuple[Session, Answer]]:
        """Store sends together; the answers that can go now, each with its session."""
        if not sends:
            return []
        self.requests.update([send.code for _, send in sends])
        for _, send in sends:
            if isinstance(send, SendRun):
                self.requests[send.code] += len(send) - 1
        try:
            return self._send.handle(sends)
        except Exception:
            count = sum(len(send) if isinstance(send, SendRun) else 1 for _, send in sends)
            log.exception("sends failed", count=count)
            return [answer for session, send in sends for answer in _failed_sends(session, send)]

    def handle_one(self, session: Session, speaker: Speaker, command: Command) -> Answer | None:
        """Work on a request that is no small send; None without an answer, or if it comes later."""
        return at_once(self.steps(session, speaker, command))

    def steps(self, session: Session, speaker: Speaker, command: Command) -> Steps[Answer | None]:
        """The same in steps.

        Requests of others may be done in between. Dropped before its end, nothing is stored.
        """
        session.speaker = speaker
        if command.code in SEND_CODES:
            return (yield from self._send_steps(session, command))
        answer = yield from self._handle_one(session, command)
        return None if command.is_oneway else answer

    def _send_steps(self, session: Session, command: Command) -> Steps[Answer | None]:
        self.requests[command.code] += 1
        try:
            answers = yield from self._send.steps(session, command)
        except Exception:
            log.exception("sends failed", count=1)
            answers = _failed_sends(session, command)
        return answers[0][1] if answers else None

    def _handle_one(self, session: Session, command: Command) -> Steps[Command | None]:
        handler = self.handlers.get(command.code)
        if handler is None:
            self.requests[-1] += 1
            return unsupported_answer(command)
        self.requests[command.code] += 1
        in_steps = self._in_steps.get(command.code)
        try:
            if in_steps is not None:
                return (yield from in_steps(session, command))
            return handler(session, command)
        except (RefusedError, RemoteProtocolError) as error:
            return refusal_answer(command, error)
        except Exception:
            log.exception("request failed", remote=session.remote_address, code=command.code)
            return _failed(command)


def _is_large(send: Request) -> bool:
    """Whether a send takes much longer than others."""
    size = len(send.body)
    if size <= SMALL_SIZE_MAX:
        return False
    if isinstance(send, SendV2):
        is_batch = send.fields.batch != "false"
    else:
        ext = send.ext
        is_batch = send.code in _BATCH_CODES or ext.get("m", ext.get("batch", "false")) != "false"
    return is_batch or size > MESSAGE_SIZE_MAX


def _failed_sends(session: Session, send: Received) -> list[tuple[Session, Answer]]:
    try:
        return [(session, _failed(one)) for one in one_by_one([send]) if not one.is_oneway]
    except Exception:
        # What the sends failed of may be that a run of them cannot be read one by one.
        _give_up(session)
        return []


def _give_up(session: Session) -> None:
    """End a connection for a mistake of ours, from where it is handled."""
    log.exception("connection failed", remote=session.remote_address)
    session.close("failed")


def _failed(request: Request) -> Command:
    command = request.to_command() if isinstance(request, SendV2) else request
    return failed_answer(command)
