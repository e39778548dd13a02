"""The properties of runs tell what those of single records tell."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from small_store import message
from timermq.timerstore.dispatch import tags_code_in
from timermq.timerstore.index_keys import KeyColumns
from timermq.timerstore.plain_run import PlainRun
from timermq.timerstore.run_properties import RunProperties
from unit.timerstore.test_plain_run import log_of

VALUES = st.sampled_from([b"a", b"bb", b"cc", b"", b"d d", "ü".encode(), b"0123456789"])
KINDS = st.lists(
    st.tuples(st.sampled_from([b"TAGS", b"XTAGS", b"KEYS", b"UNIQ_KEY", b"K"]), VALUES),
    max_size=4,
)


@settings(max_examples=60, deadline=None)
@given(kinds=st.lists(KINDS, min_size=1, max_size=4), ends=st.booleans())
def test_properties_are_those_of_single_texts(
    kinds: list[list[tuple[bytes, bytes]]],
    ends: bool,
) -> None:
    """Codes, keys and names of mixed kinds, some of them often and some only once."""
    texts = [
        b"\x02".join(b"%b\x01%b" % pair for pair in kind) + (b"\x02" if ends and kind else b"")
        for kind in kinds
    ]
    messages = [
        message("b", f"T{number % 2}", properties=texts[number * number % 90 % len(texts)])
        for number in range(90)
    ]
    data = log_of(messages)
    run = PlainRun.of(data, 0, 0, len(data))
    assert run is not None
    assert len(run) == 90
    records = RunProperties(run)
    stored = run.property_texts

    assert records.tags_codes().tolist() == [tags_code_in(text) for text in stored]
    for name in (b"TAGS", b"KEYS", b"NONE"):
        having = records.having(name).tolist()
        mark = name + b"\x01"
        assert all(has for has, text in zip(having, stored, strict=True) if mark in text)
    fresh = records.key_hashes([topic.decode() for topic in run.topics.each()])
    read = KeyColumns()
    assert read.add_block(data, 0, 90) == (len(data), False)
    expected = read.hashed()
    assert fresh.keys.hashes.tolist() == expected.hashes.tolist()
    assert fresh.keys.offsets_py.tolist() == expected.offsets_py.tolist()
    assert fresh.keys.stores_ms.tolist() == expected.stores_ms.tolist()
    assert (fresh.start, fresh.end, len(fresh)) == (0, len(data), 90)
