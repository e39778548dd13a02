"""Tests of offsets: the ends of a queue, store times, and what groups have committed."""

import pytest

from broker_rig import Rig
from timermq.broker.options import BrokerOptions

QUEUE = {"topic": "T", "queueId": "0"}


async def test_the_ends_of_a_queue() -> None:
    """The maximum is the offset that the next message gets; a queue without messages is at 0."""
    rig = Rig()
    rig.send("T")
    rig.send("T")

    assert rig.call(30, QUEUE).ext == {"offset": "2"}
    assert rig.call(31, QUEUE).ext == {"offset": "0"}
    assert rig.call(30, {"topic": "T", "queueId": "1"}).ext == {"offset": "0"}
    assert rig.call(31, {"topic": "none", "queueId": "0"}).ext == {"offset": "0"}


async def test_store_times() -> None:
    """Offsets are found by store time, and the oldest message's time is known."""
    rig = Rig()
    for _ in range(3):
        rig.send("T")
        rig.clock.time_ms += 1_000

    def at(time_ms: int, **more: str) -> str:
        return rig.call(29, {**QUEUE, "timestamp": str(time_ms), **more}).ext["offset"]

    first = 1_700_000_000_000
    assert [at(first - 1), at(first + 1_000), at(first + 1_001), at(first + 9_999)] == list("0123")
    assert at(first + 1_500, boundaryType="UPPER") == "1"
    assert rig.call(32, QUEUE).ext == {"timestamp": str(first)}
    assert rig.call(32, {"topic": "T", "queueId": "1"}).ext == {"timestamp": "-1"}


async def test_commits_are_answered_again() -> None:
    """A group goes on where it committed, also backwards; -1 changes nothing."""
    rig = Rig()
    rig.send("T")
    group = {**QUEUE, "consumerGroup": "G"}

    assert rig.call(15, {**group, "commitOffset": "7"}).code == 0
    assert rig.call(14, group).ext == {"offset": "7"}
    assert rig.call(15, {**group, "commitOffset": "3"}).code == 0
    assert rig.call(15, {**group, "commitOffset": "-1"}).code == 0
    assert rig.call(14, group).ext == {"offset": "3"}


async def test_a_new_group_on_a_young_queue_begins_at_0() -> None:
    """While message 0 is there, a group without commits is told to begin with it."""
    rig = Rig()
    rig.send("T")
    group = {**QUEUE, "consumerGroup": "G"}

    assert rig.call(14, group).ext == {"offset": "0"}
    assert rig.call(14, {**group, "setZeroIfNotFound": "false"}).code == 22


async def test_a_new_group_on_an_empty_queue_decides_itself() -> None:
    """Nothing is known of it (22)."""
    rig = Rig()
    answer = rig.call(14, {**QUEUE, "consumerGroup": "G"})

    assert (answer.code, answer.remark) == (
        22,
        "OFFSET_NOT_FOUND: group 'G' has committed no offset here",
    )


@pytest.mark.parametrize(
    ("ext", "code"),
    [
        ({"topic": "none"}, 17),
        ({"queueId": "8"}, 29),
        ({"queueId": "-1"}, 29),
        ({"consumerGroup": "a/b"}, 29),
        ({"commitOffset": "x"}, 1),
    ],
)
async def test_bad_commits(ext: dict[str, str], code: int) -> None:
    """What could grow the table without bound is refused."""
    rig = Rig()
    rig.send("T")
    answer = rig.call(15, {**QUEUE, "consumerGroup": "G", "commitOffset": "1", **ext})

    assert answer.code == code


async def test_unknown_groups() -> None:
    """A commit makes the group, unless groups are made by the operator only (26)."""
    strict = Rig(options=BrokerOptions(auto_create_subscription_group=False))
    strict.send("T")
    answer = strict.call(15, {**QUEUE, "consumerGroup": "G", "commitOffset": "1"})

    assert answer.code == 26
