"""Which messages deletes cover: units and entries, read once and forgotten when they are done."""

from __future__ import annotations

import attrs
import numpy as np

from fakes import ManualClock
from simulation.staged_service import delete_of, timed
from timermq.pipeline.cancel.pending_deletes import PendingDeletes
from timermq.pipeline.records.cancel_verdict import Wanted
from timermq.pipeline.records.deduplication import AlreadyDone
from unit.pipeline.stages_by_hand import SLOT_MS, TINY, StagesByHand

DUE_MS = SLOT_MS + 1


@attrs.frozen
class Known:
    """A service with two messages of one slot, and what is known of deletes."""

    rig: StagesByHand
    deletes: PendingDeletes

    def learn(self, *, read_ms: int = SLOT_MS, queue_offset: int = 2) -> None:
        """Read the deletes that have come."""
        for _ in self.deletes.learn(read_ms=read_ms, queue_offset=queue_offset):
            pass

    def covered(self) -> list[str]:
        """Keys of the messages that are cancelled."""
        places = zip("ab", self.rig.places()[:2], strict=True)
        cancelled = self.deletes.cancelled
        return [key for key, at in places if cancelled.cover(SLOT_MS, at, b"T", key.encode())]


def known(already_done: AlreadyDone | None = None) -> Known:
    """Both messages are linked, and nothing is read of any delete."""
    rig = StagesByHand(ManualClock())
    rig.link(timed("a", DUE_MS), timed("b", DUE_MS))
    deletes = PendingDeletes(
        store=rig.store,
        files=rig.service.files,
        already_done=already_done or AlreadyDone(),
        precision_ms=TINY.timer_precision_ms,
    )
    return Known(rig, deletes)


def test_a_delete_counts_before_it_has_a_unit() -> None:
    """It waits as an entry of the timer topic, and then as a unit of the slot."""
    found = known()
    found.rig.send(delete_of("a", DUE_MS))
    assert found.covered() == []
    found.learn()
    assert found.covered() == ["a"]

    found.rig.link()
    found.learn(queue_offset=3)
    assert found.covered() == ["a"]


def test_a_cancel_covers_its_message_alone() -> None:
    """It names the order, of which the other message has none."""
    found = known()
    found.rig.service.cancellation.cancel(Wanted("T", "b"))
    found.learn()

    assert found.covered() == ["b"]


def test_a_delete_of_another_slot_or_topic_covers_nothing() -> None:
    """The slot and the topic are part of the name of its target."""
    found = known()
    found.rig.link(delete_of("a", DUE_MS + 1_000), delete_of("b", DUE_MS, topic="U"))
    found.learn(queue_offset=4)

    assert found.covered() == []


def test_what_has_come_later_is_read_beside_what_is_known() -> None:
    """A second reading begins where the first one ended."""
    found = known()
    for key in ("a", "b"):
        found.rig.link(delete_of(key, DUE_MS))
        found.learn(queue_offset=4)

    assert found.covered() == ["a", "b"]


def test_deletes_of_slots_that_are_read_are_forgotten() -> None:
    """They have had their effect."""
    found = known()
    found.rig.link(delete_of("a", DUE_MS))
    found.learn(queue_offset=3)
    found.learn(read_ms=SLOT_MS + 1_000, queue_offset=3)

    assert found.covered() == []


def test_a_delete_that_rolled_before_the_stop_is_not_read() -> None:
    """Its roll stands in the log, and is read instead."""
    found = known()
    found.rig.link(delete_of("a", DUE_MS))
    (*_, place) = found.rig.places()
    again = known(AlreadyDone(origins=np.array([place], np.int64)))
    again.rig.link(delete_of("a", DUE_MS))
    again.learn(queue_offset=3)

    assert again.covered() == []
