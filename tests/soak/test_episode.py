"""How the histories of an episode are judged: each kind of reader must have everything."""

from __future__ import annotations

from pathlib import Path

import pytest

from soak.episode import NotDrainedError, judge
from story import Story
from timermq.cli.check_history.broken import Rule
from timermq.client.history import HistoryWriter

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
