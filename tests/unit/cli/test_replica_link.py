"""The follower to which a master hands over when none is named."""

from __future__ import annotations

import pytest
import trio
from trio.testing import MockClock

from scripted_server import NAMESRV, Network, always
from timermq.cli.arguments import UsageError
from timermq.cli.client_access import ClientAccess
from timermq.cli.replica_link import find_follower
from timermq.remoting import RequestCode

MASTER = "a:10911"
ALONE = b'{"brokerAddrTable":{"a":{"brokerAddrs":{"0":"a:10911"}}}}'
PAIR = b'{"brokerAddrTable":{"a":{"brokerAddrs":{"0":"a:10911","1":"b:10911"}}}}'
THREE = b'{"brokerAddrTable":{"a":{"brokerAddrs":{"0":"a:10911","1":"b:10911","2":"c:10911"}}}}'


async def found(master: bytes | None, name_server: bytes | None) -> str:
    """The follower when master and name server tell these brokers, or None; else the error."""
    async with trio.open_nursery() as nursery:
        network = Network(nursery)
        for address, body in ((MASTER, master), (NAMESRV, name_server)):
            if body is not None:
                network.server(address, {RequestCode.GET_BROKER_CLUSTER_INFO: always(body=body)})
        access = ClientAccess(namesrv=NAMESRV, open_tcp=network.open_stream)
        try:
            told = await find_follower(access, MASTER)
        except UsageError as error:
            told = str(error)
        nursery.cancel_scope.cancel()
    return told


@pytest.mark.parametrize(
    ("master", "name_server"), [(PAIR, None), (PAIR, ALONE), (ALONE, PAIR), (None, PAIR)]
)
async def test_the_only_follower(
    master: bytes | None, name_server: bytes | None, autojump_clock: MockClock
) -> None:
    """Its master knows it, or the name servers; that one of them is not there does not matter."""
    assert await found(master, name_server) == "b:10911"


@pytest.mark.parametrize(
    ("master", "name_server", "count"), [(ALONE, ALONE, 0), (None, None, 0), (THREE, PAIR, 2)]
)
async def test_an_operator_has_to_choose(
    master: bytes | None, name_server: bytes | None, count: int, autojump_clock: MockClock
) -> None:
    """Without a follower, and of several."""
    told = await found(master, name_server)

    assert "--to: expected one follower" in told
    assert f"found {count}: name" in told
