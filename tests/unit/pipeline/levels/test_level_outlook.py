"""What is said beforehand of messages that wait for classic levels."""

from __future__ import annotations

import pytest

from left_levels import delivered, left_store, waiting
from timermq.pipeline.admission.run_request import OWN_PROPERTIES_SIZE_MAX
from timermq.pipeline.levels import level_outlook
from timermq.pipeline.levels.level_outlook import LevelOutlook, level_outlooks
from timermq.pipeline.levels.level_record import HALF_TOPIC
from timermq.pipeline.state.timer_options import TimerOptions
from timermq.simulator.disks.memory_disk import MemoryDisk
from timermq.timerstore.message import Message


def outlooks(
    messages: list[Message], offsets: dict[int, int] | None, moved: tuple[int, int] | None = None
) -> list[LevelOutlook]:
    """Of a store that RocketMQ left so, of which a broker of ours has moved one, or none."""
    store = left_store(MemoryDisk(), messages, offsets, moved)
    return list(level_outlooks(store, TimerOptions()))


def told(found: list[LevelOutlook]) -> list[tuple[int, str]]:
    """Level and what becomes of it, message by message."""
    return [
        (one.level, "done" if one.message is None and one.fault is None else one.fault or "moves")
        for one in found
    ]


@pytest.mark.parametrize("offsets", [{1: 1}, None])
def test_what_was_delivered_is_left_out(offsets: dict[int, int] | None) -> None:
    """Each delivery behind the offsets answers for one message; without offsets all of them do."""
    sent = [waiting("a", 1), delivered("a", 1), waiting("b", 1), waiting("b", 1), delivered("b", 1)]
    found = outlooks(sent, offsets)

    done = 1 if offsets else 2
    assert sorted(told(found)) == [(1, "done")] * done + [(1, "moves")]
    assert [one.delay_ms for one in found if one.message is not None] == [1_000]


def test_what_has_moved_is_left_out() -> None:
    """By a broker of ours that was killed in the middle."""
    found = outlooks([waiting("a", 1), waiting("b", 1), waiting("c", 3)], None, (1, 1))

    assert told(found) == [(1, "moves"), (1, "done"), (3, "moves")]
    assert [row.unique_id for one in found if (row := one.pending()) is not None] == ["a", "c"]


def test_what_no_message_can_be_made_of() -> None:
    """It goes nowhere but to the quarantine, and says why."""
    lost, kept = outlooks([waiting("a", 2, topic=HALF_TOPIC), waiting("b", 2)], None)

    assert (lost.fault or "").endswith("a half message that was delayed has lost its real topic")
    assert lost.pending() is None
    assert told([kept]) == [(2, "moves")]


def test_what_the_wheel_does_not_take() -> None:
    """Properties that leave no room for those of the timer: it goes to the quarantine too."""
    sent = waiting("a", 2)
    room = OWN_PROPERTIES_SIZE_MAX - len(sent.properties) - len("PAD..")
    fits, large = (
        Message(sent.topic, 1, b"a", b"PAD\x01" + b"x" * size + b"\x02" + sent.properties)
        for size in (room, room + 200)
    )
    first, second = outlooks([fits, large], None)

    assert (first.fault, first.pending() is not None) == (None, True)
    assert (second.fault or "").startswith("PROPERTIES_SIZE: ")
    assert second.pending() is None


def test_many(monkeypatch: pytest.MonkeyPatch) -> None:
    """They are read in pieces."""
    monkeypatch.setattr(level_outlook, "READ_COUNT", 2)
    found = outlooks([waiting(f"a{number}", 1) for number in range(5)], {1: 0})

    assert told(found) == [(1, "moves")] * 5
