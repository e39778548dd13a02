"""Several accounts on one connection: each request is spoken by the account that signed it.

What comes in one piece is looked at by access control before any of it is done.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path

import attrs
import pytest
from trio.testing import MockClock

from broker_rig import BROKER, Peer, Rig, RunningBroker, running_broker, send_ext
from bulk_driver import SignedDriver, read, refusal_in
from signed import sign, write_rules
from timermq.broker.options import BrokerOptions
from timermq.broker.security.access_control import AccessControl
from timermq.remoting import Command, FrameConnection, encode_frame
from timermq.remoting.bodies import HeartbeatData
from timermq.remoting.bulk import CommitJob, DropParts, JobOpened, JobStatus, OpenJob, bulk_request
from timermq.remoting.connection import Received
from timermq.remoting.send_header import SendHeader
from timermq.remoting.send_run.send_run import SendRun
from timermq.remoting.send_run.signed_run import requests_of
from timermq.remoting.send_run.signed_send_v2 import decode_signed_send_v2
from transaction_rig import checks, half_properties

RULES = """accounts:
- {accessKey: victimV, secretKey: hidden-secret, topicPerms: [V=PUB|SUB]}
- {accessKey: accountA, secretKey: hidden-secret, topicPerms: [A=PUB|SUB]}
- {accessKey: operator, secretKey: hidden-secret, admin: true}
- {accessKey: from-home, secretKey: hidden-secret, whiteRemoteAddress: 127.0.0.1}
"""
UNSERVED = 9_999


def guarded_options(directory: Path, rules: str = RULES) -> BrokerOptions:
    """Options of a broker with access control, whose rules are in this directory."""
    return attrs.evolve(BROKER, acl_enable=True, acl_file=write_rules(directory, rules))


@asynccontextmanager
async def guarded(directory: Path) -> AsyncGenerator[RunningBroker]:
    """A broker with access control."""
    async with running_broker(options=guarded_options(directory)) as running:
        yield running


async def answers_in_one_piece(peer: Peer, *commands: Command) -> dict[int, Command]:
    """The answers to requests that come together, by their numbers."""
    numbered = [attrs.evolve(one, opaque=number) for number, one in enumerate(commands)]
    await peer.send(*numbered)
    answers = [await peer.receive() for _ in commands]
    return {one.opaque: one for one in answers if one is not None}


def heartbeat(client_id: str, *groups: str) -> bytes:
    """The body of a producer's heartbeat."""
    return HeartbeatData(client_id=client_id, producer_groups=groups).encode()


async def test_two_that_open_jobs_at_once(tmp_path: Path, autojump_clock: MockClock) -> None:
    """Jobs are opened later, in tasks: each is of the account that asked for it."""
    async with guarded(tmp_path) as running:
        answers = await answers_in_one_piece(
            running.connect(),
            sign(bulk_request("JV", OpenJob(topics=("V",))), "victimV"),
            sign(bulk_request("JA", OpenJob(topics=("A",))), "accountA"),
        )
        opened = [read(JobOpened, answers[number]) for number in (0, 1)]
        assert not any("NO_PERMISSION" in str(one.refused_topics) for one in opened)
        other = SignedDriver(running.connect(), "accountA", "JV")
        assert refusal_in(await other.commit()) == "BULK_JOB"

        assert read(
            JobStatus, await SignedDriver(running.connect(), "victimV", "JV").commit()
        ).taken
        assert read(
            JobStatus, await SignedDriver(running.connect(), "accountA", "JA").commit()
        ).taken


@pytest.mark.parametrize(
    ("who", "code"),
    [("accountA", UNSERVED), ("operator", 34), ("operator", UNSERVED), ("victimV", 34)],
)
async def test_a_request_behind_ones_own_gives_no_right(
    tmp_path: Path, autojump_clock: MockClock, who: str, code: int
) -> None:
    """Of an administrator, of the job's owner, and of a code that asks for no right."""
    async with guarded(tmp_path) as running:
        await SignedDriver(running.connect(), "victimV").open("V")
        behind = sign(Command(code, body=heartbeat("c", "P") if code == 34 else b""), who)
        answers = await answers_in_one_piece(
            running.connect(),
            sign(bulk_request("J", CommitJob(parts=())), "accountA"),
            sign(bulk_request("J", DropParts(parts=("a",))), "accountA"),
            behind,
        )

        assert [refusal_in(answers[number]) for number in (0, 1)] == ["BULK_JOB"] * 2


async def test_producers_of_one_connection(tmp_path: Path) -> None:
    """Each group is asked about what its own account may send to, in any order."""
    rig = Rig(options=guarded_options(tmp_path))
    rig.handle(
        sign(rig.command(34, body=heartbeat("v", "PV")), "victimV"),
        sign(rig.command(34, body=heartbeat("a", "PA")), "accountA"),
    )
    clients = rig.broker.tables.clients
    spoken = {
        group: clients.producers(group)[rig.peer.session].speaker.account for group in ("PV", "PA")
    }
    assert spoken == {"PV": "victimV", "PA": "accountA"}

    for group in ("PV", "PA"):
        ext = send_ext("V", half_properties(group, PGROUP=group), sysFlag="4")
        rig.handle(sign(rig.command(10, ext, b"half"), "victimV"))
    rig.clock.time_ms += 6_000
    await rig.broker.transaction_check.check()

    assert [one.ext["transactionId"] for one in checks(rig.peer)] == ["PV"]


def speakers(rig: Rig, received: list[Received]) -> list[str]:
    """The accounts that speak in what is let in."""
    access = rig.broker.access
    assert isinstance(access, AccessControl)
    spoken = access.admit(rig.peer.session, received)
    return [speaker.account for speaker, part in spoken for _ in part]


async def test_every_request_has_its_speaker(tmp_path: Path) -> None:
    """What is not let in has none; who may everything is no account, nor is who answers a call."""
    rig = Rig(options=guarded_options(tmp_path))
    look = {"topic": "V", "queueId": "0"}

    assert speakers(
        rig,
        [
            sign(rig.command(30, look), "victimV"),
            sign(rig.command(30, look), "accountA"),
            sign(rig.command(30, look), "operator"),
            sign(rig.command(UNSERVED), "accountA"),
            sign(rig.command(10, send_ext("A")), "accountA"),
            sign(rig.command(30, look), "from-home", "a wrong secret"),
            rig.command(0, flag=1),
        ],
    ) == ["victimV", "", "accountA", "accountA", "", "nobody"]

    white = f"globalWhiteRemoteAddresses: [127.0.0.1]\n{RULES}"
    home = Rig(options=guarded_options(tmp_path, white))
    assert speakers(home, [sign(rig.command(30, look), "victimV"), rig.command(30, look)]) == [
        "",
        "",
    ]


def run_of(account: str) -> SendRun:
    """Forty sends to V, read together."""
    connection = FrameConnection(decode_send=decode_signed_send_v2, run_count_min=8)
    for number in range(40):
        header = SendHeader(
            topic="V",
            queue_id=0,
            born_ms=1_700_000_000_000 + number,
            properties=f"UNIQ_KEY\x01{number:032X}\x02".encode(),
        )
        command = sign(Command(310, opaque=100 + number, ext=header.to_v2()), account)
        connection.receive_data(encode_frame(command))
    (run,) = connection.requests()
    assert isinstance(run, SendRun)
    return run


async def test_sends_have_their_speakers(tmp_path: Path) -> None:
    """A run has one, also when its sends come one by one."""
    rig = Rig(options=guarded_options(tmp_path))
    runs = [run_of(account) for account in ("victimV", "accountA", "operator")]

    assert speakers(rig, [*runs]) == ["victimV", ""]
    singles = [one for run in runs for one in requests_of(run)]
    assert speakers(rig, [*singles]) == ["victimV"] * 40 + [""] * 40
    rig.broker.dispatcher.handle(rig.peer.session, runs[:1])
    assert rig.peer.session.speaker.account == "victimV"
