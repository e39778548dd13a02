"""Tests of JSON as fastjson prints and reads it; the expected texts were printed by fastjson."""

from __future__ import annotations

from pathlib import Path
from typing import cast

import pytest

from timermq.timerstore.errors import StoreFormatError
from timermq.timerstore.fastjson import DEPTH_MAX, fastjson, fastjson_pieces, parse_json

GOLDEN = Path(__file__).parents[2] / "golden" / "config"
PRETTY = sorted(path.name for path in GOLDEN.glob("*.json"))
COMPACT = ["timermetrics", "transactionMetrics"]

BEAN = (("brokerName", "b"), ("queueId", 1))
VALUE: dict[str, object] = {
    "mixed": {1: 2, "s": 3, -4: {}},
    "objkey": {BEAN: 5, 1: "z"},
    "set": ["a", "b"],
    "emptylist": [],
    "d": 1.5,
    "bool": True,
    "intobj": {0: dict(BEAN), 1: {"q": 1}},
    "k\x7f\n": 1,
}
VALUE_PRETTY = """{
\t"mixed":{1:2,
\t\t"s":3,-4:{}
\t},
\t"objkey":{{
\t\t\t"brokerName":"b",
\t\t\t"queueId":1
\t\t}:5,1:"z"
\t},
\t"set":["a","b"],
\t"emptylist":[],
\t"d":1.5,
\t"bool":true,
\t"intobj":{0:{
\t\t\t"brokerName":"b",
\t\t\t"queueId":1
\t\t},1:{
\t\t\t"q":1
\t\t}
\t},
\t"k\\u007F\\n":1
}"""
VALUE_COMPACT = (
    r'{"mixed":{"1":2,"s":3,"-4":{}},"objkey":{"{\"brokerName\":\"b\",\"queueId\":1}":5,"1":"z"},'
    r'"set":["a","b"],"emptylist":[],"d":1.5,"bool":true,'
    r'"intobj":{"0":{"brokerName":"b","queueId":1},"1":{"q":1}},"k\u007F\n":1}'
)


def test_the_samples_are_there() -> None:
    """The tests below do run over something."""
    assert PRETTY == [
        "consumerOffset-transactions.json",
        "consumerOffset.json",
        "delayOffset.json",
        "subscriptionGroup.json",
        "topics.json",
    ]


@pytest.mark.parametrize("name", PRETTY)
def test_files_of_rocketmq_come_out_as_they_were(name: str) -> None:
    """Parsed and printed again, a file has the bytes that RocketMQ wrote."""
    text = (GOLDEN / name).read_text()

    table = parse_json(text)
    assert fastjson(table) == text
    assert "".join(fastjson_pieces(cast("dict[str, object]", table))) == text


@pytest.mark.parametrize("name", COMPACT)
def test_compact_files_of_rocketmq_come_out_as_they_were(name: str) -> None:
    """So have the metrics files, which are printed in another style."""
    text = (GOLDEN / name).read_text()

    assert fastjson(parse_json(text), pretty=False) == text


def test_integer_keys_are_integers() -> None:
    """The queue numbers of an offset table are numbers, its other keys texts."""
    found = parse_json((GOLDEN / "consumerOffset.json").read_text())

    assert isinstance(found, dict)
    assert found["offsetTable"]["Events_00f2@G_part_44b8"] == {0: 13, 1: 13}


def test_pretty() -> None:
    """Text keys begin a line, other keys go on in it; objects as keys are printed in place."""
    assert fastjson(VALUE) == VALUE_PRETTY
    assert parse_json(VALUE_PRETTY) == VALUE


def test_pieces() -> None:
    """Together they are the whole; of a map in the table each entry is one."""
    assert "".join(fastjson_pieces(VALUE)) == VALUE_PRETTY
    table: dict[str, object] = {"a": {}, "b": {str(at): {"c": [at]} for at in range(100)}, "d": 1}
    pieces = list(fastjson_pieces(table))

    assert "".join(pieces) == fastjson(table)
    assert "".join(fastjson_pieces({})) == "{}"
    assert len(pieces) > 200
    assert max(map(len, pieces)) < 30


def test_compact() -> None:
    """All keys are texts there."""
    assert fastjson(VALUE, pretty=False) == VALUE_COMPACT


def test_objects_in_a_list() -> None:
    """Objects of a set are not indented more than the set."""
    text = '{\n\t"s":[{\n\t\t"q":1\n\t},{\n\t\t"q":2\n\t}]\n}'

    assert fastjson({"s": [{"q": 1}, {"q": 2}]}) == text
    assert parse_json(text) == {"s": [{"q": 1}, {"q": 2}]}


SPECIAL = '\0\x07\b\t\n\x0b\f\r\x1f "/\\~\x7f\x9f\xa0é\u2027\u2028\u2029\u202a中😀\uffff'


def test_escapes() -> None:
    """The escapes of fastjson, with capital digits; what is beyond ASCII mostly stays."""
    printed = fastjson(SPECIAL)

    assert printed == (
        r'"\u0000\u0007\b\t\n\u000B\f\r\u001F \"/\\~\u007F\u009F'
        "\xa0é\u2027" + r"\u2028\u2029" + '\u202a中😀\uffff"'
    )
    assert parse_json(printed) == SPECIAL


def test_compact_escapes() -> None:
    """The browser-compatible style is ASCII, also escapes the slash, and writes pairs."""
    printed = fastjson(SPECIAL, pretty=False)

    assert printed == (
        r'"\u0000\u0007\b\t\n\u000B\f\r\u001F \"\/\\~\u007F\u009F\u00A0\u00E9'
        r'\u2027\u2028\u2029\u202A\u4E2D\uD83D\uDE00\uFFFF"'
    )
    assert parse_json(printed) == SPECIAL


def test_half_a_pair_can_be_saved() -> None:
    """What no UTF-8 file can hold is escaped, whatever the style."""
    assert fastjson("\ud83d") == r'"\uD83D"'
    assert parse_json(fastjson("\ud83d")) == "\ud83d"


@pytest.mark.parametrize("key", [True, None, 1.5])
def test_other_keys_are_not_printed(key: object) -> None:
    """A key of another type is our own mistake."""
    with pytest.raises(TypeError, match="expected a text, an integer or a tuple of pairs"):
        fastjson({key: 1})


def test_spaces_do_not_matter() -> None:
    """Files that were edited by hand are read, also with a newline at the end."""
    text = ' { "a" : [ 1 , -2.5e1 , null ] ,\r\n\t{ "b" : true } : { 7 : false } } \n'

    assert parse_json(text) == {"a": [1, -25.0, None], (("b", True),): {7: False}}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "at 0: expected a value, found the end"),
        ('{"a":1,}', "at 7: expected a key, found '}'"),
        ('{"a" 1}', "at 5: expected ':', found '1}'"),
        ('{"a":1', "at 6: expected ',' or '}', found the end"),
        ('{"a":1 "b":2}', "at 7: expected ',' or '}', found '\"b\":2}'"),
        ("[1,]", "at 3: expected a value, found ']'"),
        ("[1 2]", "at 3: expected ',' or ']', found '2]'"),
        ("{} {}", "at 3: expected the end, found '{}'"),
        ("{1.5:2}", "at 1: expected a key, found '1.5:2}'"),
        ("{true:1}", "at 1: expected a key, found 'true:1}'"),
        ("{{'a':1}:1}", "at 2: expected JSON, found \"'a':1}:1}\""),
        ('{{"a":[1]}:2}', "at 1: expected a key, found '{\"a\":[1]}:2}'"),
        ('{"é":  nul}', "at 8: expected JSON, found 'nul}'"),
        ('"abc', "at 0: expected JSON, found '\"abc'"),
        ('"\\q"', "at 0: expected JSON, found '\"\\\\q\"'"),
        ('["\\u00g0"]', "at 3: expected four hexadecimal digits, found 'u00g0\"]'"),
        ('"a\nb"', "at 0: expected JSON, found '\"a\\nb\"'"),
        ("NaN", "at 0: expected JSON, found 'NaN'"),
        ("01", "at 1: expected the end, found '1'"),
        ("1" * 33, "at 0: expected a number of at most 32 digits, found '1111111111111111'"),
        ("\0\0\0", "at 0: expected JSON, found '\\x00\\x00\\x00'"),
    ],
)
def test_everything_else_is_refused(text: str, message: str) -> None:
    """The error says where, in bytes, what was expected, and what stands there."""
    with pytest.raises(StoreFormatError) as error:
        parse_json(text, "f")

    assert str(error.value) == f"f: {message}"


@pytest.mark.parametrize("opening", ["[", "{", '{"a":'])
def test_depth_is_limited(opening: str) -> None:
    """A hostile file cannot exhaust the stack."""
    with pytest.raises(StoreFormatError, match=f"expected at most {DEPTH_MAX} levels"):
        parse_json(opening * 100_000)


def test_the_deepest_file() -> None:
    """The limit itself is allowed."""
    text = "[" * DEPTH_MAX + "]" * DEPTH_MAX

    assert fastjson(parse_json(text)) == text


@pytest.mark.parametrize("text", ["1e999", "-1e999", '{"a":[1e309]}'])
def test_numbers_have_a_double(text: str) -> None:
    """A number beyond it could not be printed again: the table that holds it could not be saved."""
    with pytest.raises(StoreFormatError, match="a number within the range of a double"):
        parse_json(text)
