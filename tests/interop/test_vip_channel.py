"""RocketMQ's VIP channel: a Java client that sends to the port two below the broker's.

Clients do so by default up to 4.5.0, later ones with ``vipChannelEnabled``.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from interop.java_peer import free_ports
from interop.serving import starting
from interop.talking import talking
from interop.test_ways_of_sending import ORDERED, RANKED, transcript_of

pytestmark = [pytest.mark.slow, pytest.mark.interop]

BODIES = ("sync", "async", "oneway", "large", *ORDERED, *RANKED)


def with_vip_channel(command: list[str]) -> list[str]:
    """The command of a Java client, with the switch on."""
    return [command[0], "-Dcom.rocketmq.sendMessageWithVIPChannel=true", *command[1:]]


def test_a_java_client_on_the_vip_channel(
    java_client: Callable[..., list[str]], tmp_path: Path
) -> None:
    """It sends there, and nowhere else: without the port it cannot. Pulls come to the broker's."""
    port, below = free_ports(0, -2)
    with starting() as start:
        broker = start(
            tmp_path / "store", "--set=vip_listen_enable=true", listen=f"127.0.0.1:{port}"
        )
        client = java_client("SendClient", broker.namesrv, "Vip", "VipGroup", str(len(BODIES)))
        transcript = transcript_of(with_vip_channel(client))
        for body in BODIES:
            transcript.only(body)
        assert broker.stop() == 0

        broker = start(tmp_path / "other", listen=f"127.0.0.1:{port}")
        client = with_vip_channel(java_client("Member", broker.namesrv, "Vip", "VipGroup"))
        with talking(client) as member:
            member.hear("READY ")
            member.say("1 0 lost")
            (why,) = member.hear("Caused by: ")
            assert f"127.0.0.1:{below}" in why
            member.process.kill()
