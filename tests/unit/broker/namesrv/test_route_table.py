"""Tests of what the table refuses; what it keeps is held against a model in tests/property."""

from __future__ import annotations

import attrs
import pytest

from timermq.broker.namesrv.route_table import BrokerIdentity, RouteTable
from timermq.broker.options import BrokerOptions
from timermq.broker.refusal import RefusedError
from timermq.remoting.registration import Registration, RouteVersion
from timermq.remoting.route_body import QueueData

ROW = QueueData(broker_name="a", read_queue_nums=4, write_queue_nums=4, perm=6)
MASTER = BrokerIdentity(cluster="C", broker_name="a", broker_id=0, address="h:1", ha_address="h:2")
SLAVE = attrs.evolve(MASTER, broker_id=1, address="h:3")


def registration(*topics: str, version: int = 0) -> Registration:
    """A registration of broker a with these topics."""
    return Registration(RouteVersion(version), dict.fromkeys(topics, ROW))


def table(*, brokers_max: int = 8, topics_max: int = 8) -> RouteTable:
    """An empty one, whose time stands still."""
    options = BrokerOptions(namesrv_brokers_max=brokers_max, topics_max=topics_max)
    return RouteTable(current_time=lambda: 0.0, options=options)


def refused(found: RouteTable, identity: BrokerIdentity, *topics: str) -> str:
    """The rule that a registration breaks."""
    with pytest.raises(RefusedError) as error:
        found.register("x", identity, registration(*topics))
    return error.value.rule


def test_a_first_registration_has_not_one_topic() -> None:
    """None at all is fine, and so is one later."""
    routes = table()

    assert refused(routes, MASTER, "T") == "FIRST_REGISTRATION"
    routes.register("x", MASTER, registration())
    routes.register("x", MASTER, registration("T", version=1))
    assert routes.queues("T") == [ROW]


def test_an_unchanged_version_changes_nothing() -> None:
    """Topics are looked at when the version is another one."""
    routes = table()
    routes.register("x", MASTER, registration("S", "T"))
    routes.register("x", MASTER, registration("S", "T", "U"))

    assert routes.topics() == {"S", "T"}


def test_limits() -> None:
    """Of brokers and of topics; nothing has changed then."""
    full = table(brokers_max=1)
    full.register("x", MASTER, registration())
    assert refused(full, SLAVE) == "BROKERS_MAX"
    routes = table(topics_max=2)
    assert refused(routes, MASTER, "S", "T", "U") == "TOPICS_MAX"
    assert len(routes) == 0
    routes.register("x", MASTER, registration("S", "T"))
    assert refused(routes, MASTER, "U") == "TOPICS_MAX"
    with pytest.raises(RefusedError):
        routes.put_topic("U", [ROW])


def test_a_name_belongs_to_one_cluster() -> None:
    """Its slaves are in the same one."""
    routes = table()
    routes.register("x", MASTER, registration())

    assert refused(routes, attrs.evolve(SLAVE, cluster="D")) == "BROKER_NAME"


def test_an_address_has_one_id() -> None:
    """A broker that comes back as another moves."""
    routes = table()
    routes.register("x", SLAVE, registration())
    routes.register("x", attrs.evolve(SLAVE, broker_id=0), registration("S", "T"))

    assert [dict(one.addresses) for one in routes.brokers()] == [{0: "h:3"}]


def test_only_masters_have_topics() -> None:
    """A slave's registration says where it is; the last of a name takes the queues along."""
    routes = table()
    routes.register("x", MASTER, registration("S", "T"))
    routes.register("y", SLAVE, registration("U", "V"))

    assert routes.topics() == {"S", "T"}
    assert routes.master("a") == MASTER
    routes.drop("x")
    assert routes.topics() == {"S", "T"}
    assert routes.master("a") is None
    routes.drop("y")
    assert routes.topics() == set()


def test_a_late_goodbye_concerns_no_other_broker() -> None:
    """The broker may have come back under another address by then."""
    routes = table()
    routes.register("x", attrs.evolve(MASTER, address="h:9"), registration("S", "T"))
    routes.unregister(broker_name="a", broker_id=0, address=MASTER.address)

    assert routes.topics() == {"S", "T"}
    routes.unregister(broker_name="a", broker_id=0, address="h:9")
    assert len(routes) == 0


def test_the_master_of_the_highest_reign_keeps_its_place() -> None:
    """One that was passed over changes nothing; one that leads since later takes the place."""
    routes = table()
    reign = RouteVersion(1, 0, 2)
    routes.register("x", MASTER, Registration(reign, {"T": ROW, "U": ROW}))
    old = attrs.evolve(MASTER, address="h:9")

    assert not routes.register("y", old, Registration(attrs.evolve(reign, state_version=1), {}))
    assert routes.master("a") == MASTER
    assert routes.register("y", old, Registration(attrs.evolve(reign, state_version=3), {}))
    assert routes.master("a") == old
    assert routes.register("y", old, Registration(attrs.evolve(reign, state_version=1), {}))
