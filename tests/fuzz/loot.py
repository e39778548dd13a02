"""What an intruder tries: names, places and keys, his own, those of V, and some with tricks."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Protocol, TypeVar

import attrs

from every_request import BROKER_NAME, Subject
from fuzz.victim import (
    CLIENT,
    DEAD_TOPIC,
    GROUP,
    HALF_TOPIC,
    JOB,
    KNOWN,
    PART,
    PRODUCERS,
    RETRY_TOPIC,
    TIMER_TOPIC,
    TOPIC,
    Timer,
    Victim,
)
from timermq.pipeline.admission.recall_handle import encode_handle

_Value = TypeVar("_Value")


class Choices(Protocol):
    """Where the choices of an intruder come from."""

    def number(self, below: int) -> int:
        """The next choice, a number from 0 to ``below`` less 1."""
        ...

    def pick(self, values: Sequence[_Value]) -> _Value:
        """Choose one of the values by the next number."""
        ...


OWN = Subject(
    topic="AsTopic", group="AsGroup", producer_group="AP", job="AsJob", client_id="AsClient"
)
BASES = (
    OWN,
    KNOWN,
    attrs.evolve(KNOWN, topic=OWN.topic),
    attrs.evolve(KNOWN, topic=OWN.topic, group=OWN.group),
    attrs.evolve(OWN, topic=TOPIC),
    attrs.evolve(OWN, topic="%RETRY%AsGroup"),
)
"""What a request is about before anything of it is changed."""
KNOWN_NAMES = tuple(name.encode() for name in (TOPIC, GROUP, CLIENT, PRODUCERS + '"', JOB, PART))

TRICKS = (
    "",
    "*",
    "null",
    "0",
    "-1",
    "9223372036854775807",
    "x" * 300,
    "Thème-ü-☃",
    "a\x00b",
    "a\x01b\x02c",
    "../../config/topics.json",
)
TOPICS = (
    *("AsTopic", TOPIC, RETRY_TOPIC, DEAD_TOPIC, "%RETRY%AsGroup", "%DLQ%AsGroup"),
    *(TIMER_TOPIC, HALF_TOPIC, "RMQ_SYS_TRANS_OP_HALF_TOPIC", "SCHEDULE_TOPIC_XXXX", "TBW102"),
    *("RMQ_SYS_TRACE_TOPIC", "rmq_sys_TRACE_DATA_x", "rmq_sys_TIMERMQ_QUARANTINE"),
    *("rmq_sys_TIMERMQ_LEFT_OUT", "DefaultCluster_REPLY_TOPIC", "TRANS_CHECK_MAX_TIME_TOPIC"),
    *(TOPIC.lower(), TOPIC.upper(), f" {TOPIC}", f"{TOPIC} ", f"ns%{TOPIC}", f"%{TOPIC}"),
    *(f"%RETRY%{RETRY_TOPIC}", f"%RETRY%ns%{GROUP}", f"%retry%{GROUP}", f"%RETRY%{TOPIC}"),
    *(f"AsTopic#{TOPIC}", f"AsTopic+{TOPIC}", f"AsTopic,{TOPIC}", f"AsTopic\n{TOPIC}"),
    *TRICKS,
)
GROUPS = (
    *("AsGroup", GROUP, f"ns%{GROUP}", RETRY_TOPIC, GROUP.lower(), f"{GROUP} ", f"AsGroup@{TOPIC}"),
    *("CID_RMQ_SYS_TRANS", "TOOLS_CONSUMER", PRODUCERS, "AP"),
    *TRICKS,
)
NAMES = (
    *("topic", "b", "consumerGroup", "group", "producerGroup", "a", "queueId", "e", "queueOffset"),
    *("offset", "commitLogOffset", "tranStateTableOffset", "commitOrRollback", "msgId", "i"),
    *("transactionId", "recallHandle", "uniqueKey", "key", "job", "part", "clientID", "properties"),
    *("sysFlag", "f", "commitOffset", "subscription", "expressionType", "_UNIQUE_KEY_QUERY"),
    *("delayLevel", "maxReconsumeTimes", "originTopic", "deliverMs", "delayMs", "batch", "m"),
    *("reconsumeTimes", "j", "maxReconsumeTimes", "l", "defaultTopic", "c", "block", "last"),
    *("fromTransactionCheck", "namespace", "ns", "lo", "nsd", "SecurityToken", "OnsChannel"),
    *("consumerTimeoutMillis", "brokerName", "n", "boundaryType", "setZeroIfNotFound", "forced"),
)
"""Of parameters that a request is given, or has changed."""
FORGED_TOPICS = ("AsTopic", TOPIC, HALF_TOPIC, TIMER_TOPIC, RETRY_TOPIC, DEAD_TOPIC, *TRICKS[6:8])

_FIELDS = (
    *("topic", "group", "place", "unique_key", "queue_offset", "queue_id", "producer_group"),
    *("job", "part", "client_id", "properties", "body", "slot_ms"),
)
PLACE, KEY, OFFSET, PROPERTIES = map(
    _FIELDS.index, ("place", "unique_key", "queue_offset", "properties")
)
"""Numbers of fields that seeds choose."""
PROPERTIES_COUNT = 14


class Loot:
    """What is tried in one broker.

    Args:
        victim: Whose places and keys they are.
        forged: Where the intruder's forged records stand; grows.
    """

    def __init__(self, victim: Victim, forged: Sequence[int]) -> None:
        self._victim = victim
        self._forged = forged
        self._keys = (*victim.keys, "VH", "AU", "VK", *TRICKS)
        timer = victim.timers[-1]
        handles = [
            encode_handle(topic, BROKER_NAME, timer.deliver_ms + 1, timer.key)
            for topic in (TOPIC, "AsTopic")
        ]
        self.texts = (*TOPICS, *GROUPS, *self._keys[:40], *handles, CLIENT, JOB, PART, "true", "8")
        """For any parameter."""
        self._pools: dict[str, Callable[[], Sequence[Any]]] = {
            "topic": lambda: TOPICS,
            "group": lambda: GROUPS,
            "place": lambda: self.places,
            "unique_key": lambda: self._keys,
            "queue_offset": lambda: (0, 1, 2, 7, -1, 2**62),
            "queue_id": lambda: (0, 1, 2, 3, 7, -1, 2**31 - 1),
            "producer_group": lambda: (PRODUCERS, "AP", *TRICKS),
            "job": lambda: (JOB, "AsJob", JOB.lower(), "new-job", *TRICKS),
            "part": lambda: (PART, "p", *TRICKS),
            "client_id": lambda: (CLIENT, "AsClient", *TRICKS),
            "properties": lambda: self._properties,
            "body": lambda: (b"A's", b"", b"0", bytes(3_000)),
            "slot_ms": lambda: [timer.deliver_ms for timer in victim.timers],
        }
        properties = forged_properties(victim.places[0], timer)
        self._properties = tuple(text.decode() for text in properties)

    @property
    def places(self) -> Sequence[int]:
        """Positions of records of V, within them, of forged ones, and such as hold nothing."""
        near = [place + by for place in self._victim.places[:8] for by in (-1, 1, 88, 100)]
        return (*self._victim.places, *self._forged, *near, 0, -1, 2**62)

    def subject(self, choices: Choices) -> Subject:
        """What a request is about."""
        one = choices.pick(BASES)
        for _ in range(choices.number(5)):
            field = choices.pick(_FIELDS)
            changes: dict[str, Any] = {field: choices.pick(self._pools[field]())}
            one = attrs.evolve(one, **changes)
        return one


def forged_properties(place: int, timer: Timer) -> Sequence[bytes]:
    """Properties that would mean something to the broker, of a message about one of V's."""
    key, moment_ms = timer.key, timer.deliver_ms
    texts = [
        f"TIMER_DEL_UNIQKEY\x01{TOPIC}+{key}\x02TIMER_DELIVER_MS\x01{moment_ms}\x02",
        f"TIMER_DEL_UNIQKEY\x01{key}\x02TIMER_DELIVER_MS\x01{moment_ms}\x02UNIQ_KEY\x01{key}\x02",
        f"REAL_TOPIC\x01{TOPIC}\x02REAL_QID\x010\x02UNIQ_KEY\x01{key}\x02",
        f"REAL_TOPIC\x01AsTopic\x02REAL_QID\x010\x02UNIQ_KEY\x01{key}\x02",
        f"TRAN_MSG\x01true\x02PGROUP\x01{PRODUCERS}\x02UNIQ_KEY\x01VH\x02REAL_TOPIC\x01AsTopic\x02"
        f"REAL_QID\x010\x02TIMERMQ_HALF\x01{place},{moment_ms}\x02",
        f"TRAN_MSG\x01true\x02PGROUP\x01{PRODUCERS}\x02UNIQ_KEY\x01VH\x02",
        f"TIMER_OUT_MS\x01{moment_ms}\x02REAL_TOPIC\x01{TOPIC}\x02REAL_QID\x010\x02",
        f"TIMER_DELAY_SEC\x011\x02UNIQ_KEY\x01{key}\x02KEYS\x01VK\x02",
        f"DELAY\x011\x02UNIQ_KEY\x01{key}\x02RETRY_TOPIC\x01{TOPIC}\x02",
        f"RETRY_TOPIC\x01{RETRY_TOPIC}\x02ORIGIN_MESSAGE_ID\x01{key}\x02RECONSUME_TIME\x0199\x02",
        f"MSG_TYPE\x01reply\x02REPLY_TO_CLIENT\x01{CLIENT}\x02CORRELATION_ID\x01{key}\x02",
        f"CLUSTER\x01x\x02TAGS\x01a\x02KEYS\x01{TOPIC}#VK\x02",
        f"INNER_BASE\x01{place}\x02INNER_NUM\x011\x02DUP_INFO\x010_1\x02",
        "",
    ]
    return [text.encode() for text in texts]
