"""Tests of JSON in RocketMQ's own form."""

from __future__ import annotations

import json

from hypothesis import given
from hypothesis import strategies as st

from timermq.remoting.queue_json import MessageQueue, encode_json

QUEUE = MessageQueue(topic="T", broker_name="broker-a", queue_id=0)


def test_queues_as_keys_stand_in_place() -> None:
    """The bytes are those that Java's tools were seen to read."""
    assert encode_json({"offsetTable": {QUEUE: 5}}) == (
        b'{"offsetTable":{{"brokerName":"broker-a","queueId":0,"topic":"T"}:5}}'
    )
    assert encode_json([QUEUE]) == b'[{"brokerName":"broker-a","queueId":0,"topic":"T"}]'


def test_numbers_as_keys_have_no_quotes() -> None:
    """As in the table of offsets."""
    assert encode_json({"T@G": {0: 7, 1: 9}}) == b'{"T@G":{0:7,1:9}}'


@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.text(),
        lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
        max_leaves=8,
    )
)
def test_everything_else_is_json(value: object) -> None:
    """Whatever has texts as keys is read by any reader."""
    assert json.loads(encode_json(value)) == value
