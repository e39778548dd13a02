"""Damages that broke a promise once, by their names, and how they come out now."""

from __future__ import annotations

import pytest

from damage.damages import Case
from damage.outcome import Outcome, Verdict, judge

LOG = "commitlog/00000000000000000000"
HALVES = "consumequeue/RMQ_SYS_TRANS_HALF_TOPIC/0/00000000000000000000"
MARKS = "consumequeue/RMQ_SYS_TRANS_OP_HALF_TOPIC/0/00000000000000000000"
ENTRIES = "consumequeue/rmq_sys_TIMERMQ_QUARANTINE/0/00000000000000000000"

REPAIRED = {
    # A wheel behind a stop in order was believed: its messages were lost without a word.
    "rolled-stopped:timerwheel:flip:2913.7": Outcome.SAME,
    "pending-stopped:timerwheel:zero:5": Outcome.SAME,
    "moved-stopped:timerwheel:swap:5+6": Outcome.SAME,
    "levels-stopped:timerwheel:stale:5": Outcome.SAME,
    # A number of the timer checkpoint was believed although its checksum said otherwise.
    "transactions-stopped:config/timercheck:flip:2.1": Outcome.SAME,
    "bulk-killed:config/timercheck:flip:21.2": Outcome.SAME,
    # What had been durable was cut off, for the newest record could not say that it was there.
    f"rolled-killed:{LOG}:zero:1": Outcome.WITHHELD,
    # Consumers were given the bytes of a damaged sector.
    f"pending-stopped:{LOG}:zero:0": Outcome.WITHHELD,
    f"levels-stopped:{LOG}:zero:4": Outcome.WITHHELD,
    # A delete that could not be read took nothing back, and what it meant arrived.
    f"cancelled-stopped:{LOG}:zero:1": Outcome.QUARANTINED,
    # The last unit of a queue was cut off with its damaged record, and its offset given out again.
    f"transactions-stopped:{LOG}:zero:7": Outcome.SAME,
    # So it was behind a kill, by making the queue again.
    f"transactions-killed:{LOG}:zero:6": Outcome.WITHHELD,
    # Units behind a stop in order were believed.
    "pending-stopped:consumequeue/P/0/00000000000000000000:flip:11.0": Outcome.SAME,
    f"transactions-stopped:{HALVES}:flip:10.0": Outcome.SAME,
    f"transactions-stopped:{MARKS}:flip:6.3": Outcome.SAME,
    f"quarantine-stopped:{ENTRIES}:flip:31.3": Outcome.SAME,
    # A half message that could not be read was gone without a word.
    f"transactions-stopped:{LOG}:zero:4": Outcome.QUARANTINED,
    # So was an entry of the quarantine.
    f"quarantine-stopped:{LOG}:zero:2": Outcome.WITHHELD,
    # Behind the last checkpoint of a killed store damage ended the log, and what stood behind it
    # was lost.
    f"pending-killed:{LOG}:zero:2": Outcome.QUARANTINED,
    f"rolled-killed:{LOG}:zero:2": Outcome.QUARANTINED,
    f"quarantine-killed:{LOG}:zero:3": Outcome.WITHHELD,
    f"transactions-killed:{LOG}:zero:7": Outcome.SAME,
    f"bulk-killed:{LOG}:zero:4": Outcome.QUARANTINED,
    f"levels-killed:{LOG}:zero:5": Outcome.WITHHELD,
    # A delete that could not be read when it was to roll took nothing back.
    f"cancelled-stopped:{LOG}:zero:2": Outcome.WITHHELD,
    f"cancelled-killed:{LOG}:zero:3": Outcome.SAME,
    f"moved-stopped:{LOG}:zero:2": Outcome.SAME,
    # The old record of a message that had moved was quarantined, though the new one arrived.
    f"moved-killed:{LOG}:zero:0": Outcome.SAME,
    f"moved-killed:{LOG}:zero:1": Outcome.WITHHELD,
    # A table that had been saved once had no second copy, and its damage refused every start.
    "transactions-stopped:config/consumerOffset.json:zero:0": Outcome.SAME,
    "transactions-stopped:config/consumerOffset.json:cut:0": Outcome.SAME,
    # So did another end of the log in a file that is ours, and only makes damage known.
    "transactions-stopped:config/consumeQueues.json:flip:158.1": Outcome.SAME,
    # Another offset of a level was believed: its messages arrived twice.
    "levels-stopped:config/delayOffset.json:flip:106.2": Outcome.SAME,
    # A unit behind the last seal named a slot that had passed, and its message was lost.
    "moved-killed:timerlog/00000000000000000516:flip:20.0": Outcome.SAME,
    "levels-killed:timerlog/00000000000000000344:flip:71.3": Outcome.SAME,
}


@pytest.mark.parametrize("name", REPAIRED)
def test_a_damage_that_broke_a_promise(name: str) -> None:
    """It does not any more."""
    assert judge(Case.named(name)) == Verdict(REPAIRED[name])
