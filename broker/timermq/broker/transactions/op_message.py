r"""Op messages: which half messages are done.

They stand in ``RMQ_SYS_TRANS_OP_HALF_TOPIC``, queue 0, with the tag ``d``; the body lists queue
offsets of the half topic, each followed by a comma. RocketMQ gathers them for some seconds in
memory, and forgets them with the process; here each stands in the same write as what it is about,
behind it.

Ours say more, where RocketMQ does not look: how the transaction ended, under its unique key, so
that the key index finds it again::

    TAGS\x01d\x02 [UNIQ_KEY\x01<unique key>\x02] TIMERMQ_END\x01<how>,<name>[,late]\x02

One that is not late tells recovery that all before it in the log is marked. A late one marks what a
process left unmarked that ended in the middle of a write.

Source: Java ``TransactionalMessageBridge.putOpMessage``, ``TransactionalOpBatchService``.
"""

from __future__ import annotations

import enum

import attrs

from timermq.timerstore.message import Message
from timermq.timerstore.message_store import MessageStore
from timermq.timerstore.number_text import number_in
from timermq.timerstore.properties import TAGS_NAME, UNIQ_KEY, find
from timermq.timerstore.record import record_body, record_properties

from ..topic_validator import TRANS_OP_HALF_TOPIC
from .half_message import HalfMessage

OP_QUEUE_ID = 0
_TAG = b"d"
_ENDING = b"TIMERMQ_END"
_LATE = "late"
_QUERY_COUNT = 64
"""Op messages of one unique key that are looked at: a producer that sends again repeats it."""


class Ending(enum.Enum):
    """How a transaction, or one of its half messages, ended."""

    COMMIT = "commit"
    ROLLBACK = "rollback"
    DISCARD = "discard"
    """Nobody decided about it."""
    RENEWED = "renewed"
    """Another half message stands in its place."""


_ENDINGS = {ending.value: ending for ending in Ending}


@attrs.frozen(kw_only=True)
class Mark:
    """What an op message says."""

    ending: Ending
    offsets: tuple[int, ...]
    """Queue offsets of the half messages that are done."""
    name: int | None = None
    """The transaction that has ended; None where it goes on."""
    unique_key: str = ""

    @classmethod
    def of(cls, ending: Ending, half: HalfMessage) -> Mark:
        """The end of a transaction whose newest half message this is."""
        return cls(
            ending=ending,
            offsets=(half.queue_offset,),
            name=half.name,
            unique_key=half.unique_key,
        )


def op_message(mark: Mark, now_ms: int, *, is_late: bool = False) -> Message:
    """The message that says it.

    Args:
        mark: What it says.
        now_ms: The present.
        is_late: Other messages that are stored already are not marked yet.
    """
    properties = b"%b\x01%b\x02" % (TAGS_NAME, _TAG)
    if mark.unique_key:
        properties += b"%b%b\x02" % (UNIQ_KEY, mark.unique_key.encode())
    words = [mark.ending.value, "" if mark.name is None else str(mark.name)]
    words += [_LATE] if is_late else []
    properties += b"%b\x01%b\x02" % (_ENDING, ",".join(words).encode())
    return Message(
        topic=TRANS_OP_HALF_TOPIC,
        queue_id=OP_QUEUE_ID,
        body=b"".join(b"%d," % offset for offset in mark.offsets),
        properties=properties,
        born_ms=now_ms,
    )


def offsets_in(record: bytes) -> list[int]:
    """The queue offsets that a record of the op topic marks as done, whoever wrote it.

    Raises:
        RecordError: The bytes are no record.
    """
    if find(record_properties(record), TAGS_NAME) != _TAG:
        return []
    pieces = record_body(record).split(b",")
    return [offset for one in pieces if (offset := number_in(one)) is not None]


def is_all_marked(record: bytes) -> bool:
    """Whether a record of the op topic says that everything before it in the log is marked."""
    ending = find(record_properties(record), _ENDING)
    return ending is not None and not ending.endswith(b"," + _LATE.encode())


def how_ended(store: MessageStore, half: HalfMessage) -> Ending | None:
    """How the transaction of a half message ended; None where nothing tells.

    That is so without a key index, and of transactions that a Java broker ended.
    """
    wanted = str(half.name)
    for record in store.query(
        TRANS_OP_HALF_TOPIC, half.unique_key, count_max=_QUERY_COUNT, unique=True
    ):
        how, name = read_ending(record_properties(record))
        if name == wanted and how is not None:
            return how
    return None


def read_ending(properties: bytes) -> tuple[Ending | None, str]:
    """How a transaction ended by a record of the op topic, and its name.

    Args:
        properties: Of the record.

    Returns:
        None for the first where the record does not tell it: one of RocketMQ's.
    """
    ending = (find(properties, _ENDING) or b"").decode("utf-8", "replace")
    how, name, *_ = (*ending.split(","), "")
    return _ENDINGS.get(how), name
