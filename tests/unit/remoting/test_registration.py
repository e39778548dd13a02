"""Tests of what brokers tell name servers."""

from __future__ import annotations

import json
import struct
import zlib

import pytest

from timermq.remoting.bodies import BodyFormatError
from timermq.remoting.registration import (
    BODY_SIZE_MAX,
    RouteVersion,
    body_crc32,
    decode_registration,
    encode_registration,
)
from timermq.remoting.route_body import QueueData

TOPIC: dict[str, object] = {
    "attributes": {},
    "order": False,
    "perm": 6,
    "readQueueNums": 4,
    "topicFilterType": "SINGLE_TAG",
    "topicName": "A",
    "topicSysFlag": 0,
    "writeQueueNums": 3,
}
VERSION = RouteVersion(counter=1, timestamp=1_700_000_000_000)
ROW = QueueData(broker_name="b", read_queue_nums=4, write_queue_nums=3, perm=6)
BODY = (
    b'{"filterServerList":[],"topicConfigSerializeWrapper":{'
    b'"dataVersion":{"counter":1,"stateVersion":0,"timestamp":1700000000000},'
    b'"mappingDataVersion":{"counter":0,"stateVersion":0,"timestamp":1700000000000},'
    b'"topicConfigTable":{"A":{"attributes":{},"order":false,"perm":6,"readQueueNums":4,'
    b'"topicFilterType":"SINGLE_TAG","topicName":"A","topicSysFlag":0,"writeQueueNums":3}},'
    b'"topicQueueMappingDetailMap":{},"topicQueueMappingInfoMap":{}}}'
)


def packed(*lines: str, version: str = '{"counter":1,"timestamp":1700000000000}') -> bytes:
    """The packed form of a registration with these lines."""

    def text(value: str) -> bytes:
        return struct.pack(">i", len(value.encode())) + value.encode()

    parts = [text(version), struct.pack(">i", len(lines)), *map(text, lines)]
    return zlib.compress(b"".join([*parts, text("[]"), struct.pack(">i", 0)]), 9)


def test_a_registration_in_both_directions() -> None:
    """The bytes are those that RocketMQ's name server was seen to take."""
    assert encode_registration(VERSION, [TOPIC]) == BODY
    found = decode_registration(BODY, "b", compressed=False)
    assert found.version == VERSION
    assert found.topics == {"A": ROW}
    assert body_crc32(BODY) == zlib.crc32(BODY) & 0x7FFFFFFF


def test_the_packed_form() -> None:
    """The same, with a line a topic."""
    body = packed("A 4 3 6 SINGLE_TAG {}", "B 1 1 7 SINGLE_TAG")
    found = decode_registration(body, "b", compressed=True)

    assert found.version == VERSION
    assert found.topics["A"] == ROW
    assert found.topics["B"].perm == 7


@pytest.mark.parametrize(
    ("body", "compressed"),
    [
        (b"", False),
        (b"[]", False),
        (b"{}", False),
        (b'{"topicConfigSerializeWrapper":{"dataVersion":1}}', False),
        (json.dumps({"topicConfigSerializeWrapper": {"topicConfigTable": [1]}}).encode(), False),
        (BODY, True),
        (packed("A 4")[:-4], True),
        (packed("A 4"), True),
        (packed("A four 3 6 SINGLE_TAG"), True),
        (packed(version="nonsense"), True),
        (zlib.compress(b"\x7f\xff\xff\xff"), True),
        (zlib.compress(b"\xff\xff\xff\xff"), True),
        (zlib.compress(b"\x00"), True),
        (zlib.compress(b"\x00\x00\x00\x01\xff"), True),
        (zlib.compress(bytes(BODY_SIZE_MAX + 1)), True),
    ],
)
def test_what_is_no_registration(body: bytes, compressed: bool) -> None:
    """It is refused, whatever its lengths promise; the connection goes on."""
    with pytest.raises(BodyFormatError) as error:
        decode_registration(body, "b", compressed=compressed)

    assert not error.value.close
