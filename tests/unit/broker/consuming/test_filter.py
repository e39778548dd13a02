"""Tests of subscriptions' expressions, by tag and by SQL92."""

import pytest

from timermq.broker.consuming.filter import ALL, parse_filter
from timermq.broker.refusal import RefusedError
from timermq.remoting.codes import ResponseCode
from timermq.timerstore.java_hash import java_hash
from timermq.timerstore.message import NO_HOST, Message
from timermq.timerstore.record import encode_record


def wants_tag(expression: str, tag: str) -> bool:
    """Whether a tag expression wants messages with a tag."""
    matches = parse_filter(expression, "TAG").matches_tags
    return matches is None or matches(java_hash(tag))


@pytest.mark.parametrize("expression", ["", "*", " * ", "  "])
def test_all(expression: str) -> None:
    """A star or nothing wants every message, tagged or not; no filter is asked about any."""
    parsed = parse_filter(expression, "TAG")

    assert parsed == ALL
    assert parsed.matches_tags is None
    assert parsed.matches_record is None


def test_tags_are_compared_by_hash() -> None:
    """Tags are divided by two bars, and blanks around them do not count."""
    expression = " TagA||TagB || "

    assert wants_tag(expression, "TagA")
    assert wants_tag(expression, "TagB")
    assert not wants_tag(expression, "TagC")
    assert not wants_tag(expression, "")


def test_a_collision_passes() -> None:
    """Two tags with one hash cannot be told apart here: clients compare them again."""
    assert wants_tag("Aa", "BB")


def test_no_tag_at_all_does_not_parse() -> None:
    """An expression of bars alone names no tag."""
    with pytest.raises(RefusedError) as caught:
        parse_filter(" || ", "TAG")

    assert caught.value.code is ResponseCode.SUBSCRIPTION_PARSE_FAILED
    assert caught.value.remark == (
        "FILTER_EXPRESSION: expected 1 to 4096 tags divided by ||, found 0"
    )


def test_too_many_tags_do_not_parse() -> None:
    """The number of tags is bounded."""
    with pytest.raises(RefusedError, match="found 4097"):
        parse_filter("||".join(map(str, range(4097))), "TAG")


def test_sql_looks_at_the_record() -> None:
    """Tags do not matter then, and the same expression is compiled once."""
    parsed = parse_filter("a > 5", "SQL92")
    message = Message("T", 0, b"x", b"a\x017\x02")
    record = encode_record(message, queue_offset=0, phy_offset=0, store_ms=1, store_host=NO_HOST)

    assert parsed.matches_tags is None
    assert parsed.matches_record is not None
    assert parsed.matches_record(record)
    assert parse_filter("a > 5", "SQL92").sql is parsed.sql


def test_bad_sql() -> None:
    """It does not parse (23); the remark says where."""
    with pytest.raises(RefusedError) as caught:
        parse_filter("a >", "SQL92")

    assert caught.value.code is ResponseCode.SUBSCRIPTION_PARSE_FAILED
    assert caught.value.remark == ("FILTER_EXPRESSION: SQL92: expected more, found the end")


@pytest.mark.parametrize(
    ("kind", "enabled", "remark"),
    [
        (
            "XPATH",
            True,
            "FILTER_TYPE: the broker does not filter by 'XPATH', only by TAG and SQL92",
        ),
        (
            "SQL92",
            False,
            "FILTER_TYPE: the broker does not filter by 'SQL92', only by TAG: "
            "enablePropertyFilter is false",
        ),
    ],
)
def test_other_types(kind: str, enabled: bool, remark: str) -> None:
    """They are refused with 1, as SQL92 is where the operator has switched it off."""
    with pytest.raises(RefusedError) as caught:
        parse_filter("a > 1", kind, property_filter_enable=enabled)

    assert (caught.value.code, caught.value.remark) == (ResponseCode.SYSTEM_ERROR, remark)
