"""Headers of transactions: how one ends (37), and the question how (39).

Source: Java ``EndTransactionRequestHeader``, ``CheckTransactionStateRequestHeader``.
"""

from __future__ import annotations

from .request_header import RequestHeader, boolean, integer, request_header, text


@request_header
class EndTransactionHeader(RequestHeader):
    """How a transaction ends (37). Java: ``EndTransactionRequestHeader``."""

    producer_group: str = text("producerGroup")
    queue_offset: int = integer("tranStateTableOffset")
    """The half message's place in its queue."""
    phy_offset: int = integer("commitLogOffset")
    """The half message's position in the commit log."""
    decision: int = integer("commitOrRollback")
    """8: commit, 12: roll back, 0: not known."""
    from_transaction_check: bool = boolean("fromTransactionCheck", default=False)
    """Whether this answers a check by the broker."""
    message_id: str | None = text("msgId", default=None)
    unique_key: str = text("transactionId", default="")


@request_header
class CheckTransactionHeader(RequestHeader):
    """How did a transaction end? (39) Java: ``CheckTransactionStateRequestHeader``."""

    queue_offset: int = integer("tranStateTableOffset")
    phy_offset: int = integer("commitLogOffset")
    unique_key: str = text("transactionId")
