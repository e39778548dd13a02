"""The brokers that a name server knows."""

from __future__ import annotations

import pytest

from timermq.cli.broker_link import master_addresses
from timermq.client.errors import MalformedAnswerError


@pytest.mark.parametrize("zero", ['"0"', "0"])
def test_masters(zero: str) -> None:
    """The masters' addresses are found whether or not the broker numbers are quoted."""
    body = (
        '{"brokerAddrTable":{"a":{"brokerAddrs":{0:"h:1",1:"h:2"}},"b":{"brokerAddrs":{1:"h:3"}}}}'
    )

    assert ["h:1"] == master_addresses(body.replace("0:", f"{zero}:").encode())


def test_no_broker() -> None:
    """A name server without brokers names none."""
    assert [] == master_addresses(b"{}")


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
        master_addresses(body)
