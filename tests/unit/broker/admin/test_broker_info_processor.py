"""Tests of what the broker says of itself."""

from __future__ import annotations

import json
import struct

import pytest
import trio.testing

from broker_rig import STORE, Rig, pull_ext, running_broker
from fakes import ManualClock
from left_levels import leave, waiting
from timermq.simulator.disks.memory_disk import MemoryDisk
from timermq.timerstore.config_file import save_json_now


async def test_levels_that_rocketmq_left() -> None:
    """Of each level that has a queue: the next message, and the end; new ones wait on the wheel."""
    clock = ManualClock()
    disk = MemoryDisk(now_ms=clock.now_ms)
    left = [waiting(f"L{level}{number}", level) for level in (2, 3) for number in range(3)]
    leave(disk, STORE, clock.now_ms, left, {2: 1, 3: 3})
    rig = Rig(disk=disk)
    rig.send("T", properties="UNIQ_KEY\x01K1\x02DELAY\x012\x02")
    table = json.loads(rig.call(28).body)["table"]

    assert {name: value for name, value in table.items() if name.startswith("schedule")} == {
        "scheduleMessageOffset_2": "1,3",
        "scheduleMessageOffset_3": "3,3",
    }


async def test_settings_are_shown_by_rocketmq_s_names() -> None:
    """All of them, as properties, with the version of the topics."""
    answer = Rig().call(26)
    lines = answer.body.decode().splitlines()

    assert "brokerName=broker-a" in lines
    assert "timerMaxDelaySec=86400" in lines
    assert "flushDiskType=ASYNC_FLUSH" in lines
    assert "fileReservedTime=72" in lines
    assert "autoCreateTopicEnable=true" in lines
    assert json.loads(answer.ext["version"])["counter"] == 0


async def test_settings_change_live() -> None:
    """Its readers see it at the next request; routes get a new version."""
    rig = Rig()
    rig.send("T")
    version = rig.broker.tables.topics.data_version.counter

    assert rig.call(25, body=b"brokerPermission=2\nautoCreateTopicEnable=false\n").code == 0
    assert rig.call(11, pull_ext("T")).code == 16
    assert rig.send("U").code == 17
    assert rig.broker.tables.topics.data_version.counter == version + 1
    assert rig.call(25, body=b"autoCreateTopicEnable=true").code == 0
    assert rig.send("U").code == 0


async def test_topics_come_to_be_when_that_is_switched_on() -> None:
    """The template is made then, if the broker started without it."""
    rig = Rig(options=Rig().broker.options.__class__(auto_create_topic_enable=False))

    assert rig.send("T").code == 17
    assert rig.call(25, body=b"autoCreateTopicEnable=true").code == 0
    assert rig.send("T").code == 0


@pytest.mark.parametrize(
    "body",
    [
        b"listenPort=1",
        b"noSuchThing=1",
        b"brokerPermission=8",
        b"brokerPermission=all",
        b"autoCreateTopicEnable=1",
        b"brokerPermission=4\nlistenPort=1",
    ],
)
async def test_settings_that_do_not_change(body: bytes) -> None:
    """The refusal names the setting or the limit; of several none is changed."""
    rig = Rig()
    answer = rig.call(25, body=body)

    assert answer.code == 29
    assert (answer.remark or "").startswith("BROKER_CONFIG: ")
    assert rig.broker.options.broker_permission == 6


@pytest.mark.parametrize("body", [b"nonsense", b"\xff=1"])
async def test_what_is_no_setting_at_all(body: bytes) -> None:
    """Lines are key=value in UTF-8."""
    assert Rig().call(25, body=body).code == 1


async def test_tables_as_their_files_have_them() -> None:
    """Offsets with bare numbers as keys; the classic levels' only when Java left any."""
    rig = Rig()
    rig.broker.tables.offsets.commit(group="G", topic="T", queue_id=0, offset=7)
    store = rig.broker.store

    assert b'"offsetTable":{"T@G":{0:7}}' in rig.call(43).body
    assert b"".join(rig.call(45).body.split()) == b'{"offsetTable":{}}'
    path = f"{store.root}/config/delayOffset.json"
    save_json_now(store.disk, path, '{"offsetTable":{1:5}}')
    assert b"".join(rig.call(45).body.split()) == b'{"offsetTable":{1:5}}'


async def test_the_timer_s_files() -> None:
    """The checkpoint is 56 bytes of seven numbers; the metrics are compact JSON."""
    rig = Rig()
    body = rig.call(60).body

    assert len(struct.unpack(">7q", body)) == 7
    assert json.loads(rig.call(61).body)["timingCount"] == {}


async def test_cleaning_on_request(autojump_clock: trio.testing.MockClock) -> None:
    """It is answered when it is done."""
    async with running_broker() as running:
        peer = running.connect()

        assert (await peer.call(306)).code == 0
        assert (await peer.call(329)).code == 0
