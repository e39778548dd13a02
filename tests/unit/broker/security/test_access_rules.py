"""Tests of the table of rights."""

import re
from pathlib import Path

import pytest

from timermq.broker.compatibility import SERVED
from timermq.broker.security.access_rules import FREE_CODES, AccessRules, AdminOnly
from timermq.broker.security.plain_acl import ANY, PUB, SUB
from timermq.remoting import Command, RemoteProtocolError, RequestCode

PLACES = {0: "T", 7: "%RETRY%G"}
LOCK = b'{"clientId":"c","consumerGroup":"G","mqSet":[{"topic":"T","queueId":0},{"topic":"U"}]}'
GROUP = ("%RETRY%G", SUB)


def needs(code: int, ext: dict[str, str] | None = None, body: bytes = b"") -> set[tuple[str, int]]:
    """The rights that a request needs: names of topics, each with its permission."""
    rules = AccessRules(PLACES.get, "DefaultCluster_REPLY_TOPIC")
    return set(rules.needs(Command(code, ext=ext or {}, body=body)))


@pytest.mark.parametrize(
    ("code", "ext", "body", "expected"),
    [
        (36, {"offset": "0", "group": "G"}, b"", {GROUP, ("T", SUB)}),
        (36, {"offset": "7", "group": "G"}, b"", {GROUP}),
        (36, {"offset": "9", "group": "G"}, b"", {GROUP}),
        (37, {"commitLogOffset": "0"}, b"", {("T", PUB)}),
        (41, {}, LOCK, {GROUP, ("T", SUB), ("U", SUB)}),
        (42, {}, LOCK, {GROUP, ("T", SUB), ("U", SUB)}),
        (41, {}, b'{"mqSet":[7,{"topic":7}]}', {("%RETRY%", SUB), ("", SUB)}),
        (324, {}, b"", set[tuple[str, int]]()),
        (325, {}, b"", set[tuple[str, int]]()),
        (320, {"b": "T"}, b"", {("T", PUB)}),
        (10, {"topic": "T", "b": "U"}, b"", {("T", PUB)}),
        (310, {"topic": "T", "b": "U"}, b"", {("U", PUB)}),
        (310, {}, b"", {("", PUB)}),
        (105, {"topic": "T"}, b"", {("T", ANY)}),
        (105, {"topic": "TBW102"}, b"", set[tuple[str, int]]()),
        (105, {"topic": "RMQ_SYS_TRACE_TOPIC"}, b"", set[tuple[str, int]]()),
        (105, {"topic": "DefaultCluster_REPLY_TOPIC"}, b"", set[tuple[str, int]]()),
        (35, {"producerGroup": "P"}, b"", set[tuple[str, int]]()),
        (35, {"consumerGroup": "G"}, b"", {GROUP}),
    ],
)
def test_what_a_request_needs(
    code: int, ext: dict[str, str], body: bytes, expected: set[tuple[str, int]]
) -> None:
    """By its own parameters: what the processor will work with."""
    assert needs(code, ext, body) == expected


@pytest.mark.parametrize(
    ("code", "ext"),
    [
        (33, {"offset": "9"}),
        (37, {"commitLogOffset": "9"}),
        (37, {}),
        (9002, {}),
        (9006, {}),
        (17, {}),
        (0, {}),
    ],
)
def test_what_is_for_administrators(code: int, ext: dict[str, str]) -> None:
    """Places without a message, lists of everything, and all that is not in the table."""
    with pytest.raises(AdminOnly):
        needs(code, ext)


@pytest.mark.parametrize(
    ("code", "body"),
    [(41, b"[]"), (41, b"\xff"), (41, b"[" * 100_000), (46, b"{}"), (9002, b"\xff")],
)
def test_bodies_that_are_something_else(code: int, body: bytes) -> None:
    """They are refused by their form."""
    with pytest.raises(RemoteProtocolError):
        needs(code, body=body)


def test_what_changes_the_broker_is_for_administrators() -> None:
    """Every code that is served and is not in the table; a new one is so until it is."""
    free = {code for code in SERVED if not _is_admin(code)}

    assert (
        free
        & {
            RequestCode.WATCH,
            RequestCode.CLOCK,
            RequestCode.RETRY_QUARANTINE,
            RequestCode.LIST_QUARANTINE,
            RequestCode.GET_ALL_TOPIC_LIST_FROM_NAMESERVER,
            RequestCode.GET_TOPICS_BY_CLUSTER,
            RequestCode.UPDATE_AND_CREATE_TOPIC,
            RequestCode.UPDATE_BROKER_CONFIG,
            RequestCode.REGISTER_BROKER,
        }
        == set()
    )
    assert RequestCode.PULL_MESSAGE in free


def _is_admin(code: int) -> bool:
    try:
        needs(code, {"offset": "0", "commitLogOffset": "0"})
    except AdminOnly:
        return True
    except RemoteProtocolError:
        return False
    return False


def test_the_protocol_page_has_every_rule() -> None:
    """Its table names each code that is not for administrators alone."""
    page = (Path(__file__).parents[4] / "docs" / "protocol.md").read_text()
    section = page.split("\n## Signed requests and TLS\n")[1].split("\n## ")[0]
    rows = [line for line in section.splitlines() if line.startswith("|")]
    named = {int(code) for row in rows for code in re.findall(r"\b\d+\b", row.split("|")[1])}

    assert named == set(map(int, FREE_CODES))
