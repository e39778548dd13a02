"""Messages that a program sends on as it got them, with what RocketMQ leaves on delivered ones."""

from __future__ import annotations

import attrs
import pytest

from broker_rig import TIMER, Rig, send_ext
from timermq.pipeline.records.timer_record import TIMER_TOPIC
from transaction_rig import COMMIT, end, half_properties

LEFT = {
    "REAL_TOPIC": "Other",
    "REAL_QID": "3",
    "TIMER_OUT_MS": "1700000000000",
    "TIMER_ENQUEUE_MS": "1700000000000",
    "TIMER_DEQUEUE_MS": "1700000001001",
}
LEAVING = attrs.evolve(TIMER, leave_timer_properties=True)


def text(**more: str) -> str:
    """The properties of a message that is sent on."""
    pairs = {"UNIQ_KEY": "K", **LEFT, **more}
    return "".join(f"{name}\x01{value}\x02" for name, value in pairs.items())


async def test_taken_off_where_they_are_left() -> None:
    """The message goes where its send says, at once."""
    rig = Rig(timer_options=LEAVING)
    answer = rig.send("T", properties=text())
    (record,) = rig.records("T")

    assert answer.code == 0
    assert LEFT.keys().isdisjoint(record.properties_dict())


async def test_a_new_moment_counts() -> None:
    """RocketMQ delivers such a message at once, since it has a slot already."""
    rig = Rig(timer_options=LEAVING)
    answer = rig.send("T", properties=text(TIMER_DELAY_MS="5000"))
    (waiting,) = rig.records(TIMER_TOPIC)
    found = waiting.properties_dict()

    assert (answer.code, rig.records("T")) == (0, [])
    assert (found["REAL_TOPIC"], found["TIMER_DELIVER_MS"]) == ("T", "1700000005000")
    assert "TIMER_DEQUEUE_MS" not in found


async def test_in_a_transaction() -> None:
    """The half message keeps its own topic, and so does what is committed."""
    rig = Rig(timer_options=LEAVING)
    half = rig.call(10, send_ext("T", half_properties("K0", **LEFT), sysFlag="4"), b"x")
    answer = end(rig, half, COMMIT)
    (record,) = rig.records("T")

    assert (half.code, answer.code) == (0, 0)
    assert LEFT.keys().isdisjoint(record.properties_dict())


@pytest.mark.parametrize("name", LEFT)
async def test_refused_otherwise(name: str) -> None:
    """Nothing is left by default: such a property comes from somewhere else."""
    rig = Rig()
    answer = rig.send("T", properties=f"UNIQ_KEY\x01K\x02{name}\x01{LEFT[name]}\x02")

    assert answer.code == 13
    assert (answer.remark or "").startswith("INTERNAL_PROPERTY: ")


async def test_deletes_are_refused_always() -> None:
    """No delivered message has what names the target of a delete."""
    rig = Rig(timer_options=LEAVING)

    assert rig.send("T", properties=text(TIMER_DEL_ORDER="1")).code == 13
