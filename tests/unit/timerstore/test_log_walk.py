"""Damage behind the last checkpoint: what a kill leaves is all there, what a power cut leaves ends.

A store of twelve messages; the checkpoint knows of the first four.
"""

from __future__ import annotations

import pytest
import trio

from small_store import ROOT, message, put_bodies, read_bodies
from timermq.simulator.disks.memory_node import SECTOR_SIZE
from timermq.timerstore.boot_note import NAME
from timermq.timerstore.message_store import MessageStore
from timermq.timerstore.store_checkpoint import StoreCheckpoint
from unit.timerstore.stopped_store import BODIES, POSITIONS, RECORD_SIZE, Rig

DURABLE_COUNT = 4
ALL = BODIES[:12]
END = POSITIONS[11] + RECORD_SIZE
NEXT_SECTOR = -(-END // SECTOR_SIZE) * SECTOR_SIZE


def killed() -> Rig:
    """A killed store whose checkpoint says that the first records are durable."""
    rig = Rig()
    rig.disk.process_kill()
    checkpoint = StoreCheckpoint.open(rig.disk, f"{ROOT}/checkpoint")
    checkpoint.durable_py = POSITIONS[DURABLE_COUNT]
    checkpoint.write()
    rig.disk.sync_now(checkpoint.file)
    checkpoint.close()
    return rig


def damaged(*numbers: int) -> Rig:
    """The same; some records read as zeros."""
    rig = killed()
    for number in numbers:
        rig.write(POSITIONS[number], bytes(RECORD_SIZE))
    return rig


def sectors(number: int) -> set[int]:
    """Those that a record stands in."""
    start = POSITIONS[number]
    return set(range(start // SECTOR_SIZE, (start + RECORD_SIZE - 1) // SECTOR_SIZE + 1))


def without(*numbers: int) -> list[str]:
    """What consumers see then: nothing of a damaged sector."""
    lost = set[int]().union(*map(sectors, numbers))
    return [body for number, body in enumerate(ALL) if not sectors(number) & lost]


def next_offset(store: MessageStore) -> int:
    """The queue offset of the next message."""
    return store.put([message()])[0].queue_offset


@pytest.mark.parametrize("stop", [True, False])
def test_what_is_stored_behind_a_damaged_last_sector_is_sound(*, stop: bool) -> None:
    """Starts that follow serve it, and nothing of what was there before."""
    rig = damaged(11)
    for number in range(3):
        store = rig.open()
        put_bodies(store, f"more{number}")
        if stop:
            trio.run(store.aclose)
        else:
            rig.disk.process_kill()

    assert read_bodies(rig.open()) == [*without(11), "more0", "more1", "more2"]


@pytest.mark.parametrize("numbers", [(6,), (4,), (9,), (11,), (5, 6), (8, 9), (7, 10, 11)])
def test_what_stands_behind_damage_stays(numbers: tuple[int, ...]) -> None:
    """In the middle, at the checkpoint, at ends of segments, and the last one."""
    store = damaged(*numbers).open()

    # What comes next does not share a damaged sector.
    assert store.recovery.end == (NEXT_SECTOR if 11 in numbers else END)
    assert [one for one in store.recovery.notes if one.startswith("commit log damaged from ")]
    assert read_bodies(store) == without(*numbers)
    assert next_offset(store) == len(ALL)


def test_a_power_cut_ends_the_log_there() -> None:
    """What was not synced is gone from there on, and its units with it."""
    rig = damaged(6)
    rig.disk.power_cuts += 1
    store = rig.open()

    assert store.recovery.end == POSITIONS[6]
    assert read_bodies(store) == ALL[:6]
    assert next_offset(store) == 6


@pytest.mark.parametrize("what", ["missing", "damaged", "of another machine"])
def test_without_its_note_a_kill_is_a_power_cut(what: str) -> None:
    """The log is not believed to be there when nothing says so."""
    rig = damaged(6)
    path = f"{ROOT}/{NAME}"
    if what == "missing":
        rig.disk.remove(path)
    else:
        rig.disk.open(path).write(0, b"?" if what == "damaged" else b"boot 7\n0\n00000000\n")

    assert rig.open().recovery.end == POSITIONS[6]


def test_a_torn_last_write_is_cut() -> None:
    """It has no seal yet, and nothing stands behind it."""
    rig = killed()
    torn = rig.open()
    put_bodies(torn, "last")
    data = torn.commit_log.read(END, 1 << 10)
    rig.disk.process_kill()
    whole = killed()
    whole.write(END, data[:-3])
    store = whole.open()

    assert store.recovery.end == END
    assert read_bodies(store) == ALL


def test_a_whole_last_write_without_a_seal_is_kept() -> None:
    """As before: it was not answered, but it is there."""
    rig = killed()
    more = rig.open()
    put_bodies(more, "last")
    data = more.commit_log.read(END, 1 << 10)
    whole = killed()
    whole.write(END, data)

    assert read_bodies(whole.open()) == [*ALL, "last"]


def test_kills_in_a_row_without_a_checkpoint() -> None:
    """Damage is met again at each start, with what was stored since behind it."""
    rig = damaged(6)
    for number in range(3):
        store = rig.open()
        put_bodies(store, f"more{number}")
        rig.disk.process_kill()
    store = rig.open()

    assert read_bodies(store) == [*without(6), "more0", "more1", "more2"]
    assert next_offset(store) == len(ALL) + 3


def test_a_power_cut_behind_a_start_that_met_damage() -> None:
    """That start made the log durable, and noted how far: the damage does not end it now."""
    rig = damaged(6)
    rig.open()
    for name in rig.disk.list_dir(f"{ROOT}/consumequeue/T/0"):
        rig.disk.sync_now(rig.disk.open(f"{ROOT}/consumequeue/T/0/{name}"))
    rig.disk.sync_dir_now(f"{ROOT}/consumequeue/T/0")
    rig.disk.power_cut()
    store = rig.open()

    assert store.recovery.end == END
    assert next_offset(store) == len(ALL)


@pytest.mark.parametrize("number", [6, 11])
def test_lost_records_whose_units_are_damaged_too_do_not_refuse_the_start(number: int) -> None:
    """The next record of the queue tells that there was one; of the last one nothing does."""
    rig = damaged(number)
    rig.write_unit(number, bytes(20))
    store = rig.open()

    assert read_bodies(store) == without(number)
    assert next_offset(store) == (12 if number == 6 else 11)


def test_without_seals_a_good_record_behind_tells_damage() -> None:
    """There was no room for them, or they are lost too."""
    rig = damaged(7)
    for name in rig.disk.list_dir(f"{ROOT}/timermq-seals/commitlog"):
        rig.disk.remove(f"{ROOT}/timermq-seals/commitlog/{name}")
    store = rig.open()

    assert store.recovery.end == END
    assert next_offset(store) == len(ALL)


def test_a_lost_end_is_told_when_the_seals_are_lost_too() -> None:
    """The queue units tell of it: not in silence is a queue offset given out again."""
    rig = damaged(11)
    for name in rig.disk.list_dir(f"{ROOT}/timermq-seals/commitlog"):
        rig.disk.remove(f"{ROOT}/timermq-seals/commitlog/{name}")
    store = rig.open()

    assert store.recovery.end == POSITIONS[11]
    assert (
        f"commit log ends at {POSITIONS[11]}, and a killed process had brought records up to "
        f"{END} to queues: what stood between is lost"
    ) in store.recovery.notes


def test_a_record_unlike_its_seal_is_given_to_no_reader() -> None:
    """Its head and body are good, its properties are not: its queue offset is kept."""
    rig = killed()
    store = rig.open()
    (damaged_one,) = store.put([message("y" * 500, properties=b"KEYS\x01one two three four\x02")])
    store.put([message("z" * 200)])
    rig.disk.process_kill()
    rig.write(damaged_one.phy_offset + damaged_one.size - 20, b"three one two thr")
    again = rig.open()

    assert "y" * 500 not in read_bodies(again)
    assert next_offset(again) == len(ALL) + 2


def test_read_only_a_damaged_tail_is_passed_too() -> None:
    """Opened to be read only, the store passes the damage and writes nothing."""
    rig = damaged(6)
    before = rig.contents()

    assert read_bodies(rig.open(read_only=True)) == without(6)
    assert rig.contents() == before
