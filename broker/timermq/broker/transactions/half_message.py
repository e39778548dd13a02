r"""Half messages: the records of a transaction until its producer has decided.

A half message is in ``RMQ_SYS_TRANS_HALF_TOPIC``, queue 0, with its real topic and queue among
its properties. Everything else is as the committed message will have it. Each time that its
producer is asked, it is *renewed*, as in RocketMQ: written again at the end of the queue, with one
more ``TRANSACTION_CHECK_TIMES``, so that open ones are never far from there.

The producer may name any of these records when it ends the transaction: the first one when it ends
it by itself, the newest when it was asked. RocketMQ takes them for different transactions, and
commits both. Here the position of the first record is the transaction's *name*; renewals carry it::

    TIMERMQ_HALF\x01<position of the first record>,<its store time>\x02

RocketMQ keeps properties when it renews, so the name survives a time under a Java broker. It does
not keep ``preparedTransactionOffset``, which has the name, and one more, in the renewals of ours.

Each check makes the properties of a half message longer, and the wheel needs room for its own when
a message asks for a moment at its commit. So a half message without that room is refused at once,
while its producer is there to be told, under the same rule as a timer (``size_refusal``).

Source: Java ``TransactionalMessageBridge``, ``EndTransactionProcessor.endMessageTransaction``.
"""

from __future__ import annotations

import attrs

from timermq.pipeline.admission.admission import Refusal
from timermq.pipeline.admission.run_request import OWN_PROPERTIES_SIZE_MAX
from timermq.pipeline.records.delivered_message import taken_over
from timermq.pipeline.records.timer_properties import REQUEST_NAMES
from timermq.timerstore.message import TRANSACTION_MASK, Message, SysFlag
from timermq.timerstore.number_text import NUMBER_DIGITS_MAX, number_in
from timermq.timerstore.properties import (
    PREPARED_NAME,
    PROPERTIES_SIZE_MAX,
    REAL_QID_NAME,
    REAL_TOPIC_NAME,
    UNIQ_KEY_NAME,
    find,
    remove,
)
from timermq.timerstore.put_status import PutStatus
from timermq.timerstore.record import Record, RecordError, decode_record, encode_record
from timermq.timerstore.record_check import CheckKind, check_record
from timermq.timerstore.topic_name import topic_fault

from ..topic_validator import TRANS_CHECK_MAX_TIME_TOPIC, TRANS_HALF_TOPIC

HALF_QUEUE_ID = 0

GROUP = b"PGROUP"
IMMUNITY = b"CHECK_IMMUNITY_TIME_IN_SECONDS"
CHECK_TIMES = b"TRANSACTION_CHECK_TIMES"
_FIRST_OFFSET = b"TRAN_PREPARED_QUEUE_OFFSET"
"""Queue offset of the first half message, on those renewed without a check."""
_TRANSACTION_ID = b"__transactionId__"
_NAME = b"TIMERMQ_HALF"
_OWN = (_TRANSACTION_ID, CHECK_TIMES, _FIRST_OFFSET, _NAME)
"""Properties that the broker sets; those of a producer are dropped."""
_INTERNAL = (REAL_TOPIC_NAME, REAL_QID_NAME, CHECK_TIMES, _FIRST_OFFSET, _NAME)
"""Properties that a committed message does not have; ``TRAN_MSG`` stays, as in RocketMQ."""

_NUMBER_MAX = 10**NUMBER_DIGITS_MAX - 1
RENEWAL_SIZE_MAX = len(
    b"%b\x01%d\x02%b\x01%d\x02%b\x01%d,%d\x02"
    % (CHECK_TIMES, _NUMBER_MAX, _FIRST_OFFSET, _NUMBER_MAX, _NAME, _NUMBER_MAX, _NUMBER_MAX)
)
"""Bytes that a half message's properties grow by at most, however often it is renewed."""
_NO_TRANSACTION = ~int(TRANSACTION_MASK)


class HalfMessageError(Exception):
    """A record of the half topic is no half message; the text says what of it."""


class DamagedHalfError(HalfMessageError):
    """The record is damaged or gone: it is put into quarantine."""


@attrs.frozen(kw_only=True, eq=False)
class HalfMessage:
    """One record of the half topic."""

    data: bytes
    """Bytes of the whole record."""
    record: Record
    topic: str
    """The message's topic and queue when it is committed."""
    queue_id: int
    group: str
    """Name of its group of producers."""
    unique_key: str
    name: int
    """Position of the transaction's first record."""
    first_ms: int
    """When that was stored, epoch milliseconds."""
    states_name: bool
    """Whether the record itself has its name: a renewal that a timermq broker began."""
    check_times: int
    """How often its producers were asked."""
    is_renewal: bool
    is_javas_renewal: bool
    """RocketMQ has written it, and may have committed one before it."""
    immunity_ms: int | None
    """How long it asks not to be asked about; None where the broker's setting counts."""

    @property
    def queue_offset(self) -> int:
        """Its number in the half topic."""
        return self.record.queue_offset

    @property
    def phy_offset(self) -> int:
        """Position of its record in the commit log."""
        return self.record.phy_offset


def is_half(properties: bytes) -> bool:
    """Whether a message that is sent is a half message."""
    # A tenth of the cost of a look-up, and nearly always enough.
    if PREPARED_NAME not in properties:
        return False
    return (find(properties, PREPARED_NAME) or b"").lower() == b"true"


def parked(message: Message, unique_key: str) -> Message:
    """The half message of what a producer sends; ``transactionId`` is its unique key."""
    properties = message.properties
    for key in _OWN:
        properties = remove(properties, key)
    if properties and not properties.endswith(b"\x02"):
        properties += b"\x02"
    properties += b"%b\x01%b\x02%b\x01%b\x02%b\x01%d\x02" % (
        _TRANSACTION_ID, unique_key.encode(),
        REAL_TOPIC_NAME, message.topic.encode(),
        REAL_QID_NAME, message.queue_id,
    )  # fmt: skip
    return Message(
        topic=TRANS_HALF_TOPIC,
        queue_id=HALF_QUEUE_ID,
        body=message.body,
        properties=properties,
        flag=message.flag,
        sys_flag=message.sys_flag & _NO_TRANSACTION,
        born_ms=message.born_ms,
        born_host=message.born_host,
        reconsume_times=message.reconsume_times,
    )


def decode_half(data: bytes) -> HalfMessage:
    """Read a record of the half topic.

    A message made of it, a renewal or the committed one, gets a checksum of its own. So its body is
    compared with the checksum that it has.

    Raises:
        DamagedHalfError: The record is damaged.
        HalfMessageError: It is of another topic, or lacks what a half message needs.
    """
    record = _decode(data, TRANS_HALF_TOPIC)
    properties = record.properties
    topic, queue_id = _real_place(record)
    check_times = _number(properties, CHECK_TIMES) or 0
    immunity_sec = _number(properties, IMMUNITY)
    is_renewal = check_times > 0 or find(properties, _FIRST_OFFSET) is not None
    named = _named(properties)
    name, first_ms = (record.phy_offset, record.store_ms) if named is None else named
    return HalfMessage(
        data=data,
        record=record,
        topic=topic,
        queue_id=queue_id,
        group=_text(properties, GROUP),
        unique_key=_text(properties, UNIQ_KEY_NAME),
        name=name,
        first_ms=first_ms,
        states_name=named is not None,
        check_times=check_times,
        is_renewal=is_renewal,
        is_javas_renewal=is_renewal and record.prepared_transaction_offset != name + 1,
        immunity_ms=None if immunity_sec is None else immunity_sec * 1000,
    )


def _decode(data: bytes, topic: str) -> Record:
    """Read a record of queue 0 of a topic whose bytes are as they were written."""
    try:
        record = decode_record(data)
    except RecordError as error:
        raise DamagedHalfError(str(error)) from None
    where = _where(record)
    found = check_record(data, 0, len(data), record.phy_offset, check_crc=True)
    if found.kind is not CheckKind.RECORD:
        raise DamagedHalfError(f"{where}: {found.reason}")
    if (record.topic, record.queue_id) != (topic, HALF_QUEUE_ID):
        raise HalfMessageError(
            f"{where}: expected queue {HALF_QUEUE_ID} of {topic}, found "
            f"{record.queue_id} of {ascii(record.topic)[:260]}"
        )
    return record


def _real_place(record: Record) -> tuple[str, int]:
    """Topic and queue of the message when it is committed."""
    topic = _text(record.properties, REAL_TOPIC_NAME)
    fault = topic_fault(topic)
    if fault is not None or topic == TRANS_HALF_TOPIC:
        raise HalfMessageError(f"{_where(record)}: REAL_TOPIC: {fault or topic}")
    queue_id = _number(record.properties, REAL_QID_NAME)
    if queue_id is None:
        raise HalfMessageError(f"{_where(record)}: REAL_QID: expected a number")
    return topic, queue_id


def _where(record: Record) -> str:
    return f"half message at {record.phy_offset}"


def committed(half: HalfMessage) -> Message:
    """The message that the consumers of the real topic get; it names the half message's position.

    What asks for a moment stays: admission decides about it when the message is committed.
    """
    properties = half.record.properties
    for key in _INTERNAL:
        properties = remove(properties, key)
    message = taken_over(
        half.data,
        topic=half.topic,
        queue_id=half.queue_id,
        properties=properties,
        origin=half.phy_offset,
    )
    message.sys_flag = message.sys_flag & _NO_TRANSACTION | int(SysFlag.TRANSACTION_COMMIT)
    return message


def renewed(half: HalfMessage, *, is_check: bool) -> Message:
    """The half message once more, for the end of the queue.

    Args:
        half: The newest record of its transaction.
        is_check: Its producers are asked: that counts.
    """
    properties = _without(half, _NAME, CHECK_TIMES)
    if is_check:
        properties += b"%b\x01%d\x02" % (CHECK_TIMES, half.check_times + 1)
    elif find(properties, _FIRST_OFFSET) is None:
        properties += b"%b\x01%d\x02" % (_FIRST_OFFSET, half.queue_offset)
    properties += _name_of(half)
    return taken_over(
        half.data,
        topic=TRANS_HALF_TOPIC,
        queue_id=HALF_QUEUE_ID,
        properties=properties,
        origin=half.name + 1,
    )


def discarded(half: HalfMessage) -> Message:
    """The record that is kept of an abandoned transaction."""
    properties = _without(half, _NAME) + _name_of(half)
    if len(properties) > PROPERTIES_SIZE_MAX:
        # The name is for recovery alone: without it, after a kill within the write, the transaction
        # is open still and discarded once more.
        properties = half.record.properties
    return taken_over(
        half.data,
        topic=TRANS_CHECK_MAX_TIME_TOPIC,
        queue_id=0,
        properties=properties,
        origin=0,
    )


def resumed(data: bytes) -> Message:
    """The half message of a new transaction, made of the record of an abandoned one.

    Raises:
        DamagedHalfError: The record is damaged.
        HalfMessageError: It is of another topic, or lacks what a half message needs.

    Source: Java ``AdminBrokerProcessor.resumeCheckHalfMessage``, which takes records of any topic.
    """
    record = _decode(data, TRANS_CHECK_MAX_TIME_TOPIC)
    _real_place(record)
    properties = record.properties
    for key in (CHECK_TIMES, _FIRST_OFFSET, _NAME):
        properties = remove(properties, key)
    return taken_over(
        data, topic=TRANS_HALF_TOPIC, queue_id=HALF_QUEUE_ID, properties=properties, origin=0
    )


def asked_about(half: HalfMessage) -> bytes:
    """The message as its producer is shown it: a record with the real topic and queue."""
    record = half.record
    message = taken_over(
        half.data,
        topic=half.topic,
        queue_id=half.queue_id,
        properties=record.properties,
        origin=0,
    )
    return encode_record(
        message,
        queue_offset=half.queue_offset,
        phy_offset=half.phy_offset,
        store_ms=record.store_ms,
        store_host=record.store_host,
    )


def name_in(properties: bytes) -> int | None:
    """The name that a renewal or a discarded message states; None where it states none."""
    named = _named(properties)
    return None if named is None else named[0]


def _named(properties: bytes) -> tuple[int, int] | None:
    """A transaction's name and the store time of its first record."""
    first, _, second = (find(properties, _NAME) or b"").partition(b",")
    name, first_ms = number_in(first), number_in(second)
    return None if name is None or first_ms is None else (name, first_ms)


def _name_of(half: HalfMessage) -> bytes:
    return b"%b\x01%d,%d\x02" % (_NAME, half.name, half.first_ms)


def _without(half: HalfMessage, *keys: bytes) -> bytes:
    """The properties of a half message but for some, with their last separator."""
    properties = half.record.properties
    for key in keys:
        properties = remove(properties, key)
    return properties if properties.endswith(b"\x02") else properties + b"\x02"


def _text(properties: bytes, key: bytes) -> str:
    return (find(properties, key) or b"").decode("utf-8", "replace")


def _number(properties: bytes, key: bytes) -> int | None:
    """A property that is a number; None for anything else."""
    return number_in(find(properties, key))


HALF_PROPERTIES_SIZE_MAX = PROPERTIES_SIZE_MAX - RENEWAL_SIZE_MAX
"""Bytes of the properties of a half message, with its real topic, queue and id."""
DELAYED_PROPERTIES_SIZE_MAX = min(HALF_PROPERTIES_SIZE_MAX, OWN_PROPERTIES_SIZE_MAX)
"""The same of one that asks for a moment; a commit only takes properties away."""


def size_refusal(half: Message) -> Refusal | None:
    """Why a half message is not taken for its properties; None when it is.

    Args:
        half: What `half_message.parked` made.
    """
    size = len(half.properties)
    if size <= DELAYED_PROPERTIES_SIZE_MAX:
        return None
    is_delayed = any(find(half.properties, key) is not None for key in REQUEST_NAMES)
    size_max = DELAYED_PROPERTIES_SIZE_MAX if is_delayed else HALF_PROPERTIES_SIZE_MAX
    if size <= size_max:
        return None
    return Refusal(
        status=PutStatus.PROPERTIES_SIZE_EXCEEDED,
        rule="PROPERTIES_SIZE",
        remark=f"PROPERTIES_SIZE: expected at most {size_max} bytes on a half message, with those "
        f"of the broker, found {size}",
    )
