"""Tests of what a broker without replicas says of them."""

from __future__ import annotations

import json

from broker_rig import Rig


async def test_a_master_without_replicas() -> None:
    """It says how far its log is, and that no other broker follows."""
    rig = Rig()
    rig.send("T")
    status = json.loads(rig.call(907).body)

    assert (status["master"], status["inSyncSlaveNums"], status["haConnectionInfo"]) == (
        True,
        0,
        [],
    )
    assert status["masterCommitLogMaxOffset"] == rig.broker.store.commit_log.max_offset > 0
    assert status["haClientRuntimeInfo"]["activated"] is False


async def test_a_master_has_no_offset_of_its_master() -> None:
    """As in RocketMQ the request succeeds, and changes nothing."""
    rig = Rig()
    before = rig.call(907).body

    assert rig.call(908, {"masterFlushOffset": "1"}).code == 0
    assert rig.call(907).body == before
