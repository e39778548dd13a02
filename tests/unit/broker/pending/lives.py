"""Lives of messages for tests: asked for, and brought into states that clients do not reach."""

from __future__ import annotations

from typing import TypedDict, cast

import cbor2

from broker_rig import Peer, Rig
from timermq.broker.pending.explain_processor import life_row
from timermq.broker.pending.message_life import at_once
from timermq.pipeline.records.undeliverable import Reason, Undeliverable
from timermq.timerstore.message import Message

EXPLAIN, CANCEL = 9006, 9005

RETRY_QUARANTINE, DROP_QUARANTINE = 9012, 9013

NOW_MS = 1_700_000_000_000


class Life(TypedDict):
    """An answer to EXPLAIN_MESSAGE: the steps of one message."""

    now: str
    deliver_ms: int | None
    steps: list[dict[str, object]]
    is_whole: bool


def explain(rig: Rig, unique_key: str, topic: str | None = None) -> Life:
    """What is known of a message."""
    lives = rig.broker.processors.explain.lives()
    return cast("Life", life_row(at_once(lives.of(unique_key, topic))))


async def explained(peer: Peer, unique_key: str, topic: str | None = None) -> Life:
    """What a running broker answers."""
    answer = await peer.call(EXPLAIN, body=cbor2.dumps({"id": unique_key, "topic": topic}))
    assert answer.code == 0, answer.remark
    return cast("Life", cbor2.loads(answer.body))


def words(life: Life) -> list[object]:
    """What happened, a word each."""
    return [step["step"] for step in life["steps"]]


def later(seconds: int, key: str = "K1") -> str:
    """Properties of a message that waits."""
    return f"UNIQ_KEY\x01{key}\x02TIMER_DELIVER_MS\x01{NOW_MS + seconds * 1000}\x02"


def quarantined(rig: Rig, topic: str, queue_id: int = 0, reason: Reason = Reason.CHECKSUM) -> int:
    """Put the one record of a queue into quarantine; its name there."""
    (record,) = rig.records(topic, queue_id)
    fault = Undeliverable(
        offset_py=record.phy_offset,
        size_py=record.size,
        record=rig.broker.store.commit_log.read(record.phy_offset, record.size),
        reason=reason,
        text="expected 1, found 2",
    )
    assert rig.broker.timer_store.quarantine.add([fault], rig.clock.now_ms()) is None
    return record.phy_offset


def retry_elsewhere(rig: Rig, entry: int) -> None:
    """Let a message out of quarantine, to topic Other."""
    fields = {"id": entry, "topic": "Other", "by": "me"}
    answer = rig.call(RETRY_QUARANTINE, body=cbor2.dumps(fields))
    assert cbor2.loads(answer.body)["verdict"] == "retried"


def level(topic: str) -> Message:
    """A message that RocketMQ has put into the queue of level 3."""
    properties = f"UNIQ_KEY\x01K1\x02DELAY\x013\x02REAL_TOPIC\x01{topic}\x02REAL_QID\x010\x02"
    return Message("SCHEDULE_TOPIC_XXXX", 2, b"x", properties.encode(), born_ms=5)
