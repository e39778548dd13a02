"""Whatever RocketMQ may keep in its configuration files survives being printed and parsed."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from timermq.timerstore.errors import StoreFormatError
from timermq.timerstore.fastjson import fastjson, parse_json

SCALARS = st.none() | st.booleans() | st.integers(-(1 << 63), (1 << 63) - 1) | st.text(max_size=5)
BEANS = st.lists(st.tuples(st.text(max_size=3), SCALARS), max_size=3, unique_by=lambda p: p[0])
KEYS = st.text(max_size=3) | st.integers(-9, 99)
VALUES = st.recursive(
    SCALARS,
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(KEYS, inner, max_size=4)
        | st.dictionaries(KEYS | BEANS.map(tuple), inner, max_size=2)
    ),
    max_leaves=12,
)
TEXTS = st.text(alphabet='{}[]:,"\\-.01eu true\n\0é', max_size=20)


@given(VALUES)
def test_round_trip(value: object) -> None:
    """A value comes back as it was printed, with the types of its keys."""
    assert value == parse_json(fastjson(value))


@given(st.dictionaries(st.text(max_size=3), VALUES, max_size=4))
def test_printing_is_stable(value: object) -> None:
    """What was parsed is printed with the same bytes."""
    text = fastjson(value)

    assert text == fastjson(parse_json(text))


@given(st.dictionaries(st.text(max_size=3), SCALARS | st.lists(SCALARS, max_size=3), max_size=4))
def test_compact_round_trip(value: object) -> None:
    """The compact style is ASCII and says the same, of what has only texts as keys."""
    text = fastjson(value, pretty=False)

    assert text.isascii()
    assert value == parse_json(text)


@given(TEXTS)
def test_any_text_is_parsed_or_refused(text: str) -> None:
    """Damage leads to one kind of error, with a position inside the text."""
    offset = 0
    try:
        parse_json(text)
    except StoreFormatError as error:
        offset = error.offset

    assert 0 <= offset <= len(text.encode())
