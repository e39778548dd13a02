"""The commit log of a store, compared with its seals, and its records with their units."""

from __future__ import annotations

import pytest
from structlog.testing import capture_logs

from small_store import ROOT, SEGMENT_SIZE, read_bodies
from timermq.timerstore.log_scrub import RECORD_WORK, LogScrub
from timermq.timerstore.queue_unit import UNIT
from timermq.timerstore.record_layout import BODY_AT
from timermq.timerstore.seal_reader import remove_seals
from timermq.timerstore.seal_scrub import Scrubbed
from unit.timerstore.stopped_store import POSITIONS, RECORD_SIZE, Rig

COUNT = 12
END = POSITIONS[COUNT - 1] + RECORD_SIZE


def rig(*damage: tuple[int, bytes], is_sealed: bool = True) -> Rig:
    """A store of twelve records of an earlier process; damage comes after the start."""
    one = Rig(COUNT)
    one.stop()
    if not is_sealed:
        remove_seals(one.disk, f"{ROOT}/commitlog")
    one.store = one.open()
    for at, data in damage:
        start = at - at % SEGMENT_SIZE
        one.disk.rot(f"{ROOT}/commitlog/{start:020d}", at - start, data)
    return one


def passed(one: Rig, at: int = 0) -> tuple[LogScrub, list[Scrubbed]]:
    """The pieces of a pass over the log."""
    scrub = LogScrub(one.store.files)
    scrub.begin()
    end, found = scrub.end, list[Scrubbed]()
    while at < end:
        found.append(scrub.step(at, end))
        at = found[-1].at
    return scrub, found


def total(found: list[Scrubbed]) -> tuple[int, int]:
    """How many things were damaged, and repaired."""
    return sum(one.damaged for one in found), sum(one.repaired for one in found)


def test_seals_come_first_and_records_behind_them() -> None:
    """Each record costs the processor something; the steps of a segment end at its end."""
    scrub, found = passed(rig())

    assert (scrub.start, scrub.end) == (0, END)
    assert total(found) == (0, 0)
    assert sum(one.work for one in found) >= COUNT * RECORD_WORK
    assert {one.at for one in found} >= {SEGMENT_SIZE, 2 * SEGMENT_SIZE, END}


def test_a_flipped_bit_is_put_right_before_its_record_is_read() -> None:
    """So the record passes, and its unit is compared."""
    one = rig((POSITIONS[2] + BODY_AT, b"?"))
    _, found = passed(one)

    assert total(found) == (1, 1)
    assert read_bodies(one.store)[2] == "c" * 100


def test_without_seals_the_checksum_of_a_body_is_looked_at() -> None:
    """Once a record: the walk goes on at the next one."""
    one = rig((POSITIONS[2] + BODY_AT, b"??"), is_sealed=False)
    with capture_logs() as lines:
        _, found = passed(one)

    assert total(found) == (1, 0)
    assert [(line["event"], line["offset"]) for line in lines] == [("damaged record", POSITIONS[2])]


def test_a_damaged_size_is_passed_over_to_the_next_record() -> None:
    """What the records behind it say is compared all the same."""
    one = rig((POSITIONS[2], b"\x00\x00\x01\x00"), is_sealed=False)
    one.write_unit(4, bytes(20))
    _, found = passed(one)

    assert total(found) == (2, 1)
    assert one.store.queue("T", 0) is not None
    assert len(read_bodies(one.store)) >= COUNT - 1


def test_behind_a_record_of_which_nothing_is_known_the_next_is_looked_for() -> None:
    """Neither its head nor a unit tells where it ends."""
    one = rig((POSITIONS[2], bytes(RECORD_SIZE)), is_sealed=False)
    one.write_unit(2, bytes(20))
    one.write_unit(4, UNIT.pack(4711, 1, 2))
    _, found = passed(one)

    assert total(found) == (2, 1)
    assert one.store.queue("T", 0) is not None


@pytest.mark.parametrize("at", [POSITIONS[3] + 1, POSITIONS[6] + 50])
def test_a_walk_that_begins_within_a_record_tells_of_no_damage(at: int) -> None:
    """An earlier process may have noted any position: its end of the log was another."""
    _, found = passed(rig(is_sealed=False), at)

    assert total(found) == (0, 0)


def test_behind_the_end_a_step_ends_the_pass() -> None:
    """Also where the segment has gone that the note speaks of."""
    scrub = LogScrub(rig().store.files)

    assert scrub.step(END, END) == Scrubbed(at=END)
    assert scrub.step(1 << 40, END) == Scrubbed(at=END)


def test_damage_that_a_seal_has_told_of_is_counted_once() -> None:
    """The record in that sector is not told of a second time."""
    one = rig((POSITIONS[6] + BODY_AT, b"?" * 60))
    with capture_logs() as lines:
        _, found = passed(one)

    assert total(found)[0] == len([line for line in lines if line["event"] == "damaged sector"])
    assert "damaged record" not in {line["event"] for line in lines}
