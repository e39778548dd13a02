"""The keys of RocketMQ's deliveries and rolls: they name no origin, and are known by four texts.

Such a record keeps the properties of the timer record that it delivers or rolls. It also has the
time at which that was taken from the wheel (``TIMER_DEQUEUE_MS``), which no other record has. Real
topic, unique key, slot and number of rolls tell which record it was. If several have the same four,
only their number is known.

A message that a consumer sends back keeps these properties too, but goes to another topic: it is no
delivery.

These are the forms for one record. Columns are compared by the same names: ``Handled`` of
``spark/pending_facts.py``, and the SQL of ``spark/jobs/audit/by_key.py``.

Source: Java ``TimerMessageStore.convertMessage``.
"""

from __future__ import annotations

from collections import Counter

import attrs

from timermq.timerstore.properties import REAL_TOPIC_NAME, UNIQ_KEY_NAME, find
from timermq.timerstore.record import record_properties, record_topic

from .timer_properties import DEQUEUE, OUT_NAME, ROLL_LABEL_NAME, ROLL_TIMES_NAME
from .timer_record import TIMER_TOPIC

ForeignKey = tuple[bytes, bytes, bytes, bytes]
"""The values of ``KEY_NAMES``, as text."""

KEY_NAMES = (REAL_TOPIC_NAME, UNIQ_KEY_NAME, OUT_NAME, ROLL_TIMES_NAME)
"""Properties that tell which record it was; one that is missing counts as ``DEFAULTS`` says."""
DEFAULTS = (b"", b"", b"", b"0")

ROLLS_DIGITS_MAX = 9
"""Digits of a number of rolls."""


def pending_key(record: bytes) -> ForeignKey:
    """The key of a pending timer record, to be compared with those of RocketMQ's records."""
    return _key(record_properties(record))


def foreign_key_in(record: bytes) -> ForeignKey | None:
    """The key of the timer that this record of Java's delivered or rolled; None if neither."""
    properties = record_properties(record)
    if DEQUEUE not in properties:
        return None
    *identity, rolls = _key(properties)
    topic, unique_key, out = identity
    if record_topic(record) != TIMER_TOPIC.encode():
        is_delivery = record_topic(record) == topic
        return (topic, unique_key, out, rolls) if is_delivery else None
    if not rolls.isdigit() or len(rolls) > ROLLS_DIGITS_MAX:
        return None
    return topic, unique_key, out, b"%d" % (int(rolls) - 1)


def _key(properties: bytes) -> ForeignKey:
    topic, unique_key, out, rolls = (
        find(properties, name) or default for name, default in zip(KEY_NAMES, DEFAULTS, strict=True)
    )
    return topic, unique_key, out, rolls


@attrs.define(eq=False)
class ForeignRolls:
    """RocketMQ's rolls among the records of one unique key in the timer topic, newest first."""

    _rolled: Counter[ForeignKey] = attrs.field(factory=Counter[ForeignKey], init=False)
    """Records that rolls by the wheel have replaced, and that did not come yet."""
    _replaced: set[tuple[bytes, ...]] = attrs.field(factory=set[tuple[bytes, ...]], init=False)
    """Topic, key and slot of rolls by RocksDB timers: each replaces all records before it."""

    def goes_on_behind(self, record: bytes) -> bool:
        """Whether a later record has replaced this one; to be called for each but deletes.

        Rolls of ours are not among these: they name the first record of their message.
        """
        key, rolled = pending_key(record), foreign_key_in(record)
        slot = key[:3]
        goes_on = self._rolled[key] > 0 or slot in self._replaced
        if self._rolled[key]:
            self._rolled[key] -= 1
        if rolled is not None:
            self._rolled[rolled] += 1
        if find(record_properties(record), ROLL_LABEL_NAME) is not None:
            self._replaced.add(slot)
        return goes_on
