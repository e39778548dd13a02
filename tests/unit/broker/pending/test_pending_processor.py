"""Tests of listing what will fire."""

from collections.abc import Mapping
from typing import TypedDict, cast

import attrs
import cbor2
import pytest
import trio
from trio.testing import MockClock

from broker_rig import BROKER, Peer, Rig, running_broker, send_ext
from timermq.broker.pending import pending_processor
from timermq.pipeline.cancel import pending_deletes
from timermq.pipeline.stages.enqueue_put import EnqueuePut

START = 1_700_000_000_000


def ask(**fields: object) -> bytes:
    """The body of a request."""
    return cbor2.dumps(fields)


def later(key: str, deliver_ms: int) -> str:
    """Properties of a message that waits."""
    return f"UNIQ_KEY\x01U{key}\x02KEYS\x01{key} all\x02TIMER_DELIVER_MS\x01{deliver_ms}\x02"


async def recall(peer: Peer, sent: Mapping[str, str]) -> None:
    """Take a message back, by the fields that answered its send."""
    await peer.call(370, {"topic": "T", "recallHandle": sent["recallHandle"]})


class Page(TypedDict):
    """An answer: the rows of a page, and where the next one begins."""

    rows: list[dict[str, object]]
    next: list[int] | None


async def page(peer: Peer, **fields: object) -> Page:
    """One page of what waits, as these fields ask for it."""
    answer = await peer.call(9002, body=ask(**fields))
    assert answer.code == 0, answer.remark
    return cast("Page", cbor2.loads(answer.body))


async def pages(peer: Peer, **fields: object) -> list[Page]:
    """All pages of what waits, each asked for by the one before."""
    found = [await page(peer, **fields)]
    while found[-1]["next"] is not None:
        found.append(await page(peer, **{**fields, "after": found[-1]["next"]}))
    return found


async def rows(peer: Peer, **fields: object) -> list[dict[str, object]]:
    """The rows of all pages."""
    return [row for one in await pages(peer, **fields) for row in one["rows"]]


async def ids(peer: Peer, **fields: object) -> list[object]:
    """The unique ids of all pages."""
    return [row["unique_id"] for row in await rows(peer, **fields)]


async def test_rows_come_in_the_order_of_slots(autojump_clock: MockClock) -> None:
    """A row says what will fire, when and where."""
    async with running_broker() as running:
        peer = running.connect()
        for key, ms in (("c", 9_000), ("a", 6_500), ("b", 5_400)):
            await peer.call(10, send_ext("T", later(key, START + ms)), b"x")
        await trio.sleep(1)  # they have their units
        found = await rows(peer)

    assert [row["unique_id"] for row in found] == ["Ub", "Ua", "Uc"]
    assert found[0] == {
        "unique_id": "Ub",
        "topic": "T",
        "queue_id": 0,
        "deliver_ms": START + 5_400,
        "keys": "b all",
        "tags": "",
        "phy_offset": found[0]["phy_offset"],
        "rolls": 0,
    }


async def test_pages_follow_each_other(autojump_clock: MockClock) -> None:
    """A page begins behind the last row of the one before, also within a slot."""
    async with running_broker() as running:
        peer = running.connect()
        for n in range(7):
            await peer.call(10, send_ext("T", later(str(n), START + 5_000 + n // 6)), b"x")
        await trio.sleep(1)  # they have their units
        found = await pages(peer, limit=3)

    assert [[row["unique_id"] for row in one["rows"]] for one in found] == [
        ["U5", "U4", "U3"],
        ["U2", "U1", "U0"],
        ["U6"],
    ]


@pytest.mark.parametrize("limit", [1, 10])
async def test_a_listing_shows_what_waited_when_it_began(
    autojump_clock: MockClock, limit: int
) -> None:
    """What comes between two pages is not shown, what fires is not either; nothing comes twice."""
    async with running_broker() as running:
        peer = running.connect()
        for key, ms in (("a", 5_000), ("b", 6_000), ("c", 7_000), ("d", 8_000)):
            await peer.call(10, send_ext("T", later(key, START + ms)), b"x")
        await trio.sleep(1)  # they have their units
        first = await page(peer, limit=1)
        for key, ms in (("e", 7_000), ("f", 9_000)):
            await peer.call(10, send_ext("T", later(key, START + ms)), b"x")
        await trio.sleep(5.5)  # a and b have fired
        rest = await ids(peer, limit=limit, after=first["next"])

    assert ["Ua"] == [row["unique_id"] for row in first["rows"]]
    assert ["Uc", "Ud"] == rest


async def test_a_listing_costs_one_walk(
    autojump_clock: MockClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The number of records that are read does not depend on the number of pages."""
    read: list[int] = []
    async with running_broker() as running:
        peer = running.connect()
        for n in range(60):
            await peer.call(10, send_ext("T", later(str(n), START + 5_000 + n * 100)), b"x")
        await trio.sleep(1)
        commit_log = running.broker.store.commit_log
        record_at = commit_log.record_at

        def counted(phy_offset: int, size: int) -> bytes | None:
            read.append(phy_offset)
            return record_at(phy_offset, size)

        monkeypatch.setattr(commit_log, "record_at", counted)
        found = await pages(peer, limit=2)

    assert 60 == sum(len(one["rows"]) for one in found)
    assert 60 == len(read)


async def test_deletes_are_read_with_a_look_at_the_other_tasks(
    autojump_clock: MockClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """However many deletes wait, other requests are answered in between."""
    monkeypatch.setattr(pending_deletes, "READ_COUNT", 2)
    async with running_broker() as running:
        peer, other = running.connect(), running.connect()
        handles = [
            (await peer.call(10, send_ext("T", later(str(n), START + 60_000)), b"x")).ext
            for n in range(40)
        ]
        for ext in handles:
            await recall(peer, ext)
        answered: list[str] = []

        async def list_them() -> None:
            assert [] == await ids(peer)
            answered.append("list")

        async def ask_a_little() -> None:
            for _ in range(3):
                await other.call(105, {"topic": "T"})
                answered.append("route")

        async with trio.open_nursery() as nursery:
            nursery.start_soon(list_them)
            nursery.start_soon(ask_a_little)

    assert ["route", "route", "route", "list"] == answered


def no_room(_stage: EnqueuePut, _batch: object) -> bool:
    """In place of ``EnqueuePut.put``: the timer log takes nothing."""
    return False


async def test_two_listings_at_once(
    autojump_clock: MockClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Neither takes what the other has read of the deletes for all of them."""
    monkeypatch.setattr(pending_deletes, "READ_COUNT", 2)
    async with running_broker() as running:
        peer, other = running.connect(), running.connect()
        for number in range(40):
            handle = (
                await peer.call(10, send_ext("T", later(f"{number}", START + 60_000)), b"x")
            ).ext
            await recall(peer, handle)
        target = (await peer.call(10, send_ext("T", later("a", START + 50_000)), b"x")).ext
        await trio.sleep(1)  # they have their units
        # No more units: the last delete waits as an entry of the timer topic.
        monkeypatch.setattr(EnqueuePut, "put", no_room)
        await recall(peer, target)
        await trio.sleep(1)
        listed: list[object] = []

        async def list_them(peer: Peer, turns: int) -> None:
            for _ in range(turns):
                await trio.lowlevel.checkpoint()
            listed.append(await ids(peer))

        for turns in range(30):
            async with trio.open_nursery() as nursery:
                nursery.start_soon(list_them, peer, 0)
                nursery.start_soon(list_them, other, turns)
        monkeypatch.undo()

    assert listed == [[]] * 60


async def test_cancelled_messages_are_left_out_on_every_page(autojump_clock: MockClock) -> None:
    """A delete counts wherever it waits, also when it comes between two pages."""
    async with running_broker() as running:
        peer = running.connect()
        handles = {
            key: (await peer.call(10, send_ext("T", later(key, START + ms)), b"x")).ext
            for key, ms in (("a", 5_000), ("b", 5_500), ("c", 6_000), ("d", 7_000))
        }

        async def cancel(key: str) -> None:
            await recall(peer, handles[key])

        await cancel("b")
        first = await page(peer, limit=1)
        await cancel("d")
        rest = await ids(peer, limit=1, after=first["next"])

    assert ["Ua"] == [row["unique_id"] for row in first["rows"]]
    assert ["Uc"] == rest


async def test_a_page_without_rows_goes_on(
    autojump_clock: MockClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A page looks at a bounded number of messages, whatever it finds."""
    monkeypatch.setattr(pending_processor, "SCAN_COUNT_MAX", 2)
    async with running_broker() as running:
        peer = running.connect()
        for n in range(5):
            await peer.call(10, send_ext("T", later(str(n), START + 5_000 + n * 1_000)), b"x")
        found = await pages(peer, key="U4")

    assert [[], [], ["U4"]] == [[row["unique_id"] for row in one["rows"]] for one in found]


async def test_filters(autojump_clock: MockClock) -> None:
    """By moment (the second one exclusive), topic, key or unique id."""
    async with running_broker() as running:
        peer = running.connect()
        await peer.call(10, send_ext("T", later("a", START + 5_000)), b"x")
        await peer.call(10, send_ext("U", later("b", START + 6_000)), b"x")

        assert await ids(peer, between=[START + 5_000, START + 6_000]) == ["Ua"]
        assert await ids(peer, between=[START + 5_001, START + 6_001]) == ["Ub"]
        assert await ids(peer, topic="U") == ["Ub"]
        assert await ids(peer, key="a") == ["Ua"]
        assert await ids(peer, key="all") == ["Ua", "Ub"]
        assert await ids(peer, key="Ub") == ["Ub"]
        assert await ids(peer, topic="U", key="a") == []


@pytest.mark.parametrize(
    "data",
    [
        b"\xff",
        b"\x80",
        ask(limit=0),
        ask(limit=10_001),
        ask(limit="x"),
        ask(between=[1]),
        ask(between="x"),
        ask(after=[1, "x"]),
        ask(after=[1, 2, 3, 4, 2**63]),
        ask(after=[1, -2, 3, 4, 5]),
        ask(topic=1),
        ask(key=b"k"),
    ],
)
async def test_malformed_questions(data: bytes) -> None:
    """They are an invalid parameter (29)."""
    answer = Rig().call(9002, body=data)

    assert answer.code == 29
    assert answer.remark is not None
    assert answer.remark.startswith("LIST_PENDING_BODY: ")


async def test_long_requests_of_a_connection_are_bounded() -> None:
    """A connection with too many under way is busy (2)."""
    rig = Rig(options=attrs.evolve(BROKER, connection_tasks_max=1))
    answer = rig.call(9002)

    assert (answer.code, (answer.remark or "").partition(":")[0]) == (2, "CONNECTION_TASKS_MAX")
