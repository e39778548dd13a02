"""Rows against the rules of the broker: what admission says of each, and limits beside it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from timermq.pipeline.admission.admission import Refusal, TimerAdmission
from timermq.pipeline.spark.sink.row_check import CheckedRows, RowCheck, timer_options
from timermq.timerstore.message import Message

from .rows import DAY_MS, JOB_MS, LIMITS, Row, batch_of, columns_of, map_of, row

NO_TOPIC = {"Closed": "TOPIC_NOT_EXIST: there is none"}


def refusals(topics: Sequence[str]) -> Mapping[str, str]:
    """What the broker says of some topics."""
    return {topic: NO_TOPIC[topic] for topic in topics if topic in NO_TOPIC}


def checked(*rows: Row, has_far: bool = False) -> CheckedRows:
    """What is said about some rows."""
    batch = batch_of(rows)
    check = RowCheck(columns_of(batch), LIMITS, JOB_MS, topic_refusals=refusals, has_far=has_far)
    return check.check(batch)


def rule_of(one: Row, *, has_far: bool = False) -> str | None:
    """The rule that refuses a row; None when it is let in."""
    refused = checked(row(), one, has_far=has_far).refused
    assert 0 not in refused
    return refused[1].rule if refused else None


@pytest.mark.parametrize(
    ("given_row", "rule"),
    [
        (row(), None),
        (row(deliver_at=0), None),
        (row(deliver_at=JOB_MS + 3 * DAY_MS), None),
        (row(deliver_at=JOB_MS + 3 * DAY_MS + 1), "TIMER_DELAY_TOO_LONG"),
        (row(deliver_at=10_000_000_000_000), "TIMER_DELAY_TOO_LONG"),
        (row(deliver_at=-1), "TIMER_NEGATIVE"),
        (row(deliver_at=None), "MOMENT_MISSING"),
        (row(topic=None), "TOPIC_NAME"),
        (row(topic="Closed"), "TOPIC_NOT_EXIST"),
        (row(topic="rmq_sys_wheel_timer"), "INTERNAL_TOPIC"),
        (row(body=None), "BODY_EMPTY"),
        (row(body=b""), "BODY_EMPTY"),
        (row(body=b"x" * 100), None),
        (row(body=b"x" * 101), "BODY_SIZE"),
        (row(key="k", properties={"a": "b\n"}), None),
        (row(key="k\x02x"), "PROPERTY_TEXT"),
        (row(key="k", properties={"KEYS": "k"}), "PROPERTY_TWICE"),
        (row(properties={"a\n": "b"}), "PROPERTY_TEXT"),
        (row(properties={"TIMER_OUT_MS": "1"}), "INTERNAL_PROPERTY"),
        (row(properties={"TIMER_DELAY_SEC": "9"}), "MOMENT_TWICE"),
        (row(properties={"UNIQ_KEY": "9"}), "BULK_BLOCK"),
        (row(properties={"a": "x" * 297}), None),
        (row(properties={"a": "x" * 298}), "PROPERTIES_SIZE"),
    ],
)
def test_rules(given_row: Row, rule: str | None) -> None:
    """Each rule by its name, and the rows around it are let in."""
    assert rule == rule_of(given_row)


def test_far_rows() -> None:
    """Where the far future has a place of its own, ten years are the limit."""
    assert None is rule_of(row(deliver_at=JOB_MS + 3650 * DAY_MS), has_far=True)
    assert "TIMER_DELAY_TOO_LONG" == rule_of(
        row(deliver_at=JOB_MS + 3650 * DAY_MS + 1), has_far=True
    )


def test_numbers_that_overflow() -> None:
    """A sum that does not fit is refused and does not wrap round."""
    found = checked(
        {"topic": "T", "body": b"x", "delay_ms": 2**63 - 1},
        {"topic": "T", "body": b"x", "delay_ms": 5},
    )

    assert ["TIMER_OVERFLOW"] == [one.rule for one in found.refused.values()]
    assert JOB_MS + 5 == found.deliver_ms[1]


def test_blocks() -> None:
    """One a topic, rows in their order, the names that they have."""
    found = checked(
        row(topic="A", body=b"1", tag="t"),
        row(topic="B", body=b"2"),
        row(topic="A", body=b"", tag="u"),
        row(topic="A", body=b"4", deliver_at=JOB_MS + 9),
    )

    blocks = list(found.blocks(found.kept()))

    assert ["A", "B"] == [block.topic for block in blocks]
    assert [[b"1", b"4"], [b"2"]] == [block.bodies.each() for block in blocks]
    assert [JOB_MS + 5, JOB_MS + 9] == blocks[0].deliver_ms.tolist()
    assert {"TAGS": [b"t", b""]} == {
        name: column.each() for name, column in blocks[0].properties.items()
    }
    assert {} == blocks[1].properties


_VALUES = st.text(st.sampled_from("ab\n\x01\x02 1"), min_size=1, max_size=4)
_NAMES = st.sampled_from(["a", "TIMER_X", "TIMER_OUT_MS", "n\x01", "REAL_TOPIC"])
_MOMENTS = st.sampled_from(
    [0, -1, JOB_MS - 1, JOB_MS, JOB_MS + 1, JOB_MS + 3 * DAY_MS, JOB_MS + 3 * DAY_MS + 1, 2**63 - 1]
)


@given(
    st.lists(
        st.fixed_dictionaries(
            {"deliver_at": _MOMENTS, "properties": st.dictionaries(_NAMES, _VALUES, max_size=2)}
        ),
        min_size=1,
        max_size=4,
    )
)
def test_columns_decide_as_admission_does(given_rows: list[dict[str, object]]) -> None:
    """A row is refused whenever admission refuses it, by its rule; else its moment is the same."""
    rows = [row(**one) for one in given_rows]
    admission = TimerAdmission(timer_options(LIMITS, has_far=False), lambda _: False)
    found = checked(*rows)

    for at, one in enumerate(given_rows):
        pairs = {**map_of(one), "TIMER_DELIVER_MS": str(one["deliver_at"])}
        text = "".join(f"{name}\x01{value}\x02" for name, value in pairs.items()).encode()
        expected = admission.admit(Message("T", 0, b"", text), JOB_MS)
        if isinstance(expected, Refusal):
            assert expected.rule == found.refused[at].rule
        elif at not in found.refused:
            assert expected.deliver_ms == found.deliver_ms[at]
        else:
            assert found.refused[at].rule in ("MOMENT_TWICE", "BULK_BLOCK")


def test_levels_are_clamped_as_admission_does() -> None:
    """A level above the highest counts as the highest; none and below is at once."""
    rows = [{"topic": "T", "body": b"x", "level": level} for level in (1, 2, 3, 0, -1)]

    found = checked(*rows)

    assert {} == found.refused
    assert np.array_equal([JOB_MS + 1000, JOB_MS + 5000, JOB_MS + 5000, 0, 0], found.deliver_ms)
