"""A store whose commit log is gone is refused; what a power cut leaves of a young one is not."""

from __future__ import annotations

import pytest

from fakes import START_MS
from small_store import ROOT, read_bodies
from timermq.timerstore.errors import StoreFormatError
from unit.timerstore.stopped_store import Rig, remove

GONE = f"^{ROOT}/commitlog: at 0: expected the commit log, for {{}} .*, found none$"
REGISTER = f"{ROOT}/config/consumeQueues.json"


def without_log(rig: Rig) -> dict[str, bytes]:
    """Take the log away, and our list of what it held, which RocketMQ does not write."""
    if rig.disk.is_dir(f"{ROOT}/commitlog"):
        remove(rig, f"{ROOT}/commitlog")
    if rig.disk.exists(REGISTER):
        rig.disk.remove(REGISTER)
    return rig.contents()


@pytest.mark.parametrize("read_only", [False, True])
def test_queues_without_their_log_are_refused(read_only: bool) -> None:
    """A store that was stopped in order: nothing is emptied, and no second log is begun."""
    rig = Rig(3)
    rig.stop()
    rig.disk.remove(f"{ROOT}/checkpoint")
    before = without_log(rig)

    with pytest.raises(StoreFormatError, match=GONE.format("the queue T/0 holds units")):
        rig.open(read_only=read_only)
    assert before == rig.contents()


def test_a_checkpoint_without_its_log_is_refused() -> None:
    """Killed or not, with queues or without: messages were durable."""
    rig = Rig(3)
    rig.kill()
    rig.set_checkpoint(START_MS, START_MS)
    remove(rig, f"{ROOT}/consumequeue")
    before = without_log(rig)

    with pytest.raises(StoreFormatError, match=GONE.format("the checkpoint tells of durable")):
        rig.open()
    assert before == rig.contents()


@pytest.mark.parametrize(("begin", "is_refused"), [(b"\0\0\0\x34", True), (bytes(4), False)])
def test_a_timer_log_without_its_commit_log_is_refused(begin: bytes, is_refused: bool) -> None:
    """Queues can be made again, and may have been removed: units of timers tell of records too."""
    rig = Rig(0)
    rig.stop()
    rig.disk.make_dirs(f"{ROOT}/timerlog")
    rig.disk.open(f"{ROOT}/timerlog/{0:020d}", create=True).write(0, begin + bytes(1000))
    before = without_log(rig)

    if is_refused:
        with pytest.raises(StoreFormatError, match=GONE.format("the timer log holds units")):
            rig.open()
        assert before == rig.contents()
    else:
        assert [] == read_bodies(rig.open())
