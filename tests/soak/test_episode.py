"""How the histories of an episode are judged: each kind of reader must have everything."""

from __future__ import annotations

from pathlib import Path

import attrs
import pytest

from golden_stores import GoldenStores
from soak.cleaning import (
    LOG_SEGMENT,
    TIMER_LOG_SEGMENT,
    Ageing,
    Cleaned,
    PinBrokenError,
    check_store,
)
from soak.episode import NotDrainedError, judge
from story import Story
from timermq.client.history import HistoryWriter
from timermq.simulator.rules.broken import Rule

DUE_MS = 5_000


def episode(directory: Path, **stories: Story) -> Path:
    """A directory with the history of each writer."""
    for who, story in stories.items():
        with HistoryWriter(directory / f"{who}.jsonl") as history:
            history.write(*story.events)
    return directory


def test_every_reader_must_have_everything(tmp_path: Path) -> None:
    """What only one of two readers received is lost to the other."""
    directory = episode(
        tmp_path,
        producer=Story().sent("M", deliver_ms=DUE_MS),
        consumer=Story(who="c").end(),
        audit=Story(who="a").arrive("M", 0, stored_ms=DUE_MS).end(),
    )
    judgement = judge(directory, 0)

    assert judgement.held.is_clean
    assert [Rule.NOT_LOST] == [one.rule for one in judgement.seen.broken]
    assert not judgement.is_clean


def test_a_broker_that_ends_badly(tmp_path: Path) -> None:
    """An exit code other than 0 is no clean end."""
    story = Story().sent("M", deliver_ms=DUE_MS).arrive("M", 0, stored_ms=DUE_MS).end()
    directory = episode(tmp_path, consumer=story, audit=story)

    assert judge(directory, 0).is_clean
    assert not judge(directory, 1).is_clean


def test_without_a_whole_reading_there_is_no_judgement(tmp_path: Path) -> None:
    """A reader at the end that was not through says nothing about loss."""
    directory = episode(tmp_path, consumer=Story().end(), audit=Story().end(drained=False))

    with pytest.raises(NotDrainedError):
        judge(directory, 0)


def cleaned_episode(directory: Path, *readable: str) -> Path:
    """Three messages reached the consumers; some can be read in the end."""
    ids = ["A", "B", "C"]
    seen, audit = Story(who="c").reader("soak"), Story(who="a").reader("audit")
    for offset, one in enumerate(ids):
        seen.arrive(one, offset, stored_ms=DUE_MS + offset)
        if one in readable:
            audit.arrive(one, offset, stored_ms=DUE_MS + offset)
    producer = Story().sent(*ids, deliver_ms=DUE_MS)
    return episode(directory, producer=producer, consumer=seen.end(), audit=audit.end())


def test_what_was_cleaned_was_received_before(tmp_path: Path) -> None:
    """The reader at the end need not have what stood before the first message it can read."""
    directory = cleaned_episode(tmp_path, "C")

    assert judge(directory, 0, Cleaned(1, 1)).is_clean
    assert not judge(directory, 0).held.is_clean


def test_what_was_not_cleaned_can_be_read(tmp_path: Path) -> None:
    """A message behind the first readable one is lost when the reader at the end has it not."""
    directory = cleaned_episode(tmp_path, "A", "C")
    judgement = judge(directory, 0, Cleaned(1, 1))

    assert judgement.seen.is_clean
    assert {one.rule for one in judgement.held.broken} == {Rule.NOT_LOST, Rule.OFFSETS}


@pytest.mark.parametrize("cleaned", [Cleaned(0, 1), Cleaned(1, 0)])
def test_forced_cleaning_must_have_come(tmp_path: Path, cleaned: Cleaned) -> None:
    """An episode in which no segment of a log went says nothing about cleaning."""
    directory = cleaned_episode(tmp_path, "C")

    assert not judge(directory, 0, cleaned).is_clean
    assert judge(directory, 0, attrs.evolve(cleaned, log=1, timer_log=1)).is_clean


def test_segments_that_were_read_age(tmp_path: Path) -> None:
    """They are hours old, also when they were written again; what was not read stays young."""
    sizes = {"commitlog": LOG_SEGMENT, "timerlog": TIMER_LOG_SEGMENT}
    for name, size in sizes.items():
        (tmp_path / name).mkdir()
        for number in (3, 4, 5):
            (tmp_path / name / f"{number * size:020d}").touch()
    read, *others = sorted((tmp_path / "commitlog").iterdir())
    now = read.stat().st_mtime
    ageing = Ageing(tmp_path, lambda: 5 * LOG_SEGMENT - 1)
    for _ in range(2):
        read.touch()
        ageing.age()

        assert now - read.stat().st_mtime > 3_600
        assert all(now - one.stat().st_mtime < 3_600 for one in others)
    assert Cleaned.of(tmp_path) == Cleaned(3, 3)


def test_what_is_pending_may_not_be_cleaned(golden_stores: GoldenStores, tmp_path: Path) -> None:
    """A store whose oldest segment went under pending messages ends the soak."""
    store = Path(golden_stores.unpack_copy("g3", tmp_path))
    check_store(store, [])
    min((store / "commitlog").iterdir()).unlink()

    with pytest.raises(PinBrokenError, match="NOT_LOST"):
        check_store(store, [])
