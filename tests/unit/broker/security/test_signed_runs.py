"""Access control of sends that are read together: let through as one, or one by one."""

from __future__ import annotations

from pathlib import Path

import attrs
import pytest
from trio.testing import MockClock

from broker_rig import Rig, commands_in
from signed import sign
from timermq.remoting import (
    Command,
    FrameConnection,
    SendHeader,
    encode_frame,
)
from timermq.remoting.send_run.send_run import SendRun
from timermq.remoting.send_run.signed_send_v2 import decode_signed_send_v2
from unit.broker.security.guarded_rig import guarded, statistics


def run_of(rig: Rig, access_key: str = "producer", count: int = 40) -> list[Command]:
    """Sends of one form, as a busy producer makes them."""
    return [
        sign(
            rig.command(
                310,
                SendHeader(
                    topic="T",
                    queue_id=0,
                    born_ms=1_700_000_000_000 + number,
                    properties=f"UNIQ_KEY\x01{number:032X}\x02WAIT\x01true\x02".encode(),
                ).to_v2(),
                b"%d" % number,
            ),
            access_key,
        )
        for number in range(count)
    ]


def handle_run(rig: Rig, sends: list[Command]) -> list[Command]:
    """What is answered at once to sends that are read together."""
    connection = FrameConnection(decode_send=decode_signed_send_v2, run_count_min=8)
    connection.receive_data(b"".join(map(encode_frame, sends)))
    requests = connection.requests()
    assert any(isinstance(request, SendRun) for request in requests)
    return commands_in(rig.broker.dispatcher.handle(rig.peer.session, requests))


async def test_a_run_of_sends_is_let_through_as_one(tmp_path: Path) -> None:
    """When all of them are signed by an account that may."""
    rig = guarded(tmp_path)
    answers = handle_run(rig, run_of(rig))

    assert [answer.code for answer in answers] == [0] * 40
    assert rig.broker.statistics().send_messages == 40


@pytest.mark.parametrize("wrong", [0, 17, 39])
@pytest.mark.parametrize("part", ["body", "signature", "born"])
async def test_one_wrong_send_of_a_run_is_refused_alone(
    tmp_path: Path, autojump_clock: MockClock, wrong: int, part: str
) -> None:
    """Wherever it stands, and whatever of it was changed."""
    rig = guarded(tmp_path)
    sends = run_of(rig)
    one = sends[wrong]
    other = sends[(wrong + 1) % 40]
    match part:
        case "body":
            sends[wrong] = attrs.evolve(one, body=b"x" * len(one.body))
        case "signature":
            changed = {"Signature": other.ext["Signature"]}
            sends[wrong] = attrs.evolve(one, ext=one.ext | changed)
        case _:
            sends[wrong] = attrs.evolve(one, ext=one.ext | {"g": other.ext["g"]})
    answers = handle_run(rig, sends)

    assert sorted(answer.opaque for answer in answers) == sorted(
        send.opaque for send in sends if send is not sends[wrong]
    )
    assert {answer.code for answer in answers} == {0}
    assert statistics(rig).failed_logins == 1


@pytest.mark.parametrize(("access_key", "missing", "failed"), [("consumer", 4, 0), ("x", 0, 4)])
async def test_a_run_of_somebody_else_is_refused(
    tmp_path: Path, autojump_clock: MockClock, access_key: str, missing: int, failed: int
) -> None:
    """Send by send, and nothing of it is stored."""
    rig = guarded(tmp_path)
    handle_run(rig, run_of(rig, access_key))

    assert rig.records("T") == []
    assert statistics(rig).missing_rights == missing * 10
    assert statistics(rig).failed_logins == failed * 10
