"""Transactions that a Java broker left open are served on, and those that it ended have ended."""

from __future__ import annotations

import pytest
import trio
from trio.testing import MockClock

from broker_rig import BROKER, open_broker
from fakes import VirtualClock
from golden_stores import GoldenStores
from interop.test_served_on import FILES, JAVAS_TIMERS, loaded
from timermq.broker.broker import Broker
from timermq.broker.session import Session
from timermq.remoting import Command
from timermq.timerstore.record import decode_record
from transaction_rig import (
    COMMIT,
    END_TRANSACTION,
    bodies,
    checks,
    joined,
    log_records,
    marked,
    reply_ext,
)

pytestmark = pytest.mark.slow


def call(broker: Broker, session: Session, ext: dict[str, str]) -> int:
    """The code that an ending is answered with."""
    (answer,) = broker.dispatcher.handle(session, [Command(END_TRANSACTION, ext=ext)])
    assert isinstance(answer, Command)
    return answer.code


async def test_open_transactions_of_java(
    autojump_clock: MockClock, golden_stores: GoldenStores
) -> None:
    """The one that is open is asked about, and committed once; no other is."""
    golden = golden_stores["g4"]
    manifest = golden.manifest
    clock = VirtualClock(manifest.times["stoppedMs"] + 10_000)
    (half,) = [one for one in manifest.messages if one.state == "half"]
    (held,) = half.held
    disk = loaded(golden, clock)
    broker = open_broker(
        clock, disk=disk, options=BROKER, store_options=FILES, timer_options=JAVAS_TIMERS
    )
    (record,) = [one for one in log_records(broker) if one.phy_offset == held.phy_offset]
    group = record.properties_dict()["PGROUP"]
    producer = joined(broker.tables.clients, group=group)
    found = [broker.transactions.newest(name) for name in broker.transactions.open.names()]
    before = len(bodies(broker, half.topic))
    await broker.transaction_check.check()
    (asked,) = checks(producer)
    shown = decode_record(asked.body)
    codes = [
        call(broker, producer.session, {**reply_ext(asked, COMMIT), "producerGroup": group})
        for _ in range(2)
    ]
    disk.process_kill()
    again = open_broker(
        clock, disk=disk, options=BROKER, store_options=FILES, timer_options=JAVAS_TIMERS
    )
    await trio.lowlevel.checkpoint()
    records = [one for one in log_records(again) if one.topic == half.topic]
    (committed,) = [one for one in records if one.unique_id == half.msg_id]

    assert [(one.queue_offset, one.unique_key) for one in found if one is not None] == [
        (held.queue_offset, half.msg_id)
    ]
    assert (shown.topic, shown.unique_id, shown.body) == (half.topic, half.msg_id, record.body)
    assert codes == [0, 0]
    assert committed.body == record.body
    assert len(records) == before + 1
    assert marked(again)[-2:] == ["30,", "32,"]
    assert again.transactions.open.names() == []
