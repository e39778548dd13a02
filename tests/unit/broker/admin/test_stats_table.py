"""Tests of growth in the last minute, hour and day: RocketMQ's moments and its sums."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from timermq.broker.admin.stats_table import Counts, Growth, Key, StatsTable

KEY = ("topic", "T")


class Counted:
    """Counters that the test sets, read at every moment that comes."""

    def __init__(self, *, keys_max: int = 100) -> None:
        self.time = 0.0
        self.counts: dict[Key, Counts] = {}
        self.table = StatsTable(self.time, keys_max=keys_max)

    def read(self) -> None:
        """Take the readings that are due."""
        for _ in self.table.read(self.time, self.counts.items()):
            pass

    def go_on(self, seconds: float, count: Callable[[], None] = lambda: None) -> None:
        """Let time pass; something is counted before each reading."""
        for _ in range(int(seconds / 10)):
            count()
            self.time += 10
            self.read()

    def add(self, messages: int, key: Key = KEY) -> None:
        """Count messages of ten bytes that a single call brought."""
        before = self.counts.get(key, (0, 0, 0))
        self.counts[key] = (before[0] + messages, before[1] + 10 * messages, before[2] + 1)

    def growth(self, span: str = "statsMinute", key: Key = KEY) -> Growth:
        """Of one span; there must be such a counter."""
        found = self.table.growth(key)
        assert found is not None
        return found[span]

    def messages(self) -> list[int]:
        """Messages of the last minute, hour and day."""
        return [self.growth(span).counts[0] for span in ("statsMinute", "statsHour", "statsDay")]


def test_a_sum_changes_at_its_moments() -> None:
    """Every ten seconds, ten minutes, hour; so that of a day is 0 for the first hour."""
    counted = Counted()
    counted.add(5)
    counted.go_on(590)
    assert counted.messages() == [0, 0, 0]
    counted.add(2)
    counted.go_on(10)
    assert counted.messages() == [2, 7, 0]
    counted.go_on(2_990)
    assert counted.messages() == [0, 7, 0]
    counted.go_on(10)
    assert counted.messages() == [0, 7, 7]
    counted.go_on(10 * 60)
    assert counted.messages() == [0, 0, 7], "the hour has no reading of its first moment any more"
    counted.go_on(24 * 3_600)
    assert counted.messages() == [0, 0, 0]


def test_what_is_not_there_yet_began_one_interval_before_it_was_found() -> None:
    """The seconds of a sum grow until they are a minute."""
    counted = Counted()
    counted.go_on(100)
    counted.add(3)
    seconds: list[float] = []
    for _ in range(8):
        counted.go_on(10)
        seconds.append(counted.growth().seconds)

    assert seconds == [10, 20, 30, 40, 50, 60, 60, 60]
    assert counted.growth() == Growth(60.0, (0, 0, 0))
    assert counted.growth("statsHour") == Growth()
    assert counted.table.growth(("topic", "U")) is None


def test_calls_and_bytes() -> None:
    """They grow with the messages, each by itself."""
    counted = Counted()
    counted.go_on(60, lambda: counted.add(7))

    assert counted.growth() == Growth(60.0, (42, 420, 6))


def test_moments_without_a_reading() -> None:
    """Over such a time the counters are taken to have grown evenly."""
    counted = Counted()
    counted.add(1)
    counted.go_on(600)
    counted.add(720)
    counted.time += 7_200
    counted.read()

    assert counted.messages() == [6, 360, 721]
    assert counted.growth().seconds == pytest.approx(60)
    assert counted.growth("statsHour").seconds == pytest.approx(3_600)


def test_a_moment_is_read_once() -> None:
    """Between two of them nothing changes."""
    counted = Counted()
    counted.add(1)
    counted.go_on(10)
    counted.add(1)
    counted.time += 9.9

    assert not counted.table.is_due(counted.time)
    counted.read()
    assert counted.messages()[0] == 1
    counted.time += 0.1
    assert counted.table.is_due(counted.time)


def test_what_is_forgotten_begins_again_at_0() -> None:
    """Its place may be another counter's, which knows nothing of it."""
    counted = Counted()
    counted.go_on(120, lambda: counted.add(4))
    counted.table.forget([KEY])
    del counted.counts[KEY]
    assert counted.table.growth(KEY) is None
    counted.add(9, ("topic", "U"))
    counted.add(2)
    counted.go_on(10)

    assert counted.growth(key=("topic", "U")) == Growth(10.0, (9, 90, 1))
    assert counted.growth() == Growth(10.0, (2, 20, 1))
    assert set(counted.table) == {KEY, ("topic", "U")}


def test_there_is_room_for_so_many() -> None:
    """The first ones are counted, and there is room again when one is forgotten."""
    counted = Counted(keys_max=2)
    for name in "ABC":
        counted.add(1, ("topic", name))
    counted.go_on(10)

    assert list(counted.table) == [("topic", "A"), ("topic", "B")]
    counted.table.forget([("topic", "A")])
    del counted.counts["topic", "A"]
    counted.go_on(10)
    assert counted.growth(key=("topic", "C")).counts == (1, 10, 1)


def test_readings_of_many_take_several_turns() -> None:
    """One that is cut off changes no reading; the next one is whole."""
    counted = Counted(keys_max=10_000)
    for number in range(2_500):
        counted.add(1, ("topic", str(number)))
    counted.time = 10.0
    cut_off = counted.table.read(counted.time, counted.counts.items())
    next(cut_off)
    del cut_off

    assert counted.growth(key=("topic", "0")) == Growth()
    turns = list(counted.table.read(counted.time, counted.counts.items()))
    assert len(turns) == 2
    assert counted.growth(key=("topic", "2499")).counts == (1, 10, 1)
