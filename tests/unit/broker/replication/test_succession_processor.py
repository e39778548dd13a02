"""Requests about the lead, as one broker answers them: 1007, 1008, 9030, 9031 and 9032."""

from __future__ import annotations

import hashlib
import json

import pytest
import trio

from broker_rig import BROKER, Rig, running_broker
from timermq.broker.replication.ha_frames import Epoch
from timermq.remoting import Command, RequestCode
from timermq.remoting.bodies import BodyFormatError
from timermq.remoting.epoch_report import EpochReport


def rule_of(answer: Command) -> str:
    """The rule by which a request is refused."""
    return (answer.remark or "").partition(":")[0]


async def test_a_broker_without_replicas_has_no_epochs() -> None:
    """GET_BROKER_EPOCH_CACHE (1007): it leads, and tells where its log ends."""
    rig = Rig()
    rig.send("T")
    answer = rig.call(RequestCode.GET_BROKER_EPOCH_CACHE)
    report = EpochReport.decode(answer.body)

    assert (report.is_master, report.epochs, report.last_epoch) == (True, (), -1)
    assert report.max_offset == rig.broker.store.commit_log.max_offset > 0
    assert report.broker_name == BROKER.broker_name


async def test_the_epochs_are_rocketmqs_body() -> None:
    """Each ends where the next one begins, the last one where the log does; mqadmin reads it."""
    rig = Rig()
    rig.send("T")
    end = rig.broker.store.commit_log.max_offset
    rig.broker.succession.epochs.begin(Epoch(1, 0))
    rig.broker.succession.epochs.begin(Epoch(3, end))
    body = json.loads(rig.call(1007).body)

    assert body["epochList"] == [
        {"endOffset": end, "epoch": 1, "startOffset": 0},
        {"endOffset": end, "epoch": 3, "startOffset": end},
    ]
    assert body["brokerId"] == 0
    assert EpochReport.decode(rig.call(1007).body).last_epoch == 3


@pytest.mark.parametrize("body", [b"", b"[]", b"{}", b'{"epochList":[{"epoch":"x"}]}', b"\xff"])
def test_a_body_without_epochs_is_refused(body: bytes) -> None:
    """What another program answers is no replica's report."""
    with pytest.raises(BodyFormatError, match="a replica's epochs"):
        EpochReport.decode(body)


async def test_the_digest_of_bytes() -> None:
    """LOG_DIGEST: of bytes that the log has, whole."""
    rig = Rig()
    for _ in range(3):
        rig.send("T")
    log = rig.broker.store.commit_log
    end = log.max_offset
    answer = rig.call(9032, {"offset": "7", "size": str(end - 7)})

    assert answer.ext["digest"] == hashlib.sha256(log.read(7, end - 7)).hexdigest()
    for offset, size in ((0, 0), (0, end + 1), (end, 1), (-1, 1)):
        refused = rig.call(RequestCode.LOG_DIGEST, {"offset": str(offset), "size": str(size)})
        assert (refused.code, rule_of(refused)) == (29, "LOG_RANGE")


async def test_a_master_is_not_promoted(autojump_clock: object) -> None:
    """PROMOTE and DEMOTE are refused by name where they make no sense."""
    async with running_broker() as running:
        peer = running.connect()
        promoted = await peer.call(RequestCode.PROMOTE)
        demoted = await peer.call(RequestCode.DEMOTE)

    assert (promoted.code, rule_of(promoted)) == (604, "NOT_A_FOLLOWER")
    assert (demoted.code, rule_of(demoted)) == (604, "FOLLOWER")


async def test_a_master_of_a_lower_epoch_ends(autojump_clock: object) -> None:
    """NOTIFY_BROKER_ROLE_CHANGED (1008): the broker ends, and goes on as a follower."""
    async with running_broker() as running:
        peer, broker = running.connect(), running.broker
        broker.succession.epochs.begin(Epoch(4, 0))
        told = {"masterAddress": "10.0.0.9:10911", "masterEpoch": "4"}
        refused = await peer.call(1008, told)
        assert broker.next_life is None
        ended = Command(1008, opaque=9, ext=told | {"masterEpoch": "5"})
        await peer.send(ended)
        with trio.fail_after(60):
            while broker.next_life is None:  # noqa: ASYNC110 - virtual time
                await trio.sleep(0.01)

    assert (refused.code, rule_of(refused)) == (604, "LOWER_EPOCH")
    assert broker.next_life is not None
    assert broker.next_life.master == "10.0.0.9:10911"
