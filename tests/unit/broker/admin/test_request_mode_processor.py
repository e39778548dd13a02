"""Tests of how a group gets its messages."""

from __future__ import annotations

import json

import pytest

from broker_rig import Rig


@pytest.mark.parametrize(
    ("topic", "mode", "code", "rule"),
    [
        ("T", "PULL", 0, ""),
        ("T", "POP", 3, "REQUEST_MODE"),
        ("T", 7, 3, "REQUEST_MODE"),
        ("none", "PULL", 17, "TOPIC_NOT_EXIST"),
        ("%RETRY%G", "PULL", 16, "REQUEST_MODE"),
    ],
)
async def test_groups_pull(topic: str, mode: object, code: int, rule: str) -> None:
    """To ask for that is answered; for anything else, or of what is not there, refused."""
    rig = Rig()
    rig.send("T")
    fields = {"topic": topic, "consumerGroup": "G", "mode": mode, "popShareQueueNum": 0}
    answer = rig.call(401, body=json.dumps(fields).encode())

    assert (answer.code, (answer.remark or "").partition(":")[0]) == (code, rule)


async def test_a_request_without_names() -> None:
    """There is no topic without a name."""
    assert Rig().call(401, body=b'{"mode":"PULL"}').code == 17


def test_no_mode_is_told_of_any_group() -> None:
    """Slaves of RocketMQ take the table as it is (402)."""
    answer = Rig().call(402)

    assert (answer.code, json.loads(answer.body)) == (0, {"messageRequestModeMap": {}})
