"""A store that a real broker of RocketMQ 4.9 has just left, stopped or killed, is served on.

Once a parameter the story is lived through; each test looks at one promise.
"""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from interop.handed import LATE_MS_MAX
from interop.java_peer import JavaPeer
from interop.left_by_version_4 import (
    GROUP,
    HALF_WITH_LEVEL,
    LATE_NAMES,
    LEVEL_LAST,
    LEVEL_NAMES,
    PLAIN,
    TOPICS,
    TRADE,
    Life,
    Seen,
    Story,
    Told,
    name_of,
    waiting,
)
from timermq.timerstore.body_codec import decompress_body
from timermq.timerstore.record import Record

pytestmark = [pytest.mark.slow, pytest.mark.interop]

PENDING_NAMES = {name for name, level in LEVEL_NAMES.items() if level == LEVEL_LAST}
BROKERS_OWN = {"DELAY", "REAL_TOPIC", "REAL_QID", "TIMER_DELIVER_MS"}
"""Properties that tell how a message came, by level or from the wheel."""


@pytest.fixture(scope="module", params=[False, True], ids=["stopped", "killed"])
def story(
    request: pytest.FixtureRequest,
    tmp_path_factory: pytest.TempPathFactory,
    java_peer: JavaPeer,
    java_peer_4: JavaPeer,
) -> Story:
    """What happened to one store."""
    home: Path = tmp_path_factory.mktemp("version-4")
    return Told(home, java_peer, java_peer_4, bool(request.param)).tell()


def by_place(seen: list[Seen]) -> dict[tuple[str, int, int], Seen]:
    """Messages by topic, queue and queue offset."""
    return {(one.topic, one.queue_id, one.queue_offset): one for one in seen}


def times(life: Life, topic: str) -> Counter[str]:
    """How often each message stands on a topic, by the records of the log."""
    return Counter(name_of(decompress_body(one)) for one in life.stored if one.topic == topic)


def delivered(story: Story) -> dict[str, int]:
    """Levels of the messages that RocketMQ delivered before it ended."""
    topics = PLAIN, f"%RETRY%{GROUP}"
    found = {
        name_of(decompress_body(one)): one for one in story.javas.stored if one.topic in topics
    }
    properties = {name: one.properties_dict() for name, one in found.items()}
    return {name: int(own["DELAY"]) for name, own in properties.items() if "DELAY" in own}


def held(story: Story) -> dict[str, Record]:
    """The records that wait for levels in what RocketMQ left, by message."""
    return {name_of(decompress_body(one)): one for one in waiting(story.javas.stored)}


def test_what_was_there(story: Story) -> None:
    """Each message is at its place, as RocketMQ's client saw it before, in every field."""
    before, first, last = (
        by_place(seen) for seen in (story.javas.last, story.ours.first, story.ours.last)
    )
    names = {one.name for one in before.values()}

    assert before == {place: first.get(place) for place in before}
    assert before == {place: last.get(place) for place in before}
    assert {"rich", "poor", "large", "batched2", "level-1-0", "late-2", "done", "dead"} <= names
    assert {"rich", "large"} <= {
        one.name for one in before.values() if one.properties.get("colour") == "grün = 1"
    }


def test_levels(story: Story) -> None:
    """What waited comes at store time and delay, once, as it was sent."""
    arrived = {one.name: one for one in story.ours.last if one.topic == PLAIN}
    due_ms = {
        name: one.store_ms + story.levels_ms[one.queue_id]
        for name, one in held(story).items()
        if one.properties_dict()["REAL_TOPIC"] == PLAIN
    }
    expected = due_ms.keys() - PENDING_NAMES
    ours = expected - delivered(story).keys()

    assert set(LEVEL_NAMES) | set(LATE_NAMES) | {"level-large"} == due_ms.keys()
    assert set() != ours
    assert dict.fromkeys(expected, 1) == {
        name: count for name, count in times(story.ours, PLAIN).items() if name in due_ms
    }
    assert {} == {
        name: (arrived[name].store_ms, due_ms[name])
        for name in ours
        if not due_ms[name]
        <= arrived[name].store_ms
        <= max(due_ms[name], story.ours.began_ms) + LATE_MS_MAX
    }
    for name in ours:
        assert as_sent(held(story)[name]) == as_arrived(arrived[name])
        assert story.sent[name][1] == arrived[name].id
    assert sorted((story.sent[name][1], due_ms[name]) for name in PENDING_NAMES) == sorted(
        (row["unique_id"], row["deliver_ms"]) for row in story.pending
    )


def as_sent(one: Record) -> object:
    """What a record that waits for a level says of its message."""
    properties = one.properties_dict()
    born = ".".join(map(str, one.born_host[:4])), int.from_bytes(one.born_host[4:])
    return (
        properties["REAL_TOPIC"],
        int(properties["REAL_QID"]),
        one.flag,
        one.sys_flag & 0xFE,  # Java's client takes the lowest bit away as it unpacks
        one.body_crc,
        one.born_ms,
        f"{born[0]}:{born[1]}",
        one.reconsume_times,
        {key: text for key, text in properties.items() if key not in BROKERS_OWN},
    )


def as_arrived(one: Seen) -> object:
    """The same of the message that came."""
    return (
        one.topic,
        one.queue_id,
        one.flag,
        one.sys_flag & 0xFE,
        one.body_crc,
        one.born_ms,
        one.born_host,
        one.reconsume_times,
        {key: text for key, text in one.properties.items() if key not in BROKERS_OWN},
    )


def test_what_the_offsets_do_not_know(story: Story) -> None:
    """RocketMQ delivered it after it had written its file: it does not come again."""
    unknown = sum(level == 1 for level in delivered(story).values()) - story.delay_offsets[1]

    assert (len(LATE_NAMES) if story.is_killed else 0) <= unknown
    assert dict.fromkeys(LATE_NAMES, 1) == {
        name: times(story.ours, PLAIN)[name] for name in LATE_NAMES
    }


def test_transactions(story: Story) -> None:
    """Its producer is asked: what it commits comes once, what it rolls back never."""
    asked = {name for name, *_ in story.ours.words("CHECKED")}

    assert Counter(["done", "open-done", "ours"]) == times(story.ours, TRADE)
    assert {"open-done", "open-undone", "open-kept"} == asked
    assert 3 == story.javas.planned("transactions")["open"]["count"]
    assert 1 == story.ours.planned("transactions")["open"]["count"]


def test_a_half_message_with_a_level(story: Story) -> None:
    """RocketMQ has lost its topic, and throws it away when it is due: here it is quarantined."""
    unique_id = story.sent[HALF_WITH_LEVEL][1]

    assert HALF_WITH_LEVEL in held(story)
    assert [(unique_id, "illegal_topic")] == [
        (row["unique_id"], row["reason"]) for row in story.quarantined
    ]


def test_groups(story: Story) -> None:
    """The group goes on where it was; its retry waits for its moment, its dead letter stays.

    On a busy machine the moment may come before RocketMQ is stopped.
    """
    before = {tuple(words[:2]) for words in story.javas.words("GOT")}
    got = Counter(tuple(words[:2]) for words in story.ours.words("GOT"))
    (retry,) = (one for one in story.ours.last if one.topic == f"%RETRY%{GROUP}")
    waited = held(story)["again"]

    assert Counter({("later-0", "0"), ("later-1", "0"), ("again", "1")} - before) == got
    assert ["dead"] == [one.name for one in story.ours.last if one.topic == f"%DLQ%{GROUP}"]
    assert as_sent(waited) == as_arrived(retry)
    assert retry.store_ms >= waited.store_ms + story.levels_ms[2]


def test_plan(story: Story) -> None:
    """What ``store plan`` says is what happened."""
    planned = story.javas.planned
    writer = str(planned("store")["written by"]["what"])
    done = Counter(delivered(story).values())
    left = Counter(
        str(one.queue_id + 1)
        for name, one in held(story).items()
        if name not in {*delivered(story), HALF_WITH_LEVEL}
    )
    left["quarantined"] = 1
    left["done"] = sum(count - story.delay_offsets.get(level, 0) for level, count in done.items())
    stored = sum(one.topic in TOPICS for one in story.javas.stored)

    assert writer.startswith("RocketMQ 4")
    assert ("not stopped" if story.is_killed else "stopped") in planned("store")
    assert stored == planned("messages")["stored"]["count"]
    assert +left == {name: row["count"] for name, row in planned("level").items()}
    assert 1 == planned("groups")["consumer groups"]["count"]
    assert 0 == planned("timers")["pending"]["count"]
    assert "timerwheel" in planned("file")
    assert {} == story.ours.planned("level")
    assert len(PENDING_NAMES) == story.ours.planned("timers")["pending"]["count"]


@pytest.mark.parametrize("story", [False], indirect=True, ids=["stopped"])
def test_back(story: Story) -> None:
    """RocketMQ 4.9 serves what is on topics; the wheel means nothing to it, and stays as it is."""
    before, after = by_place(story.ours.last), by_place(story.back)

    assert before == {place: after.get(place) for place in before}
    assert PENDING_NAMES.isdisjoint(one.name for one in story.back)
    assert len(PENDING_NAMES) == len(story.pending)
