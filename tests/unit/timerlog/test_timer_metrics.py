"""Counts of pending messages by topic."""

from __future__ import annotations

import pytest

from timermq.simulator.disks.memory_disk import MemoryDisk
from timermq.timerlog import TimerMetrics, timer_metrics
from timermq.timerstore.java_hash import java_hash

PATH = "/store/config/timermetrics"
GOLDEN = (
    '{"dataVersion":{"counter":319,"stateVersion":0,"timestamp":1795237590776},"timingCount":{'
    '"Timer_b8db":{"count":45,"timeStamp":1795237590776},'
    '"Alarm_7733":{"count":38,"timeStamp":1795237590776}}}'
)
"""As RocketMQ 5.3.3 wrote it."""


def loaded(text: str | None = None) -> TimerMetrics:
    """Metrics from a file's text."""
    disk = MemoryDisk()
    disk.make_dirs("/store/config")
    if text is not None:
        disk.open(PATH, create=True).write(0, text.encode())
    return TimerMetrics.load(disk, PATH)


def test_the_text_of_rocketmq_comes_back_byte_for_byte() -> None:
    """Compact, in the order of the file."""
    assert loaded(GOLDEN).text(1) == GOLDEN


def test_counts_are_read() -> None:
    """The file of RocketMQ gives the count of each topic."""
    assert loaded(GOLDEN).counts() == {"Timer_b8db": 45, "Alarm_7733": 38}


def test_a_missing_file_counts_from_nothing() -> None:
    """The text of empty metrics is that of RocketMQ's."""
    assert loaded().text(5) == (
        '{"dataVersion":{"counter":0,"stateVersion":0,"timestamp":0},"timingCount":{}}'
    )


def test_damage_is_left_out() -> None:
    """A file that is no JSON, or holds something else, counts what it can."""
    assert loaded("{oops").counts() == {}
    assert loaded("[1]").counts() == {}
    assert loaded(
        '{"timingCount":{"A":7,"B":{"count":true},"C":{"count":-4},"D":{"count":4}}}'
    ).counts() == {"A": 0, "B": 0, "C": 0, "D": 4}


def test_adding_moves_count_time_and_version() -> None:
    """Each addition counts in the version; what changed carries the time of the text."""
    metrics = loaded(GOLDEN)
    metrics.add("Timer_b8db", -5)
    metrics.add("New", 2)
    metrics.add("New", 1)

    assert metrics.text(1795237600000) == (
        '{"dataVersion":{"counter":322,"stateVersion":0,"timestamp":1795237600000},"timingCount":{'
        '"Timer_b8db":{"count":40,"timeStamp":1795237600000},'
        '"Alarm_7733":{"count":38,"timeStamp":1795237590776},'
        '"New":{"count":3,"timeStamp":1795237600000}}}'
    )


def test_an_unchanged_text_keeps_its_time() -> None:
    """Asking twice gives the same."""
    metrics = loaded()
    metrics.add("T", 1)

    assert metrics.text(5) == metrics.text(9)


def test_counts_never_fall_below_zero() -> None:
    """What was never counted cannot be taken away."""
    metrics = loaded()
    metrics.add("T", 1)
    metrics.add("T", -3)
    metrics.add("T", 2)

    assert metrics.counts() == {"T": 2}


def test_a_topic_is_found_by_its_hash() -> None:
    """Of those that have it, Aa and BB, the first; a hash that no topic has counts nothing."""
    metrics = loaded(GOLDEN)
    for topic in ("Aa", "BB"):
        metrics.add(topic, 5)
    for topic in ("Alarm_7733", "BB", "unknown"):
        metrics.add_by_hash(java_hash(topic), -1)

    assert metrics.counts() == {"Timer_b8db": 45, "Alarm_7733": 37, "Aa": 4, "BB": 5}


def test_no_topic_is_hashed_to_find_one(monkeypatch: pytest.MonkeyPatch) -> None:
    """A thousand messages quarantined among thousands of topics would hold all timers up."""
    metrics = loaded(GOLDEN)
    metrics.add("T", 3)
    hashed: list[str] = []
    monkeypatch.setattr(timer_metrics, "java_hash", hashed.append)
    metrics.add_by_hash(java_hash("T"), -1)
    metrics.add("T", -1)

    assert ([], 1) == (hashed, metrics.counts()["T"])


def test_counts_made_anew_replace_the_old() -> None:
    """Topics that are not among them have 0; what is equal is not touched."""
    metrics = loaded(GOLDEN)
    metrics.replace({"Alarm_7733": 38, "New": 2})

    assert metrics.counts() == {"Timer_b8db": 0, "Alarm_7733": 38, "New": 2}
    assert '"counter":321' in metrics.text(1)
    assert '"Alarm_7733":{"count":38,"timeStamp":1795237590776}' in metrics.text(1)


async def test_saved_metrics_are_loaded() -> None:
    """The new file stands beside the backup of the old one."""
    disk = MemoryDisk()
    disk.make_dirs("/store/config")
    metrics = TimerMetrics.load(disk, PATH)
    metrics.add("T", 1)
    await metrics.save(metrics.text(5))
    metrics.add("T", 1)
    await metrics.save(metrics.text(6))
    disk.power_cut()

    assert TimerMetrics.load(disk, PATH).counts() == {"T": 2}
    disk.remove(PATH)
    assert TimerMetrics.load(disk, PATH).counts() == {"T": 1}


async def test_an_unchanged_text_is_not_saved_again() -> None:
    """An idle service does not write."""
    disk = MemoryDisk()
    disk.make_dirs("/store/config")
    metrics = TimerMetrics.load(disk, PATH)
    metrics.add("T", 1)
    await metrics.save(metrics.text(5))
    disk.remove(PATH)
    await metrics.save(metrics.text(6))

    assert not disk.exists(PATH)
