"""Tests of half messages in a store that can never be renewed: they hold up no others."""

from __future__ import annotations

import attrs
import pytest
from structlog.testing import capture_logs

from broker_rig import BROKER, STORE, RecordingSession, Rig, commands_in, open_broker
from timermq.broker.broker import Broker
from timermq.broker.options import BrokerOptions
from timermq.remoting import Command
from timermq.simulator.disks.memory_disk import MemoryDisk
from timermq.timerstore.message import Message
from timermq.timerstore.store_options import StoreOptions
from transaction_rig import (
    COMMIT,
    DISCARD_TOPIC,
    END_TRANSACTION,
    HALF_TOPIC,
    ROLLBACK,
    bodies,
    checks,
    half_properties,
    joined,
    log_records,
    reply_ext,
)

TWICE = attrs.evolve(BROKER, transaction_check_max=2)
BODY_MAX = attrs.evolve(STORE, max_message_size=100)
FULL = 32_767
"""Bytes of properties that leave room for nothing."""


class Left:
    """A broker over half messages that an older version or a Java broker has left."""

    def __init__(
        self,
        *halves: Message,
        options: BrokerOptions = TWICE,
        left: StoreOptions = STORE,
        found: StoreOptions = STORE,
    ) -> None:
        rig = Rig(store_options=left)
        results = rig.broker.store.put(list(halves))
        assert all(one.status.is_stored for one in results), results
        self.places = [one.phy_offset for one in results]
        self.clock = rig.clock
        disk = rig.broker.store.disk
        assert isinstance(disk, MemoryDisk)
        disk.process_kill()
        self.disk = disk
        self.broker: Broker = open_broker(
            self.clock, disk=disk, options=options, store_options=found
        )
        self.producer = joined(self.broker.tables.clients)

    async def check(self, *, after_ms: int = 6_000) -> dict[str, Command]:
        """Let time pass, then one round; who was asked about."""
        self.clock.time_ms += after_ms
        await self.broker.transaction_check.check()
        return {one.ext["msgId"]: one for one in checks(self.producer)}

    def reply(self, asked: Command, decision: int) -> Command:
        """The answer to the ending that answers a check."""
        command = Command(END_TRANSACTION, ext=reply_ext(asked, decision))
        (answer,) = commands_in(
            self.broker.dispatcher.handle(RecordingSession().session, [command])
        )
        return answer


def half(key: str, *, size: int = 0, body: bytes = b"", **more: str) -> Message:
    """A half message whose properties are so large, if that is more than they need."""
    properties = half_properties(key, REAL_TOPIC="T", REAL_QID="0", **more)
    if size:
        properties += "note\x01" + "x" * (size - len(properties) - 6) + "\x02"
    return Message(HALF_TOPIC, 0, body or key.encode(), properties.encode())


@pytest.mark.parametrize("at", [0, 1, 2])
async def test_the_others_are_asked_about_and_discarded(at: int) -> None:
    """Wherever among them it stands; it is asked about too, and discarded as they are."""
    halves = [half("K0"), half("K1")]
    halves.insert(at, half("BIG", size=FULL))
    left = Left(*halves)
    rounds = [sorted(await left.check()) for _ in range(4)]

    assert rounds == [["BIG", "K0", "K1"]] * 2 + [[], []]
    assert sorted(bodies(left.broker, DISCARD_TOPIC)) == ["BIG", "K0", "K1"]
    assert left.broker.statistics().transactions == attrs.evolve(
        left.broker.statistics().transactions, open=0, discarded=3, checks=6
    )


async def test_it_alone_holds_the_log() -> None:
    """From its place on, and until it is discarded; a line says which one it is."""
    left = Left(half("BIG", size=FULL), half("K1"))
    with capture_logs() as lines:
        await left.check()
    pins = [left.broker.store.pins.lowest()]
    offsets = [left.broker.transactions.open.offset_of(place) for place in left.places]
    for _ in range(2):
        await left.check()
    pins.append(left.broker.store.pins.lowest())
    stuck = [one for one in lines if one["log_level"] == "error"]

    assert pins == [left.places[0], None]
    assert offsets == [0, 2]
    assert [(one["event"], one["unique_key"]) for one in stuck] == [
        ("half message not renewed: it keeps its place in the log", "BIG")
    ]
    assert stuck[0]["reason"].startswith("properties of 328")


@pytest.mark.parametrize("decision", [COMMIT, ROLLBACK])
async def test_its_producer_ends_it(decision: int) -> None:
    """By the answer to any check; once."""
    left = Left(half("BIG", size=FULL), half("K1"))
    first = (await left.check())["BIG"]
    second = (await left.check())["BIG"]
    answers = [left.reply(one, decision) for one in (second, first)]
    again = await left.check()

    assert [one.code for one in answers] == [0, 0]
    assert bodies(left.broker) == ["BIG"] * (decision == COMMIT)
    assert "BIG" not in again
    assert bodies(left.broker, DISCARD_TOPIC) == ["K1"]


async def test_an_ending_after_it_was_put_aside() -> None:
    """It is answered as that of any other (604)."""
    left = Left(half("BIG", size=FULL))
    asked = (await left.check())["BIG"]
    for _ in range(2):
        await left.check()
    answer = left.reply(asked, COMMIT)

    assert (answer.code, answer.remark) == (
        604,
        "TRANSACTION_ENDED: the transaction BIG has ended by discard before",
    )


async def test_one_that_is_not_to_be_asked_about_yet() -> None:
    """The others are renewed without a check."""
    left = Left(
        half("BIG", size=FULL, CHECK_IMMUNITY_TIME_IN_SECONDS="9000"),
        half("K1", CHECK_IMMUNITY_TIME_IN_SECONDS="9000"),
    )
    asked = await left.check(after_ms=300_000)
    offsets = [left.broker.transactions.open.offset_of(place) for place in left.places]

    assert asked == {}
    assert offsets == [0, 2]


async def test_a_body_beyond_a_limit_that_was_lowered() -> None:
    """It is asked about where it stands, and discarded with its name."""
    left = Left(half("BIG", body=b"x" * 101), half("K1"), found=BODY_MAX)
    rounds = [sorted(await left.check()) for _ in range(3)]
    (big,) = [one for one in log_records(left.broker) if one.topic == DISCARD_TOPIC][:1]

    assert rounds == [["BIG", "K1"]] * 2 + [[]]
    assert big.properties_dict()["TIMERMQ_HALF"].startswith("0,")


async def test_one_that_cannot_be_put_aside_stays_open() -> None:
    """It fills a segment to the last byte; a line says which one, and the round goes on."""
    files = attrs.evolve(STORE, mapped_file_size_commit_log=2048)
    big = half("BIG")
    overhead = 91 + len(HALF_TOPIC) + len(big.properties)
    big.body = b"x" * (2048 - 8 - overhead)
    options = attrs.evolve(BROKER, transaction_check_max=0)
    left = Left(big, half("K1"), options=options, left=files, found=files)
    with capture_logs() as lines:
        await left.check()
    stuck = [one["unique_key"] for one in lines if one["event"] == "transaction not discarded"]

    assert stuck == ["BIG"]
    assert bodies(left.broker, DISCARD_TOPIC) == ["K1"]
    assert left.broker.store.pins.lowest() == left.places[0]


async def test_a_full_disk_ends_the_round_all_the_same() -> None:
    """What comes behind it waits until there is room, and nothing counts."""
    files = attrs.evolve(STORE, mapped_file_size_commit_log=1 << 16)
    left = Left(
        *(half(f"K{number}", size=30_000) for number in range(2)),
        half("BIG", size=FULL),
        left=files,
        found=files,
    )
    total, left.disk.total = left.disk.total, 0
    refused = await left.check()
    left.disk.total = total
    asked = await left.check()

    assert "K0" not in refused
    assert "K1" not in refused
    assert sorted(asked) == ["BIG", "K0", "K1"]
    assert b"TRANSACTION_CHECK_TIMES\x011\x02" in asked["K0"].body


async def test_a_surprise_is_not_passed_over(monkeypatch: pytest.MonkeyPatch) -> None:
    """Only what the store refuses is; anything else ends the task, and is seen."""
    left = Left(half("BIG", size=FULL), half("K1"))
    put, puts = left.broker.store.put, 0

    def failing(messages: list[Message], **how: bool) -> object:
        nonlocal puts
        puts += 1
        if puts > 1:
            raise RuntimeError("a surprise")
        return put(messages, **how)

    monkeypatch.setattr(left.broker.store, "put", failing)
    with pytest.raises(RuntimeError, match="a surprise"):
        await left.check()
