"""Records of the timer topic that admission never saw, and what became of them."""

from __future__ import annotations

from fakes import START_MS
from simulation.staged_service import HOST, arrivals
from timermq.pipeline.quarantine.quarantine_record import Entry
from timermq.pipeline.records.system_topics import TIMER_TOPIC
from timermq.pipeline.timer_message_store import TimerMessageStore
from timermq.timerstore.message import Message

SLOT_MS = START_MS // 1000 * 1000 + 2_000
REFUSED_TOPIC = "%DLQ%" + "x" * 200
"""A legal name that the store takes no message for."""


def poison(*properties: str, body: bytes = b"poison", key: str = "P") -> Message:
    """A record of the timer topic that admission never saw."""
    text = "".join(one.replace("=", "\x01", 1) + "\x02" for one in (f"UNIQ_KEY={key}", *properties))
    return Message(TIMER_TOPIC, 0, body, text.encode(), born_host=HOST)


def javas(topic: str = "T", queue_id: str = "0", out_ms: object = SLOT_MS) -> tuple[str, ...]:
    """The keys of a timer of RocketMQ's."""
    return f"TIMER_OUT_MS={out_ms}", f"REAL_TOPIC={topic}", f"REAL_QID={queue_id}"


def put_poison(service: TimerMessageStore, *messages: Message) -> None:
    """Store messages behind the back of admission."""
    for result in service.store.put(messages):
        assert result.status.is_stored, result.remark


def entries(service: TimerMessageStore) -> list[Entry]:
    """The entries of the quarantine, in the order of the log."""
    return [entry for entry, _ in service.quarantine.entries()]


def only_entry(service: TimerMessageStore) -> Entry:
    """The one message in quarantine."""
    (entry,) = entries(service)
    return entry


def bodies(service: TimerMessageStore, topic: str = "T") -> list[str]:
    """Bodies of what has arrived on a topic, in order."""
    return [one.body for one in arrivals(service.store, topic)]
