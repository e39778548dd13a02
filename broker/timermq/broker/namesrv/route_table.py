"""Brokers that have registered here, and the queues of their topics: plain tables, no I/O.

A broker belongs to the connection that carried its registration and goes with it, or when it has
not registered again for its timeout. Topics are taken over when their version differs from the one
before; a topic that is left out of a later registration stays until it is deleted. The first
registration must not have exactly one topic: it is how RocketMQ tells a change from the whole.

Source: Java ``RouteInfoManager``.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Mapping

import attrs

from timermq.remoting.codes import ResponseCode
from timermq.remoting.registration import Registration, RouteVersion
from timermq.remoting.route_body import BrokerData, QueueData

from ..options import BrokerOptions
from ..refusal import RefusedError
from ..replication.role import MASTER_ID
from ..topic_config import PERM_READ_WRITE, PERM_WRITE

TIMEOUT_MS = 120_000
"""A broker that is silent for so long is gone, unless it says otherwise."""


@attrs.frozen(kw_only=True)
class BrokerIdentity:
    """Which broker a registration is of."""

    cluster: str
    broker_name: str
    broker_id: int
    address: str
    """``host:port`` that clients connect to."""
    ha_address: str = ""
    """The address for its slaves."""
    enable_acting_master: bool = False
    timeout_ms: int = TIMEOUT_MS


@attrs.define(kw_only=True)
class _Live:
    """A registration that has not expired."""

    identity: BrokerIdentity
    owner: Hashable
    """The connection that carried it."""
    version: RouteVersion
    updated: float
    """trio's time of the last sign of life."""


class RouteTable:
    """All registrations.

    Args:
        current_time: trio's time: a step of the wall clock expires no broker.
        options: With how many registrations there may be, and how many topics of one broker, and
            of all together, looked at each time; one more is refused.
    """

    def __init__(self, *, current_time: Callable[[], float], options: BrokerOptions) -> None:
        self._current_time = current_time
        self._options = options
        self._live: dict[tuple[str, int], _Live] = {}
        """By broker name and id."""
        self._queues: dict[str, dict[str, QueueData]] = {}
        """Topic to broker name to queues."""

    def __len__(self) -> int:
        return len(self._live)

    def register(self, owner: Hashable, identity: BrokerIdentity, found: Registration) -> bool:
        """Take a registration over, unless the master of this name has a higher state version.

        Returns:
            Whether it was: not that of a master that was passed over.

        Raises:
            RefusedError: Its name belongs to another cluster, it is the first with exactly one
                topic, or there is no room for it (1). Nothing has changed then.
        """
        key = (identity.broker_name, identity.broker_id)
        old = self._live.get(key)
        self._check(identity, found, is_known=old is not None)
        if old is not None and _is_passed_over(old, identity, found):
            return False
        # An address that came back under another id has moved there.
        for other, live in list(self._live.items()):
            same_broker = other[0] == identity.broker_name and other != key
            if same_broker and live.identity.address == identity.address:
                del self._live[other]
        same_address = old is not None and old.identity.address == identity.address
        is_changed = old is None or not same_address or old.version != found.version
        self._live[key] = _Live(
            identity=identity, owner=owner, version=found.version, updated=self._current_time()
        )
        if is_changed and identity.broker_id == MASTER_ID:
            for topic, queues in found.topics.items():
                self._queues.setdefault(topic, {})[identity.broker_name] = queues
        return True

    def unregister(self, *, broker_name: str, broker_id: int, address: str | None = None) -> None:
        """A broker leaves; with the last of its name go the queues.

        Args:
            broker_name: Its name.
            broker_id: Its id.
            address: What it says of itself: its successor may be here by now. None: any.
        """
        live = self._live.get((broker_name, broker_id))
        if live is not None and address in (None, live.identity.address):
            del self._live[broker_name, broker_id]
            self._clean(broker_name)

    def drop(self, owner: Hashable) -> None:
        """A connection has ended: what it had registered is gone."""
        for name, broker_id in [key for key, one in self._live.items() if one.owner is owner]:
            self.unregister(broker_name=name, broker_id=broker_id)

    def expired(self) -> list[Hashable]:
        """Take out brokers that are silent for too long; returns their connections."""
        now = self._current_time()
        silent = [
            (key, one.owner)
            for key, one in self._live.items()
            if now - one.updated > one.identity.timeout_ms / 1000
        ]
        for (name, broker_id), _ in silent:
            self.unregister(broker_name=name, broker_id=broker_id)
        return [owner for _, owner in silent]

    def renew(self, *, broker_name: str, broker_id: int) -> RouteVersion | None:
        """Count a sign of life; the version that is known, None when there is no such broker."""
        live = self._live.get((broker_name, broker_id))
        if live is None:
            return None
        live.updated = self._current_time()
        return live.version

    def delete_topic(self, topic: str, *, cluster: str | None = None) -> None:
        """Forget the queues of a topic on all brokers, or on those of one cluster."""
        queues = self._queues.get(topic, {})
        names = {one.broker_name for one in self.brokers() if cluster in (None, one.cluster)}
        for name in list(queues):
            if cluster is None or name in names:
                del queues[name]
        if not queues:
            self._queues.pop(topic, None)

    def put_topic(self, topic: str, queues: Iterable[QueueData]) -> None:
        """Note queues of a topic on brokers that are registered; others are passed over."""
        known = {one.broker_name for one in self.brokers()}
        rows = {one.broker_name: one for one in queues if one.broker_name in known}
        if not rows:
            return
        if topic not in self._queues:
            self._check_topics([topic])
        self._queues.setdefault(topic, {}).update(rows)

    def set_writeable(self, broker_name: str, *, writeable: bool) -> int:
        """Let producers use all queues of a broker, or none; how many topics that concerns.

        It holds until the broker registers with another version.
        """
        count = 0
        for queues in self._queues.values():
            row = queues.get(broker_name)
            if row is not None:
                perm = PERM_READ_WRITE if writeable else row.perm & ~PERM_WRITE
                queues[broker_name] = attrs.evolve(row, perm=perm)
                count += 1
        return count

    def queues(self, topic: str) -> list[QueueData]:
        """The queues of a topic, a row a broker."""
        return list(self._queues.get(topic, {}).values())

    def topics(self, cluster: str | None = None) -> set[str]:
        """All topics, or those that a cluster has queues of."""
        if cluster is None:
            return set(self._queues)
        names = {one.broker_name for one in self.brokers() if one.cluster == cluster}
        return {topic for topic, queues in self._queues.items() if not names.isdisjoint(queues)}

    def brokers(self) -> list[BrokerData]:
        """All brokers with their addresses, in the order in which they came."""
        found: dict[str, dict[int, _Live]] = {}
        for (name, broker_id), live in self._live.items():
            found.setdefault(name, {})[broker_id] = live
        return [_broker_data(name, lives) for name, lives in found.items()]

    def master(self, broker_name: str) -> BrokerIdentity | None:
        """The master of a name, for its slaves."""
        live = self._live.get((broker_name, MASTER_ID))
        return None if live is None else live.identity

    def _check(self, identity: BrokerIdentity, found: Registration, *, is_known: bool) -> None:
        others = [
            one.identity.cluster
            for (name, _), one in self._live.items()
            if name == identity.broker_name
        ]
        if others and identity.cluster not in others:
            raise RefusedError(
                ResponseCode.SYSTEM_ERROR,
                "BROKER_NAME",
                f"{identity.broker_name} is of cluster {others[0]}, found {identity.cluster}",
            )
        if is_known:
            self._check_topics(found.topics)
            return
        if len(found.topics) == 1:
            raise RefusedError(
                ResponseCode.SYSTEM_ERROR,
                "FIRST_REGISTRATION",
                f"the first registration of {identity.broker_name} has one topic: expected all "
                "of them, or none",
            )
        if len(self._live) >= self._options.namesrv_brokers_max:
            raise RefusedError(
                ResponseCode.SYSTEM_ERROR,
                "BROKERS_MAX",
                f"no room for {identity.broker_name}: {len(self._live)} brokers are registered",
            )
        self._check_topics(found.topics)

    def _check_topics(self, topics: Iterable[str]) -> None:
        count = len(self._queues) + sum(topic not in self._queues for topic in topics)
        topics_max = self._options.topics_max
        if count > topics_max:
            raise RefusedError(
                ResponseCode.SYSTEM_ERROR,
                "TOPICS_MAX",
                f"expected at most {topics_max} topics of all brokers, found {count}",
            )

    def _clean(self, broker_name: str) -> None:
        """Drop the queues of a broker name without registrations."""
        if any(name == broker_name for name, _ in self._live):
            return
        for topic in list(self._queues):
            self._queues[topic].pop(broker_name, None)
            if not self._queues[topic]:
                del self._queues[topic]


def _is_passed_over(old: _Live, identity: BrokerIdentity, found: Registration) -> bool:
    """Whether another broker has the place of a master, and leads since later."""
    return (
        identity.broker_id == MASTER_ID
        and old.identity.address != identity.address
        and old.version.state_version > found.version.state_version
    )


def _broker_data(name: str, lives: Mapping[int, _Live]) -> BrokerData:
    first = next(iter(lives.values())).identity
    return BrokerData(
        broker_name=name,
        cluster=first.cluster,
        addresses={broker_id: live.identity.address for broker_id, live in lives.items()},
        enable_acting_master=first.enable_acting_master,
    )
