"""Tests of listing what will fire."""

from typing import cast

import attrs
import cbor2
import pytest
from trio.testing import MockClock

from broker_rig import BROKER, Peer, Rig, running_broker, send_ext

START = 1_700_000_000_000


def ask(**fields: object) -> bytes:
    """The body of a request."""
    return cbor2.dumps(fields)


def later(key: str, deliver_ms: int) -> str:
    """Properties of a message that waits."""
    return f"UNIQ_KEY\x01U{key}\x02KEYS\x01{key} all\x02TIMER_DELIVER_MS\x01{deliver_ms}\x02"


async def rows(peer: Peer, **fields: object) -> list[dict[str, object]]:
    """The rows of one page."""
    answer = await peer.call(9002, body=ask(**fields))
    assert answer.code == 0, answer.remark
    return cast("list[dict[str, object]]", cbor2.loads(answer.body))


async def test_rows_come_in_the_order_of_delivery(autojump_clock: MockClock) -> None:
    """A row says what will fire, when and where."""
    async with running_broker() as running:
        peer = running.connect()
        for key, ms in (("c", 9_000), ("a", 5_500), ("b", 5_400)):
            await peer.call(10, send_ext("T", later(key, START + ms)), b"x")
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
    """A page begins behind the last row of the one before, also among equal moments."""
    async with running_broker() as running:
        peer = running.connect()
        for n in range(7):
            await peer.call(10, send_ext("T", later(str(n), START + 5_000)), b"x")
        seen: list[object] = []
        after: list[object] | None = None
        while page := await rows(peer, limit=3, after=after):
            assert len(page) <= 3
            seen += [row["unique_id"] for row in page]
            after = [page[-1]["deliver_ms"], page[-1]["phy_offset"]]

    assert seen == [f"U{n}" for n in range(7)]


async def test_filters(autojump_clock: MockClock) -> None:
    """By moment (the second one exclusive), topic, key or unique id."""
    async with running_broker() as running:
        peer = running.connect()
        await peer.call(10, send_ext("T", later("a", START + 5_000)), b"x")
        await peer.call(10, send_ext("U", later("b", START + 6_000)), b"x")

        async def ids(**fields: object) -> list[object]:
            return [row["unique_id"] for row in await rows(peer, **fields)]

        assert await ids(between=[START + 5_000, START + 6_000]) == ["Ua"]
        assert await ids(between=[START + 5_001, START + 6_001]) == ["Ub"]
        assert await ids(topic="U") == ["Ub"]
        assert await ids(key="a") == ["Ua"]
        assert await ids(key="all") == ["Ua", "Ub"]
        assert await ids(key="Ub") == ["Ub"]
        assert await ids(topic="U", key="a") == []


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

    assert (answer.code, answer.remark) == (
        2,
        "CONNECTION_TASKS_MAX: [OVERLOAD] 1 long requests of this connection are under way",
    )
