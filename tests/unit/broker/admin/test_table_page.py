"""Tests of tables that are read page by page."""

from __future__ import annotations

import json

import pytest

from broker_rig import Rig
from timermq.broker.admin.table_page import PAGE_COUNT_MAX, TablePage
from timermq.broker.topic_config import TopicConfig
from timermq.remoting import Command
from timermq.remoting.bodies import BodyFormatError
from timermq.timerstore.config_file import DataVersion

VERSION = DataVersion(counter=3, state_version=1, timestamp=9)
TEXT = '{"counter":3,"stateVersion":1,"timestamp":9}'
NAMES = "EDCBA"


@pytest.mark.parametrize(
    ("begin", "count", "version", "expected"),
    [
        (0, 2, "", "AB"),
        (2, 2, TEXT, "CDE"),
        (3, 2, TEXT, "DE"),
        (0, 4, "", "ABCDE"),
        (0, 9, "", "ABCDE"),
        (5, 2, TEXT, ""),
        (99, 2, TEXT, ""),
        (2, 2, "", "AB"),
        (2, 2, TEXT.replace("3", "4"), "AB"),
        (2, 2, '{"counter":3}', "AB"),
        (None, 2, "", "AB"),
        (0, None, "", "ABCDE"),
        (None, None, TEXT, "ABCDE"),
    ],
)
def test_what_is_on_a_page(
    begin: int | None, count: int | None, version: str, expected: str
) -> None:
    """In the order of names; the first page again if the table has changed; no name is alone."""
    page = TablePage.asked(begin, count, version)

    assert page is not None
    assert "".join(page.names(NAMES, VERSION)) == expected


def test_pages_have_a_limit() -> None:
    """That of RocketMQ, whatever is asked for."""
    page = TablePage.asked(0, 1_000_000, "")

    assert page is not None
    assert len(page.names(map(str, range(5_000)), VERSION)) == PAGE_COUNT_MAX


@pytest.mark.parametrize("version", ["x", "[]", '"\ud800"'])
def test_versions_that_are_none(version: str) -> None:
    """They are refused, not taken for another version: the reader would never end."""
    page = TablePage.asked(1, 2, version)

    assert page is not None
    with pytest.raises(BodyFormatError, match=r"BODY: dataVersion: expected"):
        page.names(NAMES, VERSION)


@pytest.mark.parametrize(("begin", "count"), [("-1", "5"), ("0", "0"), ("0", "-5")])
async def test_numbers_that_name_no_page(begin: str, count: str) -> None:
    """They are invalid parameters (29)."""
    answer = Rig().call(21, {"topicSeq": begin, "maxTopicNum": count, "dataVersion": ""})

    assert (answer.code, (answer.remark or "").partition(":")[0]) == (29, "TABLE_PAGE")


def read_whole(rig: Rig, code: int, word: str, table: str) -> list[str]:
    """The names of a table as Java's client 5.5 reads them, page by page."""
    names: list[str] = []
    version = ""
    while True:
        ext = {f"{word.lower()}Seq": str(len(names)), f"max{word}Num": "5", "dataVersion": version}
        answer: Command = rig.call(code, ext)
        body = json.loads(answer.body)
        assert version in ("", json.dumps(body["dataVersion"]))
        version = json.dumps(body["dataVersion"])
        names += body[table]
        if len(names) >= int(answer.ext[f"total{word}Num"]) - 1:
            return names


@pytest.mark.parametrize("count", range(6))
async def test_all_topics_are_read(count: int) -> None:
    """Also the last one, before which Java's client ends."""
    rig = Rig()
    topics = rig.broker.tables.topics
    for number in range(count):
        topics.put(TopicConfig(topic_name=f"T{number}"))
    expected = sorted(config.topic_name for config in topics.all())

    assert read_whole(rig, 21, "Topic", "topicConfigTable") == expected


@pytest.mark.parametrize("count", range(6))
async def test_all_groups_are_read(count: int) -> None:
    """Also the last one, as of the topics."""
    rig = Rig()
    groups = rig.broker.tables.groups
    for number in range(count):
        groups.find(f"G{number}")
    expected = sorted(config.group_name for config in groups.all())

    assert read_whole(rig, 201, "Group", "subscriptionGroupTable") == expected
