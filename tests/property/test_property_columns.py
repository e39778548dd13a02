"""Property columns: what they say of a batch is what each text says by itself."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from timermq.timerstore.properties import find
from timermq.timerstore.property_columns import PropertyColumns

pieces = st.sampled_from(
    [
        b"UNIQ_KEY\x01ab\x02", b"UNIQ_KEY\x01cd\x02", b"XNIQ_KEY\x01ab\x02", b"UNIQ_KEY\x01\x02ab",
        b"\x02UNIQ_KEY\x01a\x02", b"aUNIQ_KEY\x01a\x02", b"TAGS\x01t\x02", b"TAGS\x01u\x02",
        b"UNIQ_KEY\x01a",
    ]
)  # fmt: skip
texts = st.lists(pieces, min_size=1, max_size=3).map(b"".join)


@given(st.lists(texts, min_size=1, max_size=4))
def test_a_value_in_columns_is_the_value_of_each_text(found: list[bytes]) -> None:
    """Or there is no answer; texts of one size alone are asked."""
    size = len(found[0])
    even = [text for text in found if len(text) == size]
    columns = PropertyColumns.of(np.frombuffer(b"".join(even), np.uint8).reshape(len(even), size))
    if columns is None:
        return
    for name in (b"UNIQ_KEY", b"TAGS", b"KEYS"):
        expected = [find(text, name) or b"" for text in even]
        values, same = columns.value(name), columns.same_value(name)

        assert values is None or expected == [row.tobytes() for row in values]
        assert same is None or expected == [same] * len(even)
        assert values is None or (same is None) == (len(set(expected)) > 1)
