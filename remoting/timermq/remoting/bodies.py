"""JSON bodies of requests and responses, in both directions.

Clients spell them differently: Java and Go write enumerations as names, C++ as numbers; C++ writes
``subVersion`` as text and leaves out what is empty. Reading takes all of it; writing is standard
JSON with quoted keys, which all clients read.

Source: Java ``HeartbeatData``, ``TopicRouteData``, ``ClusterInfo``, ``TopicList``.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any, cast

import attrs
import msgspec

from .codes import ResponseCode
from .errors import RemoteProtocolError

ITEMS_MAX = 10_000
"""Groups or subscriptions in one heartbeat."""
BODY_SIZE_MAX = 2 << 20
"""Bytes of a JSON body: 10,000 subscriptions. Reading takes a quarter of a second at most."""
_INT64 = range(-(2**63), 2**63)

CONSUME_TYPES = ("CONSUME_ACTIVELY", "CONSUME_PASSIVELY", "CONSUME_POP")
MESSAGE_MODELS = ("BROADCASTING", "CLUSTERING")
CONSUME_FROM_WHERES = (
    "CONSUME_FROM_LAST_OFFSET",
    "CONSUME_FROM_LAST_OFFSET_AND_FROM_MIN_WHEN_BOOT_FIRST",
    "CONSUME_FROM_MIN_OFFSET",
    "CONSUME_FROM_MAX_OFFSET",
    "CONSUME_FROM_FIRST_OFFSET",
    "CONSUME_FROM_TIMESTAMP",
)


class BodyFormatError(RemoteProtocolError):
    """A body is not the JSON that the request needs; the sender mends it."""

    def __init__(self, what: str, expected: str, found: str) -> None:
        super().__init__(
            ResponseCode.SYSTEM_ERROR, f"BODY: {what}: expected {expected}, found {found[:80]}"
        )


@attrs.frozen(kw_only=True)
class SubscriptionData:
    """The subscription of a consumer to one topic."""

    topic: str
    sub_string: str = "*"
    expression_type: str = "TAG"
    sub_version: int = 0

    @classmethod
    def from_json(cls, value: object) -> SubscriptionData:
        """Read one subscription; ``codeSet`` is not trusted (C++ sends zeros)."""
        fields = json_object(value, "subscription")
        return cls(
            topic=json_text(fields, "topic"),
            sub_string=json_text(fields, "subString", "*") or "*",
            expression_type=json_text(fields, "expressionType", "TAG") or "TAG",
            sub_version=json_number(fields, "subVersion"),
        )

    @classmethod
    def decode_check(cls, body: bytes) -> SubscriptionData:
        """The subscription that a CHECK_CLIENT_CONFIG asks about."""
        fields = json_object(load_json(body, "check"), "check")
        return cls.from_json(fields.get("subscriptionData"))

    def to_json(self) -> dict[str, Any]:
        """The subscription as JSON, with the fields of Java's ``SubscriptionData``."""
        tags = [] if self.sub_string == "*" else [t.strip() for t in self.sub_string.split("||")]
        return {
            "classFilterMode": False,
            "codeSet": [],
            "expressionType": self.expression_type,
            "subString": self.sub_string,
            "subVersion": self.sub_version,
            "tagsSet": tags,
            "topic": self.topic,
        }


@attrs.frozen(kw_only=True)
class ConsumerData:
    """One consumer group of a client."""

    group_name: str
    consume_type: str = "CONSUME_PASSIVELY"
    message_model: str = "CLUSTERING"
    consume_from_where: str = "CONSUME_FROM_LAST_OFFSET"
    subscriptions: Sequence[SubscriptionData] = ()

    @classmethod
    def from_json(cls, value: object) -> ConsumerData:
        """Read one group, enumerations as names or numbers."""
        fields = json_object(value, "consumer")
        return cls(
            group_name=json_text(fields, "groupName"),
            consume_type=_enum(fields, "consumeType", CONSUME_TYPES, 1),
            message_model=_enum(fields, "messageModel", MESSAGE_MODELS, 1),
            consume_from_where=_enum(fields, "consumeFromWhere", CONSUME_FROM_WHERES, 0),
            subscriptions=[
                SubscriptionData.from_json(item)
                for item in json_items(fields.get("subscriptionDataSet"), "subscriptionDataSet")
            ],
        )

    def to_json(self) -> dict[str, Any]:
        """The group as JSON, with the fields of Java's ``ConsumerData``."""
        return {
            "consumeFromWhere": self.consume_from_where,
            "consumeType": self.consume_type,
            "groupName": self.group_name,
            "messageModel": self.message_model,
            "subscriptionDataSet": [one.to_json() for one in self.subscriptions],
            "unitMode": False,
        }


@attrs.frozen(kw_only=True)
class HeartbeatData:
    """The description that a client gives of itself."""

    client_id: str
    producer_groups: Sequence[str] = ()
    consumers: Sequence[ConsumerData] = ()
    without_sub: bool = False

    @classmethod
    def decode(cls, body: bytes) -> HeartbeatData:
        """Read a heartbeat.

        Raises:
            BodyFormatError: Not JSON, or a field is missing or of another kind.
        """
        fields = json_object(load_json(body, "heartbeat"), "heartbeat")
        producers = json_items(fields.get("producerDataSet"), "producerDataSet")
        consumers = json_items(fields.get("consumerDataSet"), "consumerDataSet")
        return cls(
            client_id=json_text(fields, "clientID"),
            producer_groups=[
                json_text(json_object(one, "producer"), "groupName") for one in producers
            ],
            consumers=[ConsumerData.from_json(one) for one in consumers],
            without_sub=fields.get("withoutSub") is True,
        )

    def encode(self) -> bytes:
        """The body of a HEART_BEAT, as JSON."""
        return _dump(
            {
                "clientID": self.client_id,
                "consumerDataSet": [one.to_json() for one in self.consumers],
                "heartbeatFingerprint": 0,
                "producerDataSet": [{"groupName": name} for name in self.producer_groups],
                "withoutSub": self.without_sub,
            }
        )


@attrs.frozen(kw_only=True)
class QueueRoute:
    """The queues of a topic on one broker."""

    broker_name: str
    address: str
    """``host:port`` of the master; empty when it has none."""
    read_queue_nums: int
    write_queue_nums: int
    perm: int


def decode_topic_route(body: bytes) -> list[QueueRoute]:
    """The route of a topic: one row a broker.

    Raises:
        BodyFormatError: Not a route.
    """
    fields = json_object(load_json(body, "route"), "route")
    masters: dict[str, str] = {}
    for item in json_items(fields.get("brokerDatas"), "brokerDatas"):
        broker = json_object(item, "brokerData")
        addresses = json_object(broker.get("brokerAddrs"), "brokerAddrs")
        masters[json_text(broker, "brokerName")] = json_text(addresses, "0", "")
    routes: list[QueueRoute] = []
    for item in json_items(fields.get("queueDatas"), "queueDatas"):
        queues = json_object(item, "queueData")
        name = json_text(queues, "brokerName")
        routes.append(
            QueueRoute(
                broker_name=name,
                address=masters.get(name, ""),
                read_queue_nums=json_number(queues, "readQueueNums"),
                write_queue_nums=json_number(queues, "writeQueueNums"),
                perm=json_number(queues, "perm"),
            )
        )
    return routes


def consumer_list(client_ids: Sequence[str]) -> bytes:
    """The body that lists the members of a consumer group, by their client ids."""
    return _dump({"consumerIdList": list(client_ids)})


def decode_consumer_list(body: bytes) -> list[str]:
    """The members of a group.

    Raises:
        BodyFormatError: Not a member list.
    """
    fields = json_object(load_json(body, "consumer list"), "consumer list")
    return [str(one) for one in json_items(fields.get("consumerIdList"), "consumerIdList")]


def topic_list(names: Sequence[str], *, broker_addr: str | None = None) -> bytes:
    """The body that names topics, with the broker's address where one is given."""
    fields: dict[str, Any] = {"topicList": list(names)}
    if broker_addr is not None:
        fields["brokerAddr"] = broker_addr
    return _dump(fields)


def _dump(value: object) -> bytes:
    return json.dumps(value, separators=(",", ":")).encode()


def load_json(body: bytes, what: str, *, size_max: int = BODY_SIZE_MAX) -> object:
    """Parse a body; raises ``BodyFormatError``."""
    if len(body) > size_max:
        raise BodyFormatError(what, f"at most {size_max} bytes", str(len(body)))
    try:
        return msgspec.json.decode(body)  # unlike json: no half surrogates, no NaN
    except (ValueError, RecursionError) as error:
        raise BodyFormatError(what, "JSON", str(error)) from None


def json_object(value: object, what: str) -> dict[str, object]:
    """The value if it is an object; raises ``BodyFormatError``."""
    if not isinstance(value, dict):
        raise BodyFormatError(what, "an object", type(value).__name__)
    return cast("dict[str, object]", value)


def json_items(value: object, what: str) -> list[object]:
    """The items of a list; none of null; raises ``BodyFormatError``."""
    if value is None:
        return []
    if not isinstance(value, list):
        raise BodyFormatError(what, "a list", type(value).__name__)
    items = cast("list[object]", value)
    if len(items) > ITEMS_MAX:
        raise BodyFormatError(what, f"at most {ITEMS_MAX} items", str(len(items)))
    return items


def json_text(fields: dict[str, object], name: str, default: str | None = None) -> str:
    """A text; without a default it must be there; raises ``BodyFormatError``."""
    value = fields.get(name, default)
    if not isinstance(value, str):
        raise BodyFormatError(name, "text", ascii(value))
    return value


def json_number(fields: dict[str, object], name: str) -> int:
    """A number of 64 bits, bare or as text; 0 when it is missing; raises ``BodyFormatError``."""
    value = fields.get(name, 0)
    if isinstance(value, str) and value.removeprefix("-").isdecimal() and len(value) <= 20:
        value = int(value)
    if type(value) is not int or value not in _INT64:
        raise BodyFormatError(name, "a 64-bit number", ascii(value))
    return value


def _enum(fields: dict[str, object], name: str, names: tuple[str, ...], default: int) -> str:
    """An enumeration, by name or by C++'s number."""
    value = fields.get(name, default)
    if isinstance(value, str) and value in names:
        return value
    if type(value) is int and 0 <= value < len(names):
        return names[value]
    raise BodyFormatError(name, f"one of {', '.join(names)}", ascii(value))
