"""Which versions of RocketMQ would honour the deletes of a store: counted by what they name."""

from __future__ import annotations

import pytest

from fakes import ManualClock
from simulation.staged_service import stored_delete, timed
from timermq.pipeline.cancel.delete_forms import DeleteForms, delete_forms
from timermq.pipeline.records.cancel_verdict import Wanted
from timermq.pipeline.records.deduplication import AlreadyDone
from timermq.pipeline.recovery.timer_recovery import DECISIONS, Recovered
from unit.pipeline.stages_by_hand import SLOT_MS, TINY, StagesByHand

DUE_MS = SLOT_MS + 1


def forms(rig: StagesByHand, read_ms: int = SLOT_MS) -> DeleteForms:
    """The forms as a start would meet them that begins with a slot, and with what is linked."""
    recovered = Recovered(
        decision=next(iter(DECISIONS.values())),
        read_ms=read_ms,
        queue_offset=rig.state.commit_queue_offset,
        scan_py=0,
        already_done=AlreadyDone(),
    )
    return delete_forms(rig.store, rig.service.files, recovered, TINY.timer_precision_ms)


@pytest.mark.parametrize("is_linked", [False, True])
def test_a_cancel_and_a_move_have_both_forms(*, is_linked: bool) -> None:
    """Each names one message, whether its deletes have units or not."""
    rig = StagesByHand(ManualClock())
    rig.link(timed("a", DUE_MS), timed("b", DUE_MS), timed("c", DUE_MS))
    rig.service.cancellation.cancel(Wanted("T", "a"))
    rig.service.cancellation.reschedule(Wanted("T", "b"), DUE_MS + 1_000)
    if is_linked:
        rig.link()

    assert forms(rig) == DeleteForms(count=2, with_topic=2, with_key=2)
    assert forms(rig, SLOT_MS + 1_000).count == (0 if is_linked else 2)


def test_a_delete_alone_has_one_form() -> None:
    """As RocketMQ stores it: 5.3.3 with the topic, 5.5 without; both may name one message."""
    rig = StagesByHand(ManualClock())
    rig.link(*[timed(body, DUE_MS) for body in "abc"])
    for name in ("T+a", "b", "T+c", "c"):
        rig.store.put([stored_delete("T", name, DUE_MS, name[-1])])
        rig.link()

    assert forms(rig) == DeleteForms(count=3, with_topic=2, with_key=2)


def test_a_key_with_a_plus_is_no_topic() -> None:
    """The topic ends at the first plus: a producer may have more of them in its unique keys."""
    rig = StagesByHand(ManualClock())
    rig.link(timed("a+b", DUE_MS), timed("c+d", DUE_MS))
    for name, key in (("T+a+b", "a+b"), ("c+d", "c+d"), ("T+c+d", "c+d")):
        rig.store.put([stored_delete("T", name, DUE_MS, key)])
        rig.link()

    assert forms(rig) == DeleteForms(count=2, with_topic=2, with_key=1)


def test_a_store_without_deletes() -> None:
    """There is nothing to say of it."""
    rig = StagesByHand(ManualClock())
    rig.link(timed("a", DUE_MS))

    assert forms(rig) == DeleteForms(count=0, with_topic=0, with_key=0)
