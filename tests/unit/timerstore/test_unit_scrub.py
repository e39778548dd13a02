"""Units of queues, compared with the records that they show."""

from __future__ import annotations

import pytest

from fakes import ManualClock
from small_store import ROOT, message, open_store, put_bodies, read_bodies
from timermq.simulator.disks.memory_disk import MemoryDisk
from timermq.timerstore.message_store import MessageStore
from timermq.timerstore.queue_unit import UNIT
from timermq.timerstore.unit_scrub import UnitScrub, put_right_around
from unit.timerstore.stopped_store import BODIES, Rig

WRONG = UNIT.pack(4711, 1, 2)


def look_at_all(store: MessageStore) -> UnitScrub:
    """Compare the unit of each record of the log."""
    scrub = UnitScrub(store.files)
    log = store.commit_log
    for at, size in list(log.scan(0, check_crc=False)):
        scrub.look(at, log.read(at, size))
    return scrub


def counts(scrub: UnitScrub) -> tuple[int, int]:
    """How many units were damaged, and repaired."""
    return scrub.damaged, scrub.repaired


def test_sound_units_stay_and_their_bytes_are_counted() -> None:
    """What is read of the queues counts as work of the scrub."""
    scrub = look_at_all(Rig().store)

    assert counts(scrub) == (0, 0)
    assert scrub.size >= 12 * UNIT.size


@pytest.mark.parametrize("number", [0, 4, 5, 11])
def test_a_unit_that_shows_another_place_is_put_right(number: int) -> None:
    """By the record, which states its place in the queue."""
    rig = Rig()
    rig.write_unit(number, WRONG)

    assert counts(look_at_all(rig.store)) == (1, 1)
    assert read_bodies(rig.store) == BODIES[:12]


def test_records_that_no_queue_shows_have_no_unit() -> None:
    """A queue that is not there, and offsets before its beginning and behind its end."""
    rig = Rig()
    data = rig.store.commit_log.read(0, 192)
    for changed in (
        data.replace(b"\x01T", b"\x01U"),
        data[:20] + (99).to_bytes(8) + data[28:],
    ):
        scrub = UnitScrub(rig.store.files)
        scrub.look(0, changed)
        assert counts(scrub) == (0, 0)


def test_a_record_whose_place_another_one_has_puts_nothing_right() -> None:
    """A forged record in a body, or a copy: the queue shows the other one, which is good."""
    rig = Rig()
    data = rig.store.commit_log.read(0, 192)
    scrub = UnitScrub(rig.store.files)
    scrub.look(3 * 192, data)

    assert counts(scrub) == (0, 0)
    assert read_bodies(rig.store) == BODIES[:12]


def test_the_moment_of_a_classic_level_stays_what_it_was() -> None:
    """Whatever the level is by now: only place and size are compared."""
    store = open_store(MemoryDisk(), ManualClock())
    properties = b"DELAY\x013\x02REAL_TOPIC\x01T\x02REAL_QID\x010\x02"
    store.put([message(topic="SCHEDULE_TOPIC_XXXX", queue_id=2, properties=properties)])
    queue = store.queue("SCHEDULE_TOPIC_XXXX", 2)
    assert queue is not None
    phy_offset, size, moment_ms = queue.units(0, 1).tolist()[0]
    queue.put_right(0, UNIT.pack(phy_offset, size, moment_ms + 5))
    assert counts(look_at_all(store)) == (0, 0)
    queue.put_right(0, UNIT.pack(phy_offset, size + 1, moment_ms + 5))

    assert counts(look_at_all(store)) == (1, 1)
    assert queue.units(0, 1).tolist() == [(phy_offset, size, moment_ms + 5)]


def test_a_deleted_topic_is_left_alone() -> None:
    """Its records are still in the log; its new queue is another one."""
    rig = Rig()
    rig.store.files.register.delete_topic("T", rig.store.commit_log.max_offset)
    rig.write_unit(2, WRONG)

    assert counts(look_at_all(rig.store)) == (0, 0)


def test_bad_units_beside_each_other_are_put_right_together() -> None:
    """The log is read from the sound unit before them to the one behind them."""
    rig = Rig()
    for number in (3, 4, 5):
        rig.write_unit(number, WRONG)
    queue = rig.store.queue("T", 0)
    assert queue is not None

    assert put_right_around(rig.store.files, queue, 4)
    assert read_bodies(rig.store) == BODIES[:12]
    assert not put_right_around(rig.store.files, queue, 4)


def test_a_queue_without_a_sound_unit_is_read_from_the_start_of_the_log() -> None:
    """To its end: no unit says where the records stand."""
    disk = MemoryDisk()
    store = open_store(disk)
    put_bodies(store, "a", "b")
    for number in range(2):
        disk.open(f"{ROOT}/consumequeue/T/0/{0:020d}").write(20 * number, WRONG)
    queue = store.queue("T", 0)
    assert queue is not None

    assert put_right_around(store.files, queue, 1)
    assert read_bodies(store) == ["a", "b"]
