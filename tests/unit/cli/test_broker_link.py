"""The brokers that a name server knows."""

from __future__ import annotations

import pytest

from timermq.cli.broker_link import known_brokers
from timermq.client.errors import MalformedAnswerError


@pytest.mark.parametrize("zero", ['"0"', "0"])
def test_brokers(zero: str) -> None:
    """Brokers are found, by name and number, whether or not the numbers are quoted."""
    body = (
        '{"brokerAddrTable":{"a":{"brokerAddrs":{0:"h:1",1:"h:2"}},"b":{"brokerAddrs":{1:"h:3"}}}}'
    )

    known = known_brokers(body.replace("0:", f"{zero}:").encode())

    assert [("a", "0", "h:1"), ("a", "1", "h:2"), ("b", "1", "h:3")] == [
        (one.name, one.number, one.address) for one in known
    ]


def test_no_broker() -> None:
    """A name server without brokers names none."""
    assert [] == known_brokers(b"{}")


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"[]",
        b"\xff",
        b'{"brokerAddrTable":[]}',
        b'{"brokerAddrTable":{"a":7}}',
        b'{"brokerAddrTable":{"a":{"brokerAddrs":{0:7}}}}',
    ],
)
def test_what_is_no_cluster_info(body: bytes) -> None:
    """A name server that answers something else is to blame, in one line."""
    with pytest.raises(MalformedAnswerError):
        known_brokers(body)
