"""Keys read from a block of the log are those read record by record."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from timermq.timerstore.index_keys import (
    FreshColumns,
    FreshRecords,
    KeyColumns,
    KeyHashes,
    index_text,
    keys_in,
)
from timermq.timerstore.message import Message
from timermq.timerstore.property_columns import PropertyColumns
from timermq.timerstore.record import blank_record, encode_record
from timermq.timerstore.record_spans import record_properties, record_topic

PIECES = [
    "UNIQ_KEY\x01K1", "UNIQ_KEY\x01é", "UNIQ_KEY\x01", "XUNIQ_KEY\x01x", "KEYS\x01a b", "KEYS\x01",
    "TAGS\x01t", "a\x01UNIQ_KEY", "", "UNIQ_KEY",
]  # fmt: skip

COLUMNS = ["UNIQ_KEY\x01AB", "UNIQ_KEY\x01CD", "KEYS\x01a", "KEYS\x01b", "KEYS\x01 "]
"""Values of one size."""

messages = st.builds(
    Message,
    topic=st.sampled_from(["T", "é", "t" * 127, "%RETRY%" + "t" * 128]),
    queue_id=st.just(0),
    body=st.sampled_from([b"", b"x", b"UNIQ_KEY\x01body\x02", bytes(300)]),
    properties=st.tuples(
        st.lists(st.sampled_from(PIECES), max_size=3), st.sampled_from(["", "\x02"])
    ).map(lambda parts: ("\x02".join(parts[0]) + parts[1]).encode()),
    sys_flag=st.sampled_from([0, 1, 4, 12]),
    born_host=st.sampled_from([bytes(8), bytes(20)]),
)


@given(st.lists(messages, max_size=4), st.integers(0, 90), st.booleans(), st.integers(1, 5))
def test_a_block_gives_the_keys_of_its_whole_records(
    sent: list[Message], rest: int, blank: bool, count_max: int
) -> None:
    """Whatever the records hold, and whatever is cut off behind them."""
    records = [
        encode_record(one, queue_offset=0, phy_offset=0, store_ms=7 + index, store_host=bytes(8))
        for index, one in enumerate(sent)
    ]
    data = b"".join(records) + (blank_record(100) if blank else (records or [b""])[0][:rest])
    expected = KeyColumns()
    position = 1_000
    for index, record in enumerate(records[:count_max]):
        if sent[index].sys_flag != 12:
            for key in keys_in(record_properties(record)):
                expected.texts.append(index_text(record_topic(record), key))
                expected.offsets_py.append(position)
                expected.stores_ms.append(7 + index)
        position += len(record)

    found = KeyColumns()
    done, found_blank = found.add_block(data, 1_000, count_max)

    assert position == 1_000 + done
    assert found_blank == (blank and count_max > len(records))
    assert (expected.texts, expected.offsets_py) == (found.texts, found.offsets_py)
    assert expected.stores_ms == found.stores_ms


@given(st.lists(messages.filter(lambda one: one.sys_flag != 12), max_size=4))
def test_what_was_just_written_gives_the_keys_that_reading_it_gives(sent: list[Message]) -> None:
    """Both ways give the same keys, whatever the properties hold."""
    expected = KeyColumns()
    for position, one in enumerate(sent):
        record = encode_record(one, queue_offset=0, phy_offset=0, store_ms=7, store_host=bytes(8))
        assert expected.add_record(record, position)

    found = KeyColumns()
    found.add_fresh(
        FreshRecords(
            start=0,
            end=len(sent),
            store_ms=7,
            topics=[one.topic for one in sent],
            properties=[one.properties for one in sent],
            offsets_py=range(len(sent)),
        )
    )

    assert (expected.texts, expected.offsets_py) == (found.texts, found.offsets_py)
    assert expected.stores_ms == found.stores_ms


@given(
    st.sampled_from(["T", "é", "t" * 127]),
    st.lists(
        st.lists(st.sampled_from([*PIECES, *COLUMNS]), max_size=2).map(
            lambda parts: "".join(f"{part}\x02" for part in parts).encode()
        ),
        min_size=1,
        max_size=4,
    ),
)
def test_keys_as_columns_are_hashed_like_texts(topic: str, texts: list[bytes]) -> None:
    """Where they can be columns; texts of one size are asked."""
    even = [text for text in texts if text and len(text) == len(texts[0])] or [b"a\x01b\x02"]
    topics = [topic, "other"] * 2
    places = np.arange(len(even), dtype=np.int64)
    properties = PropertyColumns.of(np.frombuffer(b"".join(even), np.uint8).reshape(len(even), -1))
    if properties is None:
        return
    columns = FreshColumns.of(properties, topics[: len(even)], places, end=len(even), store_ms=7)
    records = FreshRecords(
        start=0,
        end=len(even),
        store_ms=7,
        topics=topics[: len(even)],
        properties=even,
        offsets_py=places.tolist(),
    )
    if columns is not None:
        expected, found = KeyColumns(), KeyColumns()
        for _ in range(2):
            expected.add_fresh(records)
        found.add_fresh(columns)
        found.add_fresh(records)

        assert rows_of(expected.hashed()) == rows_of(found.hashed())


def rows_of(keys: KeyHashes) -> list[tuple[int, int, int]]:
    """Keys row by row: hash, position in the log, time of storing."""
    columns = (keys.hashes.tolist(), keys.offsets_py.tolist(), keys.stores_ms.tolist())
    return list(zip(*columns, strict=True))
