"""Settings that change while the broker serves: readers see them at the next request."""

from __future__ import annotations

import time

import attrs
import pytest
import trio
from trio.testing import MockClock

from broker_rig import STORE, Rig, pull_ext, running_broker, send_ext
from timermq.broker.namesrv.route_table import BrokerIdentity
from timermq.broker.refusal import RefusedError
from timermq.remoting.registration import Registration, RouteVersion
from timermq.remoting.route_body import QueueData
from timermq.timerstore.disk import DiskUsage
from timermq.timerstore.store_maintenance import CHANGES_WITHIN
from transaction_rig import DISCARD_TOPIC, checks, half_properties, joined, send_half

HOUR_MS = 3_600_000
LATER = "UNIQ_KEY\x01K1\x02TIMER_DELAY_SEC\x0161\x02"


def change(rig: Rig, setting: str) -> None:
    """Change a setting as ``updateBrokerConfig`` does, and read it back."""
    assert rig.call(25, body=setting.encode()).code == 0
    assert setting in rig.call(26).body.decode().splitlines()


async def test_the_longest_delay_changes_live() -> None:
    """For what is sent from then on; what waits keeps its moment."""
    rig = Rig()
    before = rig.send("T", properties=LATER)
    change(rig, "timerMaxDelaySec=60")

    assert (before.code, rig.send("T", properties=LATER).code) == (0, 13)
    assert rig.broker.timer_store.quarantine.active == 0


async def test_flow_control_changes_live() -> None:
    """A slot takes one message freely, and two at most."""
    rig = Rig()
    assert [rig.send("T", properties=LATER).code for _ in range(3)] == [0, 0, 0]
    change(rig, "timerCongestNumEachSlot=1")
    codes = [rig.send("T", properties=LATER).code for _ in range(4)]

    assert codes[2:] == [2, 2]


async def test_sql_filters_are_switched_off_live() -> None:
    """A pull with an expression is refused from then on."""
    rig = Rig()
    rig.send("T")
    wanted = pull_ext("T", subscription="a > 1", expressionType="SQL92")
    before = rig.call(11, wanted).code
    change(rig, "enablePropertyFilter=false")

    assert (before, rig.call(11, wanted).code) == (20, 1)


async def test_the_size_of_pulls_changes_live() -> None:
    """So many messages at once."""
    rig = Rig()
    for _ in range(3):
        rig.send("T")
    change(rig, "maxTransferCountOnMessageInMemory=2")

    assert rig.call(11, pull_ext("T")).ext["nextBeginOffset"] == "2"


async def test_transactions_are_switched_off_live() -> None:
    """Half messages are refused from then on."""
    rig = Rig()
    send_half(rig, "K1")
    change(rig, "rejectTransactionMessage=true")
    refused = rig.send("T", properties=half_properties("K2"), sysFlag="4")

    assert (refused.code, refused.remark) == (
        16,
        "TRANSACTION_REJECTED: rejectTransactionMessage is true on this broker",
    )


async def test_the_age_of_what_is_cleaned_changes_live() -> None:
    """Segments go that are old enough now."""
    rig = Rig(store_options=attrs.evolve(STORE, mapped_file_size_commit_log=1 << 16))
    for _ in range(3):
        rig.send("T", body=bytes(40_000))
    rig.clock.time_ms += 2 * HOUR_MS
    store = rig.broker.store
    await store.flush()
    before = await store.clean()
    change(rig, "fileReservedTime=1")
    change(rig, f"deleteWhen={time.localtime(rig.clock.time_ms // 1000).tm_hour}")

    assert (before, await store.clean()) == (0, 2)


async def test_a_full_disk_changes_live(monkeypatch: pytest.MonkeyPatch) -> None:
    """Sends are refused above the level that is set now."""
    rig = Rig()

    def usage(_: str) -> DiskUsage:
        return DiskUsage(total=100 << 30, used=80 << 30, free=20 << 30)

    monkeypatch.setattr(rig.broker.store.disk, "usage", usage)
    await rig.broker.store.clean()
    before = rig.send("T").code
    change(rig, "diskSpaceWarningLevelRatio=70")
    await rig.broker.store.clean()

    assert (before, rig.send("T").code) == (0, 14)


async def test_rounds_of_checks_change_live(autojump_clock: MockClock) -> None:
    """The next round is as long after the last one as it says now; one more is not asked for."""
    async with running_broker() as running:
        producer = joined(running.broker.tables.clients)
        peer = running.connect()
        await peer.call(10, send_ext("T", half_properties("K0"), sysFlag="4"), b"K0")
        await trio.sleep(20)
        before = len(checks(producer))
        body = b"transactionCheckInterval=7000\ntransactionCheckMax=2"
        answer = await peer.call(25, body=body)
        counts: list[int] = []
        for _ in range(6):
            await trio.sleep(7)
            counts.append(len(checks(producer)))

        assert (before, answer.code) == (0, 0)
        assert counts == [1, 1, 0, 0, 0, 0]
        assert running.broker.tables.topics.get(DISCARD_TOPIC) is not None


async def test_topics_of_registered_brokers_change_live() -> None:
    """A broker with more of them than there may be now does not register here."""
    rig = Rig()
    change(rig, "topicsMax=7")
    row = QueueData(broker_name="other", read_queue_nums=1, write_queue_nums=1, perm=6)
    identity = BrokerIdentity(
        cluster="C", broker_name="other", broker_id=0, address="h:1", ha_address="h:2"
    )
    topics = {f"T{number}": row for number in range(8)}

    with pytest.raises(RefusedError, match="expected at most 7 topics"):
        rig.broker.tables.routes.register("x", identity, Registration(RouteVersion(0), topics))


async def test_the_interval_of_cleaning_changes_live(autojump_clock: MockClock) -> None:
    """An hour that has begun is not slept out."""
    hourly = attrs.evolve(STORE, clean_resource_interval_ms=HOUR_MS)
    async with running_broker(store_options=hourly) as running:
        usages: list[float] = []

        def usage(_: str) -> DiskUsage:
            usages.append(trio.current_time())
            return DiskUsage(total=100 << 30, used=1 << 30, free=99 << 30)

        disk = running.broker.store.disk
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(disk, "usage", usage)
            await trio.sleep(60)
            before = len(usages)
            answer = await running.connect().call(25, body=b"cleanResourceInterval=30000")
            await trio.sleep(CHANGES_WITHIN + 100)

    assert (answer.code, before) == (0, 0)
    assert len(usages) >= 3
