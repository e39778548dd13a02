"""Headers about clients: who leaves, who is there, and what one of them is asked.

Source: Java ``UnregisterClientRequestHeader`` and others, named at each class.
"""

from __future__ import annotations

from .request_header import RequestHeader, request_header, text


@request_header
class UnregisterHeader(RequestHeader):
    """The groups that a client leaves (35). Java: ``UnregisterClientRequestHeader``."""

    client_id: str | None = text("clientID", default=None)
    producer_group: str | None = text("producerGroup", default=None)
    consumer_group: str | None = text("consumerGroup", default=None)


@request_header
class ConsumersHeader(RequestHeader):
    """A group whose members are listed (38, 203).

    Java: ``GetConsumerListByGroupRequestHeader``, ``GetConsumerConnectionListRequestHeader``.
    """

    consumer_group: str = text("consumerGroup")


@request_header
class ProducersHeader(RequestHeader):
    """A producer group whose members are listed (204).

    Java: ``GetProducerConnectionListRequestHeader``.
    """

    producer_group: str = text("producerGroup")


@request_header
class RunningInfoHeader(RequestHeader):
    """The consumer that is asked how it is (307). Java: ``GetConsumerRunningInfoRequestHeader``."""

    consumer_group: str = text("consumerGroup")
    client_id: str = text("clientId")


@request_header
class ConsumeDirectlyHeader(RequestHeader):
    """The consumer that is to consume a message (309).

    Java: ``ConsumeMessageDirectlyResultRequestHeader``.
    """

    consumer_group: str = text("consumerGroup")
    client_id: str = text("clientId")
    message_id: str = text("msgId")
    """An offset message id: address and position."""


@request_header
class ConsumerStatusHeader(RequestHeader):
    """The group that is asked for its queues (223). Java: ``GetConsumerStatusRequestHeader``."""

    group: str = text("group")
    client_addr: str = text("clientAddr", default="")
    """The client id of one member; empty: all."""
