"""Asking several brokers, of which one does not answer."""

from __future__ import annotations

import pytest
import trio

from scripted_server import NAMESRV, Network, always
from timermq.cli.broker_link import Answers, BrokerLink, ask_each, call_brokers
from timermq.cli.client_access import ClientAccess
from timermq.client import ConnectionLostError
from timermq.remoting import Command
from timermq.remoting.route_body import BrokerData, cluster_info

LIST_PENDING, CLUSTER_INFO = 9002, 106
CLUSTER = cluster_info(
    [
        BrokerData(broker_name=name, cluster="C", addresses={0: f"{name}:1", 1: f"{name}:2"})
        for name in ("b", "a")
    ]
)


async def asked(*answering: str) -> tuple[list[str], Answers[bytes]]:
    """The masters that are found, and their answers; only these brokers listen."""
    async with trio.open_nursery() as nursery:
        network = Network(nursery)
        network.server(NAMESRV, {CLUSTER_INFO: always(body=CLUSTER)})
        for address in answering:
            network.server(address, {LIST_PENDING: always(body=address.encode())})

        async def ask(broker: BrokerLink) -> bytes:
            return (await broker.call(Command(LIST_PENDING))).body

        access = ClientAccess(namesrv=NAMESRV, open_tcp=network.open_stream)
        try:
            async with call_brokers(access) as brokers:
                found = [one.address for one in brokers], await ask_each(brokers, ask)
        finally:
            nursery.cancel_scope.cancel()
    return found


async def test_all_answer(capsys: pytest.CaptureFixture[str]) -> None:
    """The answers stand by the brokers' names, and nothing is told."""
    addresses, answers = await asked("a:1", "b:1")
    answers.tell_missing()

    assert ["a:1", "b:1"] == addresses
    assert [("a:1", b"a:1"), ("b:1", b"b:1")] == [
        (broker.address, answer) for broker, answer in answers.given
    ]
    assert "" == capsys.readouterr().err


async def test_one_does_not(capsys: pytest.CaptureFixture[str]) -> None:
    """The other's answer counts, and who is left out is told in a line."""
    _, answers = await asked("b:1")
    answers.tell_missing()

    assert [b"b:1"] == [answer for _, answer in answers.given]
    assert capsys.readouterr().err.splitlines() == [
        "timermq: warning: broker a is left out: a:1: cannot connect: no broker at a:1 "
        "(request 9002)"
    ]


async def test_none_answers() -> None:
    """Nothing is known then: the first one's error is that of all."""
    with pytest.RaisesGroup(
        pytest.RaisesExc(ConnectionLostError, match="a:1: cannot connect"),
        flatten_subgroups=True,
    ):
        await asked()
