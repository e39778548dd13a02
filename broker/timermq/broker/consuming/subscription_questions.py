"""Asks clients for subscriptions that their pulls name and no heartbeat has told yet.

A pull names the version of its consumer's subscription. When its queues change, Java's client makes
a new version and tells it by a heartbeat, but leaves that out while another heartbeat is under way.
RocketMQ's broker then refuses its pulls until the next heartbeat, half a minute later. Here the
first such pull makes the broker ask the client for its subscriptions (307). This pull and those
behind it are held until the client has answered: a refused client pulls again only after one to
three seconds. No pull is served by an older filter: if the client does not answer in time, the
pull is refused as by RocketMQ.

Of the answer only the topics of waiting pulls are taken over: those pulls were allowed.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import attrs
import structlog
import trio

from timermq.pipeline.state.signal import Signal
from timermq.remoting.codes import RequestCode, ResponseCode
from timermq.remoting.errors import RemoteProtocolError
from timermq.remoting.running_info import running_info_subscriptions

from ..admin.client_calls import ClientCalls
from ..client_registry import ClientRegistry, Subscription
from ..refusal import RefusedError
from ..session import Session
from .long_polling import HeldPull

ANSWER_SECONDS = 5.0
"""How long a client has to answer. On a busy machine a Java process that has just begun takes a
second."""
REST = 1.0
"""Seconds between two questions to one client about one group."""
HOLD_SECONDS = ANSWER_SECONDS + REST
"""How long a pull waits at most: for the next question to be allowed, and for its answer."""

GONE_MAX = 64
"""Pulls of a client that may be left here although they are no longer held, besides as many as are
held."""

Resume = Callable[[HeldPull], None]
"""Goes on with a pull: its subscription is known now, or the client has not told it."""

log = structlog.get_logger("timermq.broker.consuming.subscription_questions")


@attrs.frozen
class _Waiting:
    """A pull that waits for its subscription."""

    pull: HeldPull
    sub_version: int
    resume: Resume


@attrs.define(eq=False)
class _Client:
    """A client that is asked now, or was within the last ``REST``."""

    waiting: dict[str, list[_Waiting]] = attrs.Factory(dict[str, list[_Waiting]])
    """Pulls that wait, by their group."""
    rests_until: dict[str, float] = attrs.Factory(dict[str, float])
    """Group that it was asked about to trio's time at which it may be asked again."""
    changed: Signal = attrs.Factory(Signal)

    @property
    def waiting_count(self) -> int:
        """Number of pulls that wait, of all groups."""
        return sum(map(len, self.waiting.values()))

    def drop_gone(self, holds: Callable[[HeldPull], bool]) -> None:
        """Drop pulls that were answered because their time was up."""
        kept = {
            group: [one for one in waiting if holds(one.pull)]
            for group, waiting in self.waiting.items()
        }
        self.waiting = {group: waiting for group, waiting in kept.items() if waiting}


class SubscriptionQuestions:
    """The questions to all clients; a task of each connection asks them one after the other.

    Args:
        calls: Asks clients.
        clients: Learns what they tell.
        holds: Whether a pull is held, and not answered yet.
    """

    def __init__(
        self, calls: ClientCalls, clients: ClientRegistry, holds: Callable[[HeldPull], bool]
    ) -> None:
        self._calls = calls
        self._clients = clients
        self._holds = holds
        self._asked: dict[Session, _Client] = {}

    @property
    def waiting(self) -> int:
        """Number of pulls that wait, with some that are no longer held."""
        return sum(client.waiting_count for client in self._asked.values())

    def ask(self, pull: HeldPull, sub_version: int, resume: Resume) -> bool:
        """Ask the client of a pull for its subscription, now or as soon as it may be asked.

        Args:
            pull: Is held for ``HOLD_SECONDS``.
            sub_version: The version that it needs, or a newer one.
            resume: Called when the client has told it, by whatever request, or does not.

        Returns:
            Whether the client is asked. RocketMQ's C++ client never is: its answer is no JSON.
        """
        session = pull.session
        if session.is_cpp:
            return False
        client = self._asked.get(session)
        if client is None:
            client = _Client()
            if not session.start_soon(partial(self._run, session, client)):
                return False
            self._asked[session] = client
        if client.waiting_count > 2 * session.held_pulls + GONE_MAX:
            client.drop_gone(self._holds)
        client.waiting.setdefault(pull.group, []).append(_Waiting(pull, sub_version, resume))
        client.changed.set()
        return True

    def told(self, session: Session, group: str) -> None:
        """Go on with pulls whose subscription a heartbeat has told."""
        client = self._asked.get(session)
        if client is None or group not in client.waiting:
            return
        waiting = client.waiting.pop(group)
        left = [one for one in waiting if not self._is_known(one)]
        if left:
            client.waiting[group] = left
        for one in waiting:
            if self._is_known(one):
                one.resume(one.pull)

    def _is_known(self, waiting: _Waiting) -> bool:
        info = self._clients.consumer_group(waiting.pull.group)
        known = None if info is None else info.subscriptions.get(waiting.pull.topic)
        return known is not None and known.sub_version >= waiting.sub_version

    async def _run(self, session: Session, client: _Client) -> None:
        """Ask a client until none of its pulls waits, and the last question is a rest ago.

        Cancellation: the connection has ended, and its pulls with it.
        """
        try:
            # Checked again after the wait: a pull may come in the moment in which it ends.
            while client.waiting or await client.changed.wait_at_most(REST) or client.waiting:
                if client.waiting:
                    await self._ask_next(session, client)
        finally:
            self._asked.pop(session, None)

    async def _ask_next(self, session: Session, client: _Client) -> None:
        """Ask about the waiting group whose turn comes first."""
        rests = client.rests_until
        group = min(client.waiting, key=lambda one: rests.get(one, 0.0))
        await trio.sleep_until(rests.get(group, 0.0))
        if group not in client.waiting:
            return
        now = trio.current_time()
        client.rests_until = {one: until for one, until in rests.items() if until > now}
        client.rests_until[group] = now + REST
        told = await self._ask(session, group)
        waiting = client.waiting.pop(group, [])
        topics = {one.pull.topic for one in waiting}
        self._clients.learn(group, [one for one in told if one.topic in topics])
        log.info(
            "client asked for its subscriptions",
            group=group,
            remote=session.remote_address,
            told=len(told),
            pulls=len(waiting),
        )
        for one in waiting:
            one.resume(one.pull)

    async def _ask(self, session: Session, group: str) -> list[Subscription]:
        """The subscriptions that a client tells of a group; none if it does not answer."""
        info = self._clients.consumer_group(group)
        member = None if info is None else info.members.get(session)
        ext = {
            "consumerGroup": group,
            "clientId": "" if member is None else member.client_id,
            "jstackEnable": "false",
        }
        code = RequestCode.GET_CONSUMER_RUNNING_INFO
        try:
            answer = await self._calls.call(session, code, ext, timeout=ANSWER_SECONDS)
            if answer.code != ResponseCode.SUCCESS:
                return []
            return [Subscription.of(one) for one in running_info_subscriptions(answer.body)]
        except (RefusedError, RemoteProtocolError) as error:
            log.info(
                "client tells no subscriptions",
                group=group,
                remote=session.remote_address,
                reason=str(error),
            )
            return []
