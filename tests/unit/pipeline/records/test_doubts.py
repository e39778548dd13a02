"""Which messages a damaged place of the commit log leaves in doubt."""

from __future__ import annotations

import pytest

from fakes import START_MS, ManualClock
from simulation.staged_service import ROOT
from timermq.pipeline.records.deduplication import Doubt, origin_of
from timermq.pipeline.records.doubts import FOREVER_MS, doubts_of, origins_in
from timermq.pipeline.records.timer_record import TIMER_TOPIC
from timermq.timerstore.log_holes import Hole
from timermq.timerstore.message import Message
from timermq.timerstore.record_layout import PHY_OFFSET_AT
from unit.pipeline.stages_by_hand import StagesByHand

ORIGIN_PY = 77


class Log:
    """Records of a real store, each stored a second after the one before it."""

    def __init__(self, *messages: Message) -> None:
        self.clock = ManualClock()
        self.rig = StagesByHand(self.clock)
        self.places: list[int] = []
        for message in messages:
            (result,) = self.rig.store.put([message])
            assert result.status.is_stored
            self.places.append(result.phy_offset)
            self.clock.time_ms += 1_000
        self.places.append(self.rig.store.commit_log.max_offset)

    def hole(self, first: int, last: int | None = None) -> Hole:
        """The place of some neighbouring records."""
        end = self.places[(first if last is None else last) + 1]
        return Hole(self.places[first], end, "damaged", reaches_segment_end=False)

    def damage(self, position: int, data: bytes) -> None:
        """Other bytes in the file."""
        file = self.rig.disk.open(f"{ROOT}/commitlog/{0:020d}")
        file.write(position, data)

    def doubts(self, *holes: Hole, is_javas: bool = False) -> tuple[Doubt, ...]:
        """What these holes leave in doubt."""
        return doubts_of(self.rig.store, holes, is_javas=is_javas)


def delivered(topic: str = "T") -> Message:
    """A delivery that names its origin."""
    return Message(topic, 0, b"body", b"UNIQ_KEY\x01a\x02", prepared_offset=origin_of(ORIGIN_PY))


def plain(topic: str = "T") -> Message:
    """A message that names no origin."""
    return Message(topic, 0, b"body", b"UNIQ_KEY\x01b\x02")


def test_a_record_that_states_its_place_leaves_no_doubt() -> None:
    """Only its body is damaged: its origin tells what it delivered."""
    log = Log(delivered(), plain())
    hole = log.hole(0)

    assert origins_in(log.rig.store.commit_log, [hole]) == [ORIGIN_PY]
    assert log.doubts(hole) == ()


@pytest.mark.parametrize(("at", "size"), [(0, 4), (4, 4), (PHY_OFFSET_AT, 8)])
def test_one_that_does_not_state_its_place_does(at: int, size: int) -> None:
    """Without size, magic or position nothing else of it is believed."""
    log = Log(delivered(), plain())
    hole = log.hole(0)
    log.damage(hole.position + at, b"\xff" * size)

    assert origins_in(log.rig.store.commit_log, [hole]) == []
    assert log.doubts(hole) == (Doubt(0, START_MS + 1_000, frozenset({"T"})),)


def test_a_delivery_of_rocketmq_s_names_no_origin() -> None:
    """Where RocketMQ has delivered too, a record without one may be such a delivery."""
    log = Log(plain(), plain())
    hole = log.hole(0)

    assert log.doubts(hole) == ()
    assert log.doubts(hole, is_javas=True) == (Doubt(0, START_MS + 1_000, frozenset({"T"})),)


def test_at_the_end_of_the_log_no_moment_is_too_late() -> None:
    """No record behind the damage says when it was over."""
    log = Log(plain(), delivered())
    hole = log.hole(1)
    log.damage(hole.position, bytes(8))

    assert [one.until_ms for one in log.doubts(hole)] == [FOREVER_MS]


def test_the_topics_of_all_lost_records_are_known() -> None:
    """Two records of two topics, each with its unit."""
    log = Log(delivered("A"), delivered("B"), plain("C"))
    hole = log.hole(0, 1)

    assert [one.topics for one in log.doubts(hole)] == [frozenset({"A", "B"})]


def test_a_lost_record_of_the_timer_topic_may_be_of_any() -> None:
    """A roll or a delete ends a message of whichever destination."""
    log = Log(delivered("A"), plain(TIMER_TOPIC), plain("C"))
    hole = log.hole(0, 1)

    assert [one.topics for one in log.doubts(hole)] == [None]


def test_bytes_without_a_unit_may_be_of_any_topic() -> None:
    """The queues tell of one record, and not of what stands beside it."""
    log = Log(delivered("A"), plain("B"), plain("C"))
    whole = log.hole(0, 1)
    hole = Hole(whole.position + 4, whole.end, "damaged", reaches_segment_end=False)

    assert [one.topics for one in log.doubts(hole)] == [None]
