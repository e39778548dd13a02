"""Connected producers and consumers by group, known from their heartbeats.

A registration belongs to the connection that carried the heartbeat and ends with it, or when the
heartbeats stop. Every member of a consumer group shares the group's queues by the same list of
members, so all of them, the newcomer included, are told when the list or the topics change: Java
misses its first rebalance otherwise, and starts from wherever the queue ends 20 s later.

Source: Java ``ConsumerManager``, ``ConsumerGroupInfo``, ``ProducerManager``,
``DefaultConsumerIdsChangeListener``.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable

import attrs
import structlog
import trio

from timermq.pipeline.state.signal import Signal
from timermq.remoting.bodies import SubscriptionData, consumer_list
from timermq.remoting.codes import FLAG_ONEWAY, LanguageCode, RequestCode
from timermq.remoting.command import Command

from .client_ids import ClientIds
from .session import OPAQUE_MAX, Session
from .speaker import Speaker

log = structlog.get_logger("timermq.broker.client_registry")

REST = 0.2
"""Seconds between two notices of a group. Java's clients rebalance once a second at most."""


@attrs.frozen(kw_only=True)
class Subscription:
    """The subscription of a group to one topic."""

    topic: str
    sub_string: str
    """The expression, for tags ``*`` or ``a || b``."""
    expression_type: str
    """Form of the expression: ``TAG`` or ``SQL92``."""
    sub_version: int
    """Chosen by the client; the higher one is newer."""

    @classmethod
    def of(cls, data: SubscriptionData) -> Subscription:
        """The subscription that a client has told."""
        return cls(
            topic=data.topic,
            sub_string=data.sub_string,
            expression_type=data.expression_type,
            sub_version=data.sub_version,
        )


@attrs.frozen(kw_only=True)
class ConsumerHeartbeat:
    """The part of one heartbeat about one consumer group."""

    group: str
    consume_type: str
    message_model: str
    """``CLUSTERING`` or ``BROADCASTING``."""
    consume_from_where: str
    subscriptions: Collection[Subscription]
    without_sub: bool = False
    """Only a sign of life: what the group subscribes to stays as it is."""
    notify: bool = True
    """Whether the group's members are told of changes."""


@attrs.define(kw_only=True)
class ClientChannelInfo:
    """A client as a group knows it, by its newest heartbeat."""

    client_id: str
    language: LanguageCode
    version: int
    last_update: float
    """trio's time of the newest heartbeat."""
    speaker: Speaker
    """The speaker of the newest heartbeat."""


@attrs.define(kw_only=True)
class ConsumerGroupInfo:
    """A consumer group with at least one member."""

    group: str
    consume_type: str
    message_model: str
    consume_from_where: str
    notify: bool
    subscriptions: dict[str, Subscription] = attrs.Factory(dict[str, Subscription])
    members: dict[Session, ClientChannelInfo] = attrs.Factory(dict[Session, ClientChannelInfo])
    """Changed by ``join`` and ``leave`` alone."""
    _consumer_list: bytes | None = attrs.field(default=None, init=False)

    @property
    def client_ids(self) -> list[str]:
        """The members' ids, in order: every member must see the same list."""
        return sorted({member.client_id for member in self.members.values()})

    @property
    def consumer_list(self) -> bytes:
        """The same as members are given it: a notice makes all of them ask at once."""
        if self._consumer_list is None:
            self._consumer_list = consumer_list(self.client_ids)
        return self._consumer_list

    def join(self, session: Session, member: ClientChannelInfo) -> bool:
        """Take a member's heartbeat over; whether it is a new one."""
        before = self.members.get(session)
        self.members[session] = member
        if before is None or before.client_id != member.client_id:
            self._consumer_list = None
        return before is None

    def learn(self, subscriptions: Iterable[Subscription]) -> None:
        """Take over the subscriptions that are newer than the known ones of their topics."""
        for subscription in subscriptions:
            old = self.subscriptions.get(subscription.topic)
            if old is None or old.sub_version < subscription.sub_version:
                self.subscriptions[subscription.topic] = subscription

    def leave(self, session: Session) -> ClientChannelInfo | None:
        """Forget a member; None when it is none."""
        self._consumer_list = None
        return self.members.pop(session, None)


@attrs.define
class _Memberships:
    """The groups of one connection, so that its end need not look at all groups."""

    producer_groups: set[str] = attrs.Factory(set[str])
    consumer_groups: set[str] = attrs.Factory(set[str])


class ClientRegistry:
    """All registrations.

    Args:
        current_time: trio's clock: a step of the wall clock must not expire anyone.
        expired_after: Seconds without heartbeat after which a client is forgotten.
    """

    def __init__(self, *, current_time: Callable[[], float], expired_after: float) -> None:
        self._current_time = current_time
        self._expired_after = expired_after
        self._consumers: dict[str, ConsumerGroupInfo] = {}
        self._producers: dict[str, dict[Session, ClientChannelInfo]] = {}
        self._memberships: dict[Session, _Memberships] = {}
        self.ids = ClientIds()
        """Owners of the client ids; asked before anything is registered."""
        self.notices = GroupNotices(self._sharing, current_time=current_time)
        """Tells the members of a group that it has changed."""

    def consumer_group(self, group: str) -> ConsumerGroupInfo | None:
        """The group's members and subscriptions; None when no member is connected."""
        return self._consumers.get(group)

    def consumer_groups(self) -> list[ConsumerGroupInfo]:
        """Every consumer group with members."""
        return list(self._consumers.values())

    def producer_groups(self) -> list[str]:
        """The producer groups with members."""
        return list(self._producers)

    def producers(self, group: str) -> dict[Session, ClientChannelInfo]:
        """The connected producers of a group."""
        return dict(self._producers.get(group, {}))

    def groups_with(
        self, session: Session, producer_groups: Iterable[str], consumer_groups: Iterable[str]
    ) -> int:
        """How many groups a connection is in once it has joined these too."""
        now = self._memberships.get(session, _Memberships())
        return len(now.producer_groups.union(producer_groups)) + len(
            now.consumer_groups.union(consumer_groups)
        )

    def register_producer(self, session: Session, client_id: str, group: str) -> None:
        """A heartbeat named ``group`` among its producer groups."""
        members = self._producers.setdefault(group, {})
        before, place = members.get(session), (session, group)
        if before is not None:
            self.ids.leave(before.client_id, before.speaker, place)
        members[session] = member = self._channel_info(session, client_id)
        self.ids.join(client_id, member.speaker, place)
        self._memberships.setdefault(session, _Memberships()).producer_groups.add(group)

    def register_consumer(
        self, session: Session, client_id: str, heartbeat: ConsumerHeartbeat
    ) -> bool:
        """Take one consumer group of a heartbeat over and tell the group if something changed.

        Returns:
            Whether members or topics changed.
        """
        info = self._consumers.get(heartbeat.group)
        if info is None:
            info = self._consumers[heartbeat.group] = ConsumerGroupInfo(
                group=heartbeat.group,
                consume_type=heartbeat.consume_type,
                message_model=heartbeat.message_model,
                consume_from_where=heartbeat.consume_from_where,
                notify=heartbeat.notify,
            )
        before, member = info.members.get(session), self._channel_info(session, client_id)
        if before is not None:
            self.ids.leave(before.client_id, before.speaker)
        self.ids.join(client_id, member.speaker)
        is_new = info.join(session, member)
        self._memberships.setdefault(session, _Memberships()).consumer_groups.add(heartbeat.group)
        changed = is_new
        if not heartbeat.without_sub:
            info.consume_type = heartbeat.consume_type
            info.message_model = heartbeat.message_model
            info.consume_from_where = heartbeat.consume_from_where
            info.notify = heartbeat.notify
            changed = _update_subscriptions(info, heartbeat.subscriptions) or is_new
        if is_new:
            log.info(
                "consumer joined",
                group=heartbeat.group,
                client_id=client_id,
                remote=session.remote_address,
            )
        if changed:
            self.notices.changed(info.group)
        return changed

    def learn(self, group: str, subscriptions: Iterable[Subscription]) -> None:
        """Take over subscriptions that a member has told, if they are newer; others stay."""
        info = self._consumers.get(group)
        if info is not None:
            info.learn(subscriptions)

    def unregister_producer(self, session: Session, group: str) -> None:
        """The client leaves a producer group."""
        memberships = self._memberships.get(session)
        if memberships is not None:
            memberships.producer_groups.discard(group)
        members = self._producers.get(group)
        if members is not None:
            member = members.pop(session, None)
            if member is not None:
                self.ids.leave(member.client_id, member.speaker, (session, group))
            if not members:
                del self._producers[group]

    def unregister_consumer(self, session: Session, group: str) -> None:
        """The client leaves a consumer group; the others are told."""
        memberships = self._memberships.get(session)
        if memberships is not None:
            memberships.consumer_groups.discard(group)
        info = self._consumers.get(group)
        if info is None:
            return
        member = info.leave(session)
        if member is None:
            return
        self.ids.leave(member.client_id, member.speaker)
        log.info(
            "consumer left",
            group=group,
            client_id=member.client_id,
            remote=session.remote_address,
        )
        if info.members:
            self.notices.changed(info.group)
        else:
            del self._consumers[group]

    def drop(self, session: Session) -> None:
        """The connection is closed: forget everything that it had registered."""
        memberships = self._memberships.pop(session, None)
        if memberships is not None:
            for group in sorted(memberships.producer_groups):
                self.unregister_producer(session, group)
            for group in sorted(memberships.consumer_groups):
                self.unregister_consumer(session, group)

    def close_expired(self) -> None:
        """Close the connections whose heartbeats have stopped; that drops them here as well."""
        oldest = self._current_time() - self._expired_after
        tables = [
            *self._producers.values(),
            *(info.members for info in self._consumers.values()),
        ]
        for members in tables:
            for session, member in members.items():
                if member.last_update < oldest:
                    session.close("no heartbeat")

    def _channel_info(self, session: Session, client_id: str) -> ClientChannelInfo:
        return ClientChannelInfo(
            client_id=client_id,
            language=session.language,
            version=session.version,
            last_update=self._current_time(),
            speaker=session.speaker,
        )

    def _sharing(self, group: str) -> list[Session]:
        """Members that a change of the group concerns: broadcasting ones share nothing."""
        info = self._consumers.get(group)
        if info is None or not info.notify or info.message_model == "BROADCASTING":
            return []
        return list(info.members)


def _update_subscriptions(info: ConsumerGroupInfo, wanted: Collection[Subscription]) -> bool:
    """Take a heartbeat's subscriptions over; whether topics came or went.

    Source: Java ``ConsumerGroupInfo.updateSubscription``.
    """
    before = set(info.subscriptions)
    info.learn(wanted)
    topics = {subscription.topic for subscription in wanted}
    for topic in before - topics:
        del info.subscriptions[topic]
    return topics != before


class GroupNotices:
    """Tells the members of a consumer group that the group has changed: each of them rebalances.

    When thousands come back at once, a notice to every member for each newcomer would be work that
    grows with the square of a group, here and in the members, which each ask for the list and the
    offsets again. So a group that was told rests for a moment, and all changes meanwhile are one
    notice at its end. None is lost, for a client that misses its first looks again only after 20
    seconds; and none waits longer than a rest. Java notifies at once, every time.

    Args:
        members: The members to tell of a change; none, where the group shares nothing.
        current_time: trio's clock.
    """

    def __init__(
        self, members: Callable[[str], Collection[Session]], *, current_time: Callable[[], float]
    ) -> None:
        self._members = members
        self._current_time = current_time
        self._rests_until: dict[str, float] = {}
        """Group to the end of its rest, in the order of time."""
        self._late: dict[str, None] = {}
        """Groups that have changed in their rest."""
        self._has_late = Signal()
        self._opaque = 0

    def changed(self, group: str) -> None:
        """A group has changed: tell it now, or when its rest is over."""
        now = self._current_time()
        if self._rests_until.get(group, now) > now:
            self._late[group] = None
            self._has_late.set()
        else:
            self._tell(group, now)

    async def run(self) -> None:
        """Tell the groups whose rest is over, until cancelled."""
        while True:
            await self._has_late.wait()
            while self._late:
                # In order of their changes: those after the first wait no longer than a rest.
                group = next(iter(self._late))
                await trio.sleep_until(self._rests_until[group])
                del self._late[group]
                self._tell(group, self._current_time())

    def _tell(self, group: str, now: float) -> None:
        for session in self._members(group):
            self._opaque = self._opaque % OPAQUE_MAX + 1
            session.send(
                Command(
                    code=RequestCode.NOTIFY_CONSUMER_IDS_CHANGED,
                    opaque=self._opaque,
                    flag=FLAG_ONEWAY,
                    ext={"consumerGroup": group},
                )
            )
        self._rests_until.pop(group, None)
        self._rests_until[group] = now + REST
        self._forget_rested(now)

    def _forget_rested(self, now: float) -> None:
        while True:
            oldest = next(iter(self._rests_until))
            if self._rests_until[oldest] > now or oldest in self._late:
                return
            del self._rests_until[oldest]
