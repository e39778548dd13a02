"""Tests of the subscriptions in a consumer's running info."""

import json

import pytest

from timermq.remoting.bodies import BodyFormatError, SubscriptionData
from timermq.remoting.running_info import SUBSCRIPTIONS_SIZE_MAX, running_info_subscriptions

SET = (
    '[{"classFilterMode":false,"codeSet":[2598],"expressionType":"TAG","subString":"a || é",'
    '"subVersion":1795899434594,"tagsSet":["a"],"topic":"T"}]'
)


def test_java() -> None:
    """Tables with objects as keys stand before and behind, and are no JSON."""
    body = (
        '{"mqPopTable":{},"mqTable":{{"brokerName":"b","queueId":0,"topic":"T"}:{"commitOffset":0}},'
        f'"properties":{{"consumerGroup":"G"}},"statusTable":{{}},"subscriptionSet":{SET},'
        '"userConsumerInfo":{{"x":1}:2}}'
    ).encode()

    assert running_info_subscriptions(body) == [
        SubscriptionData(topic="T", sub_string="a || é", sub_version=1_795_899_434_594)
    ]


def test_spaces_and_text() -> None:
    """Another writer's spaces do not matter; the name within a text is none."""
    body = json.dumps({"a": '"subscriptionSet":[]', "subscriptionSet": json.loads(SET)}).encode()

    assert [one.topic for one in running_info_subscriptions(body)] == ["T"]


@pytest.mark.parametrize("body", [b"", b"{}", b'{"subscriptionSet":null}', b"\xff\x00"])
def test_none(body: bytes) -> None:
    """Who tells nothing subscribes to nothing that is known."""
    assert running_info_subscriptions(body) == []


@pytest.mark.parametrize(
    "found",
    [
        b"[{",
        b"[1]",
        b'[{"topic":1}]',
        b"[NaN]",
        b'[{"topic":"\\ud800"}]',
        b'[{"topic":"\xff"',
        b"[" * 100_000,
        b'["' + b"x" * SUBSCRIPTIONS_SIZE_MAX + b'"]',
    ],
)
def test_damaged(found: bytes) -> None:
    """No JSON, no subscriptions, or too long: the sender is at fault."""
    with pytest.raises(BodyFormatError):
        running_info_subscriptions(b'{"subscriptionSet":' + found)
