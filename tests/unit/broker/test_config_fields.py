"""Tests of reading one object of a configuration file."""

import pytest

from timermq.broker.config_fields import ConfigFields, ConfigTableError


def test_fields_are_taken_and_the_rest_is_left() -> None:
    """What was not asked for stays, to be written back."""
    fields = ConfigFields("f", {"n": 1, "b": True, "t": "x", "later": [1, 2]})

    assert fields.integer("n", 0) == 1
    assert fields.boolean("b", False)
    assert fields.text("t", "") == "x"
    assert fields.integer("missing", 7) == 7
    assert fields.rest == {"later": [1, 2]}


def test_maps() -> None:
    """Objects of objects, of texts and of numbered integers are read whole."""
    fields = ConfigFields(
        "f", {"objects": {"a": {"n": 1}}, "texts": {"k": "v"}, "offsets": {0: 7, "1": 9}}
    )

    assert [(name, one.integer("n", 0)) for name, one in fields.fields("objects").objects()] == [
        ("a", 1)
    ]
    assert fields.texts("texts") == {"k": "v"}
    assert fields.offsets("offsets") == {0: 7, 1: 9}
    assert fields.offsets("missing") == {}


@pytest.mark.parametrize(
    ("data", "message"),
    [
        ([], "f: expected an object, found []"),
        ({"n": "1"}, "f: n: expected a 64-bit integer, found '1'"),
        ({"n": True}, "f: n: expected a 64-bit integer, found True"),
        ({"n": None}, "f: n: expected a 64-bit integer, found None"),
        ({"n": 2**63}, "f: n: expected a 64-bit integer, found 9223372036854775808"),
    ],
)
def test_a_wrong_type_names_its_place(data: object, message: str) -> None:
    """A value is never guessed from another type."""
    with pytest.raises(ConfigTableError) as caught:
        ConfigFields("f", data).integer("n", 0)

    assert str(caught.value) == message


def test_other_wrong_types() -> None:
    """Texts, truth values, objects and queue numbers are checked alike."""
    with pytest.raises(ConfigTableError, match="f: b: expected true or false, found 1"):
        ConfigFields("f", {"b": 1}).boolean("b", False)
    with pytest.raises(ConfigTableError, match="f: t: expected a text, found 1"):
        ConfigFields("f", {"t": 1}).text("t", "")
    with pytest.raises(ConfigTableError, match="f: m: k: expected a text, found 1"):
        ConfigFields("f", {"m": {"k": 1}}).texts("m")
    with pytest.raises(ConfigTableError, match="f: o: expected queue numbers as keys, found 'x'"):
        ConfigFields("f", {"o": {"x": 1}}).offsets("o")


@pytest.mark.parametrize("key", ["9" * 5000, "00", "-1", "1_0", "\u0663"])
def test_keys_that_number_no_queue(key: str) -> None:
    """Neither a number of more digits than Python reads nor one written in another way."""
    with pytest.raises(ConfigTableError, match="f: o: expected queue numbers as keys, found "):
        ConfigFields("f", {"o": {key: 1}}).offsets("o")
