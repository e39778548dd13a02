"""The registration of a broker at name servers: REGISTER_BROKER and its kin, in both directions.

The body has the broker's topics as JSON, or packed with zlib: lengths and texts, one topic a line
of its own form. Java's broker sends the first unless it is set up otherwise.

Source: Java ``RegisterBrokerBody``, ``TopicConfigSerializeWrapper``, ``TopicConfig.decode``.
"""

from __future__ import annotations

import json
import struct
import zlib
from collections.abc import Mapping, Sequence

import attrs

from .bodies import BodyFormatError, json_number, json_object, json_text, load_json
from .route_body import QueueData

BODY_SIZE_MAX = 16 << 20
"""Bytes of a body, unpacked: 65,000 topics."""
_INT = struct.Struct(">i")
_TOPIC_WORDS = 5
_MASK = 0x7FFFFFFF


@attrs.frozen
class RouteVersion:
    """Which state of its topics a broker speaks of; equal: nothing has changed."""

    counter: int = 0
    timestamp: int = 0
    state_version: int = 0

    @classmethod
    def from_json(cls, value: object) -> RouteVersion:
        """Read Java's ``DataVersion``; BodyFormatError when it is something else."""
        fields = json_object(value, "dataVersion")
        return cls(
            json_number(fields, "counter"),
            json_number(fields, "timestamp"),
            json_number(fields, "stateVersion"),
        )

    def to_json(self) -> dict[str, object]:
        """The version as JSON, with the fields of Java's ``DataVersion``."""
        return {
            "counter": self.counter,
            "stateVersion": self.state_version,
            "timestamp": self.timestamp,
        }


@attrs.frozen
class Registration:
    """A broker's topics with their version."""

    version: RouteVersion
    topics: Mapping[str, QueueData]


def encode_registration(version: RouteVersion, topics: Sequence[Mapping[str, object]]) -> bytes:
    """The body of a registration, as JSON.

    Args:
        version: Of the topics.
        topics: Each with the fields of Java's ``TopicConfig``; keys are texts throughout.
    """
    wrapper = {
        "dataVersion": version.to_json(),
        "mappingDataVersion": {**version.to_json(), "counter": 0},
        "topicConfigTable": {str(topic["topicName"]): topic for topic in topics},
        "topicQueueMappingDetailMap": {},
        "topicQueueMappingInfoMap": {},
    }
    body: dict[str, object] = {"filterServerList": [], "topicConfigSerializeWrapper": wrapper}
    # Its keys are texts, so C prints it: this happens in the event loop, where the walk through
    # 5,000 topics in Python held timers up for 270 ms, every 30 s and with every new topic.
    return json.dumps(body, ensure_ascii=False, separators=(",", ":")).encode()


def body_crc32(body: bytes) -> int:
    """The checksum that goes with a body; 0 stands for none."""
    return zlib.crc32(body) & _MASK


def decode_registration(body: bytes, broker_name: str, *, compressed: bool) -> Registration:
    """Read the body of a registration.

    Args:
        body: As it came.
        broker_name: Whose queues they are.
        compressed: What the request's parameter of this name says.

    Raises:
        BodyFormatError: It is something else, or too large.
    """
    return _decode_packed(body, broker_name) if compressed else _decode_json(body, broker_name)


def _decode_json(body: bytes, broker_name: str) -> Registration:
    root = json_object(load_json(body, "registration", size_max=BODY_SIZE_MAX), "registration")
    wrapper = json_object(root.get("topicConfigSerializeWrapper"), "topicConfigSerializeWrapper")
    table = json_object(wrapper.get("topicConfigTable") or {}, "topicConfigTable")
    return Registration(
        RouteVersion.from_json(wrapper.get("dataVersion")),
        {topic: queue_data(value, broker_name) for topic, value in table.items()},
    )


def queue_data(value: object, broker_name: str | None = None) -> QueueData:
    """The queues of a topic, of a topic's configuration or of a row of a route.

    Raises:
        BodyFormatError: It is something else.
    """
    fields = json_object(value, "queues of a topic")
    return QueueData(
        broker_name=json_text(fields, "brokerName") if broker_name is None else broker_name,
        read_queue_nums=json_number(fields, "readQueueNums"),
        write_queue_nums=json_number(fields, "writeQueueNums"),
        perm=json_number(fields, "perm"),
        topic_sys_flag=json_number(fields, "topicSysFlag"),
    )


def _decode_packed(body: bytes, broker_name: str) -> Registration:
    unpacker = zlib.decompressobj()
    try:
        data = unpacker.decompress(body, BODY_SIZE_MAX)
    except zlib.error as error:
        raise BodyFormatError("registration", "zlib", str(error)) from None
    if not unpacker.eof:
        raise BodyFormatError("registration", f"at most {BODY_SIZE_MAX} bytes, whole", "more")
    reader = _Reader(data)
    version = RouteVersion.from_json(load_json(reader.text().encode(), "dataVersion"))
    topics: dict[str, QueueData] = {}
    for _ in range(reader.number()):
        line = reader.text()
        words = line.split(" ", _TOPIC_WORDS)
        if len(words) < _TOPIC_WORDS or not all(one.isdecimal() for one in words[1:4]):
            raise BodyFormatError("topic", "name read write perm filterType", ascii(line))
        topics[words[0]] = QueueData(
            broker_name=broker_name,
            read_queue_nums=int(words[1]),
            write_queue_nums=int(words[2]),
            perm=int(words[3]),
        )
    return Registration(version, topics)


class _Reader:
    """Goes along lengths and texts."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._at = 0

    def number(self) -> int:
        """A length or a count; never negative, never more than there are bytes."""
        if self._at + _INT.size > len(self._data):
            raise BodyFormatError("registration", "a length", "the end")
        (number,) = _INT.unpack_from(self._data, self._at)
        self._at += _INT.size
        if not 0 <= number <= len(self._data):
            raise BodyFormatError("registration", f"a length up to {len(self._data)}", str(number))
        return int(number)

    def text(self) -> str:
        size = self.number()
        data = self._data[self._at : self._at + size]
        self._at += size
        try:
            return data.decode()
        except UnicodeDecodeError as error:
            raise BodyFormatError("registration", "UTF-8", error.reason) from None
