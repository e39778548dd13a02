"""The route table against a model: brokers that register, change, fall silent, leave and return."""

from __future__ import annotations

import attrs
import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
)

from timermq.broker.namesrv.route_table import BrokerIdentity, RouteTable
from timermq.broker.options import BrokerOptions
from timermq.broker.refusal import RefusedError
from timermq.remoting.registration import Registration, RouteVersion
from timermq.remoting.route_body import QueueData

NAMES = st.sampled_from(["a", "b", "c"])
IDS = st.sampled_from([0, 1])
OWNERS = st.sampled_from(["x", "y", "z"])
TOPICS = st.dictionaries(st.sampled_from(["S", "T", "U"]), st.integers(1, 3), max_size=3)
TIMEOUT = 120.0
BROKERS_MAX = 4


@attrs.define
class Known:
    """What the model knows of one broker."""

    owner: str
    version: int
    updated: float
    address: str


class Routes(RuleBasedStateMachine):
    """Registrations as RocketMQ's rules have them, written down once more."""

    @initialize()
    def begin(self) -> None:
        """Begin with an empty table at time 0."""
        self.time = 0.0
        self.table = RouteTable(
            current_time=lambda: self.time,
            options=BrokerOptions(namesrv_brokers_max=BROKERS_MAX, topics_max=10),
        )
        self.known: dict[tuple[str, int], Known] = {}
        self.queues: dict[tuple[str, str], tuple[int, int]] = {}
        """(topic, broker) to (queues, permission)."""

    @rule(
        name=NAMES,
        broker_id=IDS,
        owner=OWNERS,
        topics=TOPICS,
        version=st.integers(0, 2),
        port=st.sampled_from([1, 2]),
    )
    def register(
        self, name: str, broker_id: int, owner: str, topics: dict[str, int], version: int, port: int
    ) -> None:
        """A registration is taken, or refused with nothing changed."""
        address = f"{name}{broker_id}:{port}"
        rows = {
            topic: QueueData(broker_name=name, read_queue_nums=nums, write_queue_nums=nums, perm=6)
            for topic, nums in topics.items()
        }
        identity = BrokerIdentity(
            cluster="C", broker_name=name, broker_id=broker_id, address=address
        )
        found = Registration(RouteVersion(version), rows)
        old = self.known.get((name, broker_id))
        if old is None and (len(topics) == 1 or len(self.known) >= BROKERS_MAX):
            with pytest.raises(RefusedError):
                self.table.register(owner, identity, found)
            return
        self.table.register(owner, identity, found)
        changed = old is None or (old.version, old.address) != (version, address)
        if changed and broker_id == 0:
            self.queues.update({(topic, name): (nums, 6) for topic, nums in topics.items()})
        self.known[name, broker_id] = Known(owner, version, self.time, address)

    @rule(name=NAMES, broker_id=IDS)
    def unregister(self, name: str, broker_id: int) -> None:
        """A goodbye, also of an unknown broker."""
        self.table.unregister(broker_name=name, broker_id=broker_id)
        self._forget([(name, broker_id)])

    @rule(owner=OWNERS)
    def close(self, owner: str) -> None:
        """A connection ends: all that registered by it is gone."""
        self.table.drop(owner)
        self._forget([key for key, one in self.known.items() if one.owner == owner])

    @rule(seconds=st.sampled_from([1.0, 60.0, 119.0, 121.0]))
    def go_on(self, seconds: float) -> None:
        """Time passes, and the silent expire."""
        self.time += seconds
        silent = [key for key, one in self.known.items() if self.time - one.updated > TIMEOUT]

        assert sorted(map(str, self.table.expired())) == sorted(
            self.known[key].owner for key in silent
        )
        self._forget(silent)

    @rule(name=NAMES, broker_id=IDS)
    def renew(self, name: str, broker_id: int) -> None:
        """A sign of life; it tells the version that is known."""
        one = self.known.get((name, broker_id))
        expected = None if one is None else RouteVersion(one.version)

        assert self.table.renew(broker_name=name, broker_id=broker_id) == expected
        if one is not None:
            one.updated = self.time

    @rule(topic=st.sampled_from(["S", "T", "U"]), cluster=st.sampled_from([None, "C", "D"]))
    def delete_topic(self, topic: str, cluster: str | None) -> None:
        """Everywhere, or on the brokers of one cluster."""
        self.table.delete_topic(topic, cluster=cluster)
        if cluster != "D":
            for key in [key for key in self.queues if key[0] == topic]:
                del self.queues[key]

    @rule(name=NAMES, writeable=st.booleans())
    def set_writeable(self, name: str, writeable: bool) -> None:
        """All queues of a broker."""
        count = self.table.set_writeable(name, writeable=writeable)
        for key in [key for key in self.queues if key[1] == name]:
            self.queues[key] = (self.queues[key][0], 6 if writeable else 4)
            count -= 1

        assert count == 0

    @rule(topic=st.sampled_from(["S", "T", "U"]), name=NAMES, nums=st.integers(1, 3))
    def put_topic(self, topic: str, name: str, nums: int) -> None:
        """Noted for brokers that are there."""
        row = QueueData(broker_name=name, read_queue_nums=nums, write_queue_nums=nums, perm=6)
        self.table.put_topic(topic, [row])
        if any(one == name for one, _ in self.known):
            self.queues[topic, name] = (nums, 6)

    @invariant()
    @precondition(lambda self: hasattr(self, "known"))
    def routes_are_those_of_the_model(self) -> None:
        """Queues, permissions, brokers and addresses are the same in both."""
        assert {
            (topic, row.broker_name): (row.read_queue_nums, row.perm)
            for topic in self.table.topics()
            for row in self.table.queues(topic)
        } == self.queues
        assert {
            (one.broker_name, broker_id): address
            for one in self.table.brokers()
            for broker_id, address in one.addresses.items()
        } == {key: one.address for key, one in self.known.items()}
        assert self.table.topics("C") == self.table.topics()
        assert len(self.table) == len(self.known)

    def _forget(self, keys: list[tuple[str, int]]) -> None:
        for key in keys:
            self.known.pop(key, None)
        names = {name for name, _ in self.known}
        for place in [place for place in self.queues if place[1] not in names]:
            del self.queues[place]


TestRoutes = Routes.TestCase
TestRoutes.settings = settings(max_examples=50, stateful_step_count=25, deadline=None)
