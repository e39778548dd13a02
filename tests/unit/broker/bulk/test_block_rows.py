"""Rows as columns are the same messages as rows one by one."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from timermq.broker.bulk.block_rows import (
    BATCH_ROWS_MAX,
    RUN_COUNT_MIN,
    BlockRows,
    RowsOrigin,
    own_size,
    row_in,
)
from timermq.broker.bulk.bulk_topics import TopicQueues
from timermq.remoting.bulk_block import BulkBlock, BulkColumn
from timermq.timerstore.message import Message, pack_host
from timermq.timerstore.properties import parse

NOW_MS = 1_700_000_000_000
LATEST_MS = NOW_MS + 1_000_000
OWN = b"CLUSTER\x01C\x02"
TAG = b"0123456789ABCDEF"


def origin(first: int = 0, turns: int = 12) -> RowsOrigin:
    """Where the rows of a part come from, numbered from ``first`` on."""
    return RowsOrigin(
        tag=TAG,
        first=first,
        job_ms=NOW_MS - 5,
        born_host=pack_host("127.0.0.1", 1),
        own=OWN,
        own_names=frozenset({"CLUSTER"}),
        queues=TopicQueues(count=12, turns=turns),
        body_size_max=10,
    )


def fields(message: Message) -> tuple[object, ...]:
    """What both ways of making a message have to agree on."""
    return (
        message.topic,
        message.queue_id,
        message.body,
        message.properties,
        message.born_ms,
        message.born_host,
    )


@st.composite
def many_rows(draw: st.DrawFn) -> BulkBlock:
    """Rows of few forms, with rows among them that fit into no run."""
    rows = draw(st.integers(1, 70))

    def column(values: st.SearchStrategy[bytes]) -> BulkColumn:
        return BulkColumn.of(draw(st.lists(values, min_size=rows, max_size=rows)))

    moments = st.sampled_from([0, 7, NOW_MS, NOW_MS + 1, LATEST_MS, LATEST_MS + 1])
    return BulkBlock.of(
        "T",
        column(st.sampled_from([b"", b"x", b"body"])),
        deliver_ms=np.array(draw(st.lists(moments, min_size=rows, max_size=rows)), np.int64),
        queue_ids=np.array(
            draw(st.lists(st.integers(-1, 11), min_size=rows, max_size=rows)), np.int32
        ),
        properties={
            "KEYS": column(st.sampled_from([b"", b"k1", b"k2", b"TIMER_"])),
            "CLUSTER": column(st.just(b"theirs")),
        },
    )


@given(many_rows(), st.integers(0, 10**12))
def test_columns_say_what_messages_say(block: BulkBlock, first: int) -> None:
    """Every row is in one group or among the single ones, and says the same either way."""
    rows = BlockRows(block, origin(first))
    everything = np.arange(len(block), dtype=np.int64)
    groups, single = rows.runs(everything, now_ms=NOW_MS, latest_ms=LATEST_MS)

    assert sorted(row for group in (*groups, single) for row in group.tolist()) == list(
        range(len(block))
    )
    for group in groups:
        assert [fields(one) for one in rows.columns(group).messages()] == [
            fields(one) for one in rows.messages(group)
        ]
        assert (block.deliver_ms[group] > NOW_MS).all()
        assert (block.deliver_ms[group] <= LATEST_MS).all()


def test_a_row_is_its_columns_and_what_the_broker_adds() -> None:
    """The broker's own properties cannot be brought; an empty value is no property."""
    block = BulkBlock.of(
        "T",
        BulkColumn.of([b"x", b"y"]),
        deliver_ms=np.array([NOW_MS + 9, 0]),
        properties={"KEYS": BulkColumn.of([b"k", b""]), "CLUSTER": BulkColumn.of([b"a", b"b"])},
    )
    first, second = BlockRows(block, origin(41)).messages(np.arange(2))

    assert parse(first.properties) == {
        "TIMER_DELIVER_MS": str(NOW_MS + 9),
        "KEYS": "k",
        "UNIQ_KEY": "0123456789ABCDEF0000000000000041",
        "CLUSTER": "C",
    }
    assert len(first.properties) - len("KEYS.k.") == own_size(OWN)
    assert list(parse(second.properties)) == ["UNIQ_KEY", "CLUSTER"]
    assert (first.queue_id, second.queue_id) == (41 % 12, 42 % 12)


def test_many_rows_of_one_form_are_groups_of_bounded_size() -> None:
    """And few of one form are single."""
    count = 2 * BATCH_ROWS_MAX + RUN_COUNT_MIN - 1
    keys = [b"1"] * 2 * BATCH_ROWS_MAX + [b"22"] * (RUN_COUNT_MIN - 1)
    block = BulkBlock.of(
        "T",
        BulkColumn.of([b""] * count),
        deliver_ms=np.full(count, NOW_MS + 1),
        queue_ids=np.zeros(count, np.int32),
        properties={"KEYS": BulkColumn.of(keys)},
    )
    groups, single = BlockRows(block, origin()).runs(
        np.arange(count), now_ms=NOW_MS, latest_ms=LATEST_MS
    )

    assert [len(group) for group in groups] == [BATCH_ROWS_MAX] * 2
    assert len(single) == RUN_COUNT_MIN - 1


def test_rows_that_no_message_can_be_made_of() -> None:
    """A queue that is not there, a separator in a value, a body that is too large."""
    block = BulkBlock.of(
        "T",
        BulkColumn.of([b"", b"", b"x" * 11, b""]),
        queue_ids=np.array([12, -2, 0, 0], np.int32),
        properties={"TAGS": BulkColumn.of([b"", b"", b"", b"a\x02TIMER_DELAY_SEC\x011"])},
    )
    faults = BlockRows(block, origin()).faults()

    assert [(row, rule) for row, (rule, _) in sorted(faults.items())] == [
        (0, "QUEUE_ID"),
        (1, "QUEUE_ID"),
        (2, "BODY_SIZE"),
        (3, "PROPERTY_TEXT"),
    ]
    assert faults[2][1] == "BODY_SIZE: expected at most 10 bytes, found 11"


def test_a_unique_key_names_its_row() -> None:
    """Only one that begins with the tag, and has all digits."""
    assert row_in(TAG + b"0000000000000041", TAG) == 41
    assert row_in(TAG + b"41", TAG) is None
    assert row_in(TAG + b"000000000000004A", TAG) is None
    assert row_in(b"X" * 32, TAG) is None
