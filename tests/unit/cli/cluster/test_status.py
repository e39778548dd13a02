"""A line of `timermq cluster status`."""

from __future__ import annotations

import json

import pytest

from timermq.cli.broker_link import KnownBroker
from timermq.cli.cluster.status import (
    BrokerRow,
    decode_ha_status,
    decode_info,
    row_of,
    shown,
    with_replicas,
)
from timermq.client.errors import MalformedAnswerError

KNOWN = KnownBroker("broker-a-1", "0", "h:1", "C")
INFO = {
    "brokerVersionDesc": "V5_5_0",
    "timerCongestNum": "7",
    "putTps": "12.34 5.0 1.0",
    "commitLogDiskRatio": "0.3578",
    "startAcceptSendRequestTimeStamp": "2000",
}


def test_a_broker_that_serves() -> None:
    """Rate and disk are those of RocketMQ's texts, rounded for people alone."""
    row = row_of(KNOWN, INFO, 2_000)

    assert (7, 12.34, 0.3578, "serving") == (row.pending, row.put_tps, row.disk, row.state)
    assert ("36%", "12.3", "V5_5_0") == (
        shown(row)["disk"],
        shown(row)["put_tps"],
        shown(row)["version"],
    )


@pytest.mark.parametrize(
    ("info", "state"),
    [
        ({**INFO, "startAcceptSendRequestTimeStamp": "2001"}, "takes no sends before 2001"),
        ({**INFO, "brokerActive": "false"}, "not active"),
    ],
)
def test_a_broker_that_does_not_serve(info: dict[str, str], state: str) -> None:
    """What keeps sends out is its state."""
    assert state == row_of(KNOWN, info, 2_000).state


def test_a_broker_that_tells_nothing() -> None:
    """It has its line with the reason, and nothing that reads as a number."""
    row = row_of(KNOWN, {"putTps": "NaN", "commitLogDiskRatio": ""}, 0, fault="no answer")

    assert [None, None, None, "no answer"] == [row.pending, row.put_tps, row.disk, row.state]


@pytest.mark.parametrize("body", [b"", b"\xff", b"[]", b'{"table":{"a":1}}'])
def test_what_is_no_runtime_info(body: bytes) -> None:
    """The broker is to blame, by its address."""
    with pytest.raises(MalformedAnswerError, match="h:1: runtime info"):
        decode_info(body, "h:1")


def row_with(body: bytes) -> BrokerRow:
    """The row of a broker that answers so about its replicas."""
    return with_replicas(row_of(KNOWN, INFO, 2_000), decode_ha_status(body, "h:1"))


def test_followers_of_a_master() -> None:
    """The column has how many are in sync, and what the one most behind lacks."""
    row = row_with(
        b'{"master":true,"haConnectionInfo":['
        b'{"addr":"h:2","diff":0,"inSync":true,"silentMs":0},'
        b'{"addr":"h:3","diff":2500,"inSync":false,"silentMs":61000}]}'
    )

    assert row.followers is not None
    assert [one.behind for one in row.followers] == [0, 2_500]
    assert "1/2 in sync, 2.5 kB behind for 1m1s" == shown(row)["followers"]


def test_followers_of_a_master_of_rocketmq() -> None:
    """It does not tell when one was last heard of; one without followers has an empty cell."""
    row = row_with(b'{"master":true,"haConnectionInfo":[{"addr":"h:2","diff":7,"inSync":true}]}')

    assert "1/1 in sync, 7 B behind" == shown(row)["followers"]
    alone = row_with(b'{"master":true}')
    assert (alone.followers, shown(alone)["followers"]) == ((), None)
    assert row_with(b'{"master":false}').followers is None


def test_what_is_no_state_of_replicas() -> None:
    """The broker is to blame, by its address."""
    with pytest.raises(MalformedAnswerError, match="h:1: HA status"):
        decode_ha_status(b"[", "h:1")


@pytest.mark.parametrize(
    ("client", "state"),
    [
        ({"activated": True, "behind": 0, "behindMs": 0}, "follows"),
        ({"activated": True, "behind": 9, "behindMs": 40}, "follows, 9 bytes behind for 40 ms"),
        ({"activated": True, "behind": 9, "behindMs": None}, "follows, 9 bytes behind"),
        ({"activated": True}, "follows"),
        ({"activated": False, "error": "LINK: no"}, "does not follow: LINK: no"),
        ({"activated": False}, "does not follow: no link to the master"),
    ],
    ids=["level", "behind", "never level", "rocketmq", "error", "no link"],
)
def test_how_a_follower_stands(client: dict[str, object], state: str) -> None:
    """Its state says it; RocketMQ's slaves tell of their link alone."""
    body = json.dumps({"master": False, "haClientRuntimeInfo": client}).encode()
    row = row_of(KnownBroker("b", "1", "h:1", "c"), {}, 0)
    assert with_replicas(row, decode_ha_status(body, "h:1")).state == state
