"""This broker as name servers know it."""

from __future__ import annotations

import attrs
import pytest

from broker_rig import ADDRESS, BROKER
from fakes import ManualClock
from timermq.broker.namesrv.own_broker import OwnBroker
from timermq.broker.options import BrokerOptions
from timermq.broker.topic_config import TopicConfig, TopicConfigTable

TEMPLATE = "TBW102"


def own(options: BrokerOptions = BROKER) -> OwnBroker:
    """A broker with the topics that it makes itself."""
    options = attrs.evolve(options)
    topics = TopicConfigTable(options, now_ms=ManualClock().now_ms, level_max=18)
    return OwnBroker(options=options, topics=topics, address=ADDRESS)


@pytest.mark.parametrize("creates", [True, False])
def test_the_template_has_a_route_while_topics_may_be_created(creates: bool) -> None:
    """An operator may change that while the broker serves."""
    broker = own()
    broker.options.auto_create_topic_enable = creates

    assert (broker.queue_data(TEMPLATE) is not None) == creates
    assert (TEMPLATE in broker.registered_topics()) == creates


def test_a_topic_that_is_not_there_has_no_route() -> None:
    """Its name is not in a registration either."""
    broker = own()

    assert broker.queue_data("T") is None
    assert "T" not in broker.registered_topics()


@pytest.mark.parametrize(
    ("of_broker", "of_topic", "of_client"), [(6, 6, 6), (4, 6, 4), (4, 7, 5), (6, 2, 2)]
)
def test_a_topic_has_its_permission_within_that_of_the_broker(
    of_broker: int, of_topic: int, of_client: int
) -> None:
    """Bits besides reading and writing are those of the topic."""
    broker = own(attrs.evolve(BROKER, broker_permission=of_broker))

    assert broker.perm(TopicConfig(topic_name="T", perm=of_topic)) == of_client


def test_a_wiped_broker_takes_no_messages_by_its_routes() -> None:
    """What it registers with other name servers stays."""
    broker = own()
    before = broker.registered_topics()[TEMPLATE].perm
    broker.is_wiped = True
    data = broker.queue_data(TEMPLATE)

    assert data is not None
    assert data.perm == before & ~2
    assert broker.registered_topics()[TEMPLATE].perm == before


def test_without_a_listener_there_is_no_address_for_slaves() -> None:
    """A slave would connect in vain, and say so every five seconds."""
    assert own().ha_address == ""
