"""Tests of tag expressions."""

import pytest

from timermq.broker.filter import ALL, parse_filter
from timermq.broker.refusal import RefusedError
from timermq.remoting.codes import ResponseCode
from timermq.timerstore.java_hash import java_hash


@pytest.mark.parametrize("expression", ["", "*", " * ", "  "])
def test_all(expression: str) -> None:
    """A star or nothing wants every message, tagged or not."""
    tags = parse_filter(expression, "TAG")

    assert tags == ALL
    assert tags.matches(0)
    assert tags.matches(java_hash("TagA"))


def test_tags_are_compared_by_hash() -> None:
    """Tags are divided by two bars, and blanks around them do not count."""
    tags = parse_filter(" TagA||TagB || ", "")

    assert tags.matches(java_hash("TagA"))
    assert tags.matches(java_hash("TagB"))
    assert not tags.matches(java_hash("TagC"))
    assert not tags.matches(0)


def test_a_collision_passes() -> None:
    """Two tags with one hash cannot be told apart here: clients compare them again."""
    assert parse_filter("Aa", "TAG").matches(java_hash("BB"))


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


def test_sql_is_refused() -> None:
    """Only tags are served, and the answer says so."""
    with pytest.raises(RefusedError) as caught:
        parse_filter("a > 1", "SQL92")

    assert caught.value.code is ResponseCode.SYSTEM_ERROR
    assert caught.value.remark == (
        "FILTER_TYPE: the broker does not filter by 'SQL92', only by TAG"
    )
