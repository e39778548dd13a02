"""Records whose place can be told although their own head says another."""

from __future__ import annotations

import pytest

from timermq.repair import record_repair
from timermq.repair.queue_sequence import Gap, Misfit
from timermq.repair.record_repair import RecordRepair, ShownAt, pair
from timermq.timerstore.log_holes import Hole

GAP = Gap("T", 0, 1, 2, 0, 300)
ONE = Misfit(100, 100, "T", 0, 9)
OTHER = Misfit(200, 100, "T", 0, 8)


def shown(position: int, size: int = 100) -> ShownAt:
    """Units that all show one record."""

    def shown_at(_topic: str, _queue_id: int, _offset: int) -> tuple[int, int]:
        return position, size

    return shown_at


def nothing(_topic: str, _queue_id: int, _offset: int) -> tuple[int, int] | None:
    """A queue whose files are lost."""
    return None


def test_a_unit_decides_among_several() -> None:
    """Without one, either could be the missing record, and none is changed."""
    repairs, gaps, left = pair([GAP], [ONE, OTHER], shown(200))
    assert repairs == [RecordRepair(OTHER, "T", 0, 1)]
    assert (gaps, left) == ([], [ONE])

    assert pair([GAP], [ONE, OTHER], nothing) == ([], [GAP], [ONE, OTHER])


def test_a_unit_of_another_size_decides_nothing() -> None:
    """The only misfit between the neighbours is taken all the same."""
    assert pair([GAP], [ONE, OTHER], shown(200, 99))[0] == []
    assert pair([GAP], [ONE], shown(200, 99))[0] == [RecordRepair(ONE, "T", 0, 1)]


def test_a_unit_may_show_a_record_outside_the_neighbours() -> None:
    """Neighbours tell nothing then: it shows just that record."""
    far = Misfit(900, 100, "T", 0, 9)

    assert pair([GAP], [far], shown(900))[0] == [RecordRepair(far, "T", 0, 1)]
    assert pair([GAP], [far], nothing)[0] == []


def test_a_gap_is_divided_around_what_was_found() -> None:
    """The offsets before and behind it are lost still."""
    wide = Gap("T", 0, 1, 6, 0, 900)

    def shown_at(_topic: str, _queue_id: int, offset: int) -> tuple[int, int] | None:
        return (100, 100) if offset == 3 else None

    others = [Misfit(700, 100, "T", 0, 8), Misfit(800, 100, "T", 0, 7)]
    repairs, gaps, left = pair([wide], [ONE, *others], shown_at)

    assert [one.queue_offset for one in repairs] == [3]
    assert [(one.first, one.end) for one in gaps] == [(1, 3), (4, 6)]
    assert left == others


def test_very_many_pairs_are_repaired_by_units_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """To compare each with each would take hours."""
    monkeypatch.setattr(record_repair, "PAIRS_MAX", 1)
    other = Misfit(200, 100, "UU", 0, 8)

    assert pair([GAP], [ONE, other], nothing)[0] == []
    assert pair([GAP], [ONE, other], shown(100))[0] == [RecordRepair(ONE, "T", 0, 1)]


@pytest.mark.parametrize(("at", "is_repaired"), [(50, False), (0, True), (300, True), (310, True)])
def test_a_hole_between_the_neighbours_makes_a_possible_beginning_doubtful(
    at: int, *, is_repaired: bool
) -> None:
    """A hole elsewhere took nothing of the gap."""
    hole = Hole(at, at + 9, "torn", False)
    repairs, _, _ = pair([GAP], [ONE], nothing, [hole], lambda _misfit: True)

    assert bool(repairs) == is_repaired
