r"""Admission: the one checked routine that every message passes on its way into the store.

However a message arrives (JSON, binary or CBOR headers, batches, the command line), its
properties are checked here, once. A message that asks for a later moment is turned towards the
timer topic; one whose moment is past is due now and stays as it is; what cannot be understood is
refused with the name of the rule. Nothing is stored and nothing is ever reinterpreted.

Arithmetic is exact: Python's integers do not overflow, and what does not fit a signed 64-bit number
is refused, where RocketMQ wraps round and delivers at once.

Source: Java ``HookUtils.handleScheduleMessage``, ``transformTimerMessage``; issues #10872, #5376.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

import attrs
import msgspec
import numpy as np
from numpy.typing import NDArray

from timermq.timerstore.message import Message
from timermq.timerstore.message_columns import StoredColumns
from timermq.timerstore.number_text import NUMBER_DIGITS_MAX
from timermq.timerstore.properties import (
    DELAY,
    DELAY_NAME,
    PREPARED,
    REPLY_TO_CLIENT,
    find,
    remove,
    validate,
)
from timermq.timerstore.put_status import PutResult, PutStatus

from ..records.delete_message import deleted_key, found_by_its_target
from ..records.system_topics import is_trace_topic
from ..records.timer_properties import DELETE_NAME, DELIVER_NAME, INTERNAL_NAMES, REQUEST_NAMES
from ..records.timer_record import TIMER_TOPIC, has_level, hide_level, timer_tail
from ..state.timer_options import TimerOptions
from .delay_level import DelayLevels
from .run_request import (
    OWN_PROPERTIES_SIZE_MAX,
    REQUEST_UNITS_MS,
    STEERING,
    TIMER,
    breaks_run,
    fit_run,
    request_at,
)

INT64_MAX = 2**63 - 1
EPOCH_MS_MAX = 9_999_999_999_999
"""The last moment that 13 digits hold: the year 2286."""

_NOT_IN_TRACES = (*STEERING, PREPARED, REPLY_TO_CLIENT)
_DIGITS = re.compile(rb"\+?[0-9]{1,40}")
_FORBIDDEN = frozenset(INTERNAL_NAMES)


@attrs.frozen(kw_only=True)
class Refusal:
    """A message that may not be stored, and why."""

    status: PutStatus
    rule: str
    """Name of the rule, in capitals: docs/protocol.md lists them."""
    remark: str
    """The rule and the value that broke it, one line."""


class RefusalError(Exception):
    """Raised where a rule is broken; ends in a ``Refusal``."""

    def __init__(self, rule: str, text: str, status: PutStatus = PutStatus.MESSAGE_ILLEGAL) -> None:
        super().__init__(text)
        self.refusal = Refusal(status=status, rule=rule, remark=f"{rule}: {text}")


def shown(value: bytes) -> str:
    """A value as text for a remark, at most 64 characters."""
    text = ascii(value.decode("utf-8", "replace"))
    return text if len(text) <= 64 else text[:60] + "…'"


# A structure of msgspec's for the reason given at `Message`.
class Admitted(msgspec.Struct, frozen=True, kw_only=True, eq=False, gc=False):
    """A message that may be stored."""

    message: Message
    """As it is to be stored: towards the timer topic, or as it came when it is due now."""
    deliver_ms: int | None = None
    """The moment asked for; None for a message without a delay request."""
    out_ms: int | None = None
    """Slot time; None unless the message goes on the wheel."""
    by_level: bool = False
    """The moment came from a delay level: such messages get no recall handle."""


@attrs.define
class AdmissionCounts:
    """The counts of admission since the start."""

    timers: int = 0
    already_due: int = 0
    """Moments that were past when they arrived."""
    levels_clamped: int = 0
    """Delay levels above the highest one."""
    refused: dict[str, int] = attrs.Factory(dict[str, int])
    """By rule."""


class TimerAdmission:
    """The admission routine with its settings and counts.

    Args:
        options: Precision, maximum delay, levels.
        congested: Says for a slot time whether one more message there is to be refused now.
    """

    def __init__(self, options: TimerOptions, congested: Callable[[int], bool]) -> None:
        self._options = options
        self._levels = DelayLevels.parse(options.message_delay_level)
        self._congested = congested
        self.counts = AdmissionCounts()

    def admit(self, message: Message, now_ms: int, *, is_retry: bool = False) -> Admitted | Refusal:
        """Decide what becomes of ``message`` at ``now_ms``; plain and without side effects on disk.

        Args:
            message: As it came.
            now_ms: The time that delays count from.
            is_retry: The delay is that before a group's next try, and no producer's: the wheel
                takes it even where it is switched off for them.

        Returns:
            The message to store, or the refusal with its rule.
        """
        try:
            return self._admit(message, now_ms, is_retry=is_retry)
        except RefusalError as error:
            return self._refused(error)

    def admit_all(
        self, messages: Sequence[Message], now_ms: int, *, is_retry: bool = False
    ) -> list[Admitted | Refusal]:
        """The decisions of ``admit`` on each of ``messages``.

        Where all properties fit into one run, what ``admit`` would look for in each message is
        known to be absent, and only its moment is left to be read.
        """
        latest_ms = self.latest_ms(now_ms)
        texts = [message.properties for message in messages]
        fitting = [True] * len(texts) if fit_run(texts) else [fit_run([one]) for one in texts]
        return [
            (self._admit_in_run(message, now_ms, latest_ms) if fits else None)
            or self.admit(message, now_ms, is_retry=is_retry)
            for message, fits in zip(messages, fitting, strict=True)
        ]

    def take_over(self, message: Message, deliver_ms: int) -> Admitted | Refusal:
        """Decide what becomes of a pending message already, in a queue of a classic level.

        Its moment was granted when it was sent: neither the maximum delay nor flow control asks
        again. It goes by the wheel even if that is past: there it takes its turn.

        Args:
            message: With the properties of its producer, none of them internal.
            deliver_ms: When it is due.
        """
        level = find(message.properties, DELAY_NAME) if has_level(message.properties) else None
        own = _own_properties(message.properties, by_level=True, level=int(level or 0))
        try:
            if not 0 < deliver_ms <= EPOCH_MS_MAX:
                raise RefusalError("TIMER_DELAY_TOO_LONG", f"the moment {deliver_ms} is no time")
            if len(own) > OWN_PROPERTIES_SIZE_MAX:
                raise _properties_too_large(own)
            return self._redirected(message, own, deliver_ms, by_level=True, is_granted=True)
        except RefusalError as error:
            return self._refused(error)

    def _refused(self, error: RefusalError) -> Refusal:
        rule = error.refusal.rule
        self.counts.refused[rule] = self.counts.refused.get(rule, 0) + 1
        return error.refusal

    def _admit_in_run(
        self, message: Message, now_ms: int, latest_ms: int
    ) -> Admitted | Refusal | None:
        """``_admit`` for a message of a run; None where it has more to say than where and when."""
        properties = message.properties
        # Each None is a question for ``_admit``, which also finds the words for a refusal. What is
        # decided here is what it would decide: nothing steers but the one request at ``at``.
        if breaks_run(message):
            return None
        at = properties.find(TIMER)
        if at < 0:
            return Admitted(message=message)
        request = request_at(properties, at)
        if request is None:
            return None
        mark, end, unit_ms = request
        value = properties[mark:end]
        deliver_ms = now_ms + int(value) * unit_ms if unit_ms else int(value)
        if not now_ms < deliver_ms <= latest_ms:
            return None
        if unit_ms == 0:
            properties = properties[:at] + properties[end + 1 :]
        try:
            return self._redirected(message, properties, deliver_ms, by_level=False)
        except RefusalError as error:  # its slot is too full: not asked twice
            return self._refused(error)

    def latest_ms(self, now_ms: int) -> int:
        """The last moment that may be asked for, other than by a level; 0 with the wheel off."""
        options = self._options
        if not options.timer_wheel_enable:
            return 0
        return min(now_ms + options.timer_max_delay_sec * 1000, EPOCH_MS_MAX)

    def _admit(self, message: Message, now_ms: int, *, is_retry: bool) -> Admitted:
        if message.topic == TIMER_TOPIC:
            raise RefusalError("INTERNAL_TOPIC", f"{TIMER_TOPIC} takes no messages from outside")
        fault = validate(message.properties)
        if fault is not None:
            raise RefusalError("PROPERTY_TEXT", fault)
        if is_trace_topic(message.topic):
            _check_trace(message)
            return Admitted(message=message)
        steering = _steering(message.properties)
        if not steering:
            return Admitted(message=message)
        if not _FORBIDDEN.isdisjoint(steering):
            forbidden = _FORBIDDEN.intersection(steering)
            names = ", ".join(sorted(name.decode() for name in forbidden))
            raise RefusalError("INTERNAL_PROPERTY", f"only the broker sets {names}")
        level = self._level(steering)
        if level:
            deliver_ms = now_ms + self._levels.delay_ms(level)
        else:
            asked = self._asked_ms(steering, now_ms)
            if asked is None:
                return self._without_request(message, steering)
            deliver_ms = asked
        if deliver_ms <= now_ms:
            return self._due_now(message, steering, deliver_ms)
        if not (level or is_retry or self._options.timer_wheel_enable):
            raise RefusalError(
                "TIMER_WHEEL_DISABLED",
                "timerWheelEnable is false on this broker",
                PutStatus.WHEEL_TIMER_NOT_ENABLE,
            )
        return self._on_the_wheel(message, deliver_ms, now_ms, level)

    def _level(self, steering: dict[bytes, bytes]) -> int:
        """The delay level asked for, clamped; 0 for none. Levels up to 0 mean none, as in Java."""
        value = steering.get(DELAY_NAME)
        if value is None:
            return 0
        if not re.fullmatch(rb"[+-]?[0-9]{1,10}", value) or abs(int(value)) > 2**31 - 1:
            raise RefusalError("DELAY_LEVEL", f"expected a 32-bit number, found {shown(value)}")
        level = max(int(value), 0)
        if level > self._levels.level_max:
            self.counts.levels_clamped += 1
            level = self._levels.level_max
        return level

    def _asked_ms(self, steering: dict[bytes, bytes], now_ms: int) -> int | None:
        for key, unit_ms in REQUEST_UNITS_MS:
            value = steering.get(key)
            if value is not None:
                number = _number(key, value)
                asked = now_ms + number * unit_ms if unit_ms else number
                if asked > INT64_MAX:
                    raise RefusalError(
                        "TIMER_OVERFLOW",
                        f"{key.decode()} {shown(value)} is past the range of a 64-bit moment",
                    )
                return asked
        return None

    def _without_request(self, message: Message, steering: dict[bytes, bytes]) -> Admitted:
        if DELETE_NAME in steering:
            raise RefusalError("DELETE_WITHOUT_TIME", "TIMER_DEL_UNIQKEY needs the target's moment")
        return Admitted(message=message)

    def _due_now(self, message: Message, steering: dict[bytes, bytes], deliver_ms: int) -> Admitted:
        if DELETE_NAME in steering:
            raise RefusalError("DELETE_TOO_LATE", f"the moment {deliver_ms} is past")
        self.counts.already_due += 1
        return Admitted(message=message, deliver_ms=deliver_ms)

    def _on_the_wheel(self, message: Message, deliver_ms: int, now_ms: int, level: int) -> Admitted:
        by_level = level > 0
        delay_max_ms = self._options.timer_max_delay_sec * 1000
        if (not by_level and deliver_ms - now_ms > delay_max_ms) or deliver_ms > EPOCH_MS_MAX:
            raise RefusalError(
                "TIMER_DELAY_TOO_LONG",
                f"asked for {deliver_ms - now_ms} ms ahead, the maximum is {delay_max_ms} ms",
                PutStatus.WHEEL_TIMER_MSG_ILLEGAL,
            )
        own = _own_properties(message.properties, by_level=by_level, level=level)
        deleted = find(own, DELETE_NAME)
        if deleted is not None:
            own = _delete_of(message.topic, deleted, own)
        if len(own) > OWN_PROPERTIES_SIZE_MAX:
            raise _properties_too_large(own)
        return self._redirected(message, own, deliver_ms, by_level=by_level)

    def _redirected(
        self,
        message: Message,
        own: bytes,
        deliver_ms: int,
        *,
        by_level: bool,
        is_granted: bool = False,
    ) -> Admitted:
        """The message turned towards the timer topic, unless its slot is too full.

        With ``is_granted`` nothing is too full.
        """
        options = self._options
        out_ms = (deliver_ms - 1) // options.timer_precision_ms * options.timer_precision_ms
        # A delete makes room: it is let in however many wait for the same moment.
        if not is_granted and self._congested(out_ms) and find(own, DELETE_NAME) is None:
            raise RefusalError(
                "TIMER_FLOW_CONTROL",
                f"the slot of {out_ms} is over {options.timer_congest_num_each_slot} messages",
                PutStatus.WHEEL_TIMER_FLOW_CONTROL,
            )
        self.counts.timers += 1
        tail = timer_tail(
            deliver_ms=deliver_ms, out_ms=out_ms, topic=message.topic, queue_id=message.queue_id
        )
        if by_level and has_level(own):
            tail = hide_level(tail)
        redirected = Message(
            TIMER_TOPIC,
            0,
            message.body,
            own + tail,
            message.flag,
            message.sys_flag,
            message.born_ms,
            message.born_host,
            message.reconsume_times,
            message.prepared_offset,
            message.body_crc,
        )
        return Admitted(message=redirected, deliver_ms=deliver_ms, out_ms=out_ms, by_level=by_level)


def _properties_too_large(own: bytes) -> RefusalError:
    return RefusalError(
        "PROPERTIES_SIZE",
        f"expected at most {OWN_PROPERTIES_SIZE_MAX} bytes, found {len(own)}",
        PutStatus.PROPERTIES_SIZE_EXCEEDED,
    )


def _steering(properties: bytes) -> dict[bytes, bytes]:
    """The keys that steer timers, with the last value of each."""
    found: dict[bytes, bytes] = {}
    for piece in properties.split(b"\x02"):
        if piece.startswith(STEERING):
            name, _, value = piece.partition(b"\x01")
            found[name] = value
    return found


def _check_trace(message: Message) -> None:
    """Refuse what no client writes into a trace: any account may send one, whatever it asks for."""
    for piece in message.properties.split(b"\x02"):
        if piece.startswith(_NOT_IN_TRACES):
            name = shown(piece.partition(b"\x01")[0])
            raise RefusalError("TRACE_PLAIN", f"{message.topic} takes no message with {name}")


def _delete_of(topic: str, name: bytes, own: bytes) -> bytes:
    """The properties of a delete that names a message of its own topic, as RocketMQ's recall does.

    The name is stored with the topic: alone it would meet messages of all topics in its slot.
    """
    key = deleted_key(topic.encode(), name)
    if key is None:
        raise RefusalError(
            "DELETE_TOPIC",
            f"a delete in {topic} cancels messages of {topic}, found {shown(name)}",
        )
    own = remove(own, DELETE_NAME) + b"%b\x01%b+%b\x02" % (DELETE_NAME, topic.encode(), key)
    return found_by_its_target(own, key)


def _own_properties(properties: bytes, *, by_level: bool, level: int = 0) -> bytes:
    """The producer's properties without those that the timer record states itself.

    A level takes precedence over the timer properties, and removes them, as in RocketMQ. The level
    that counts is kept.
    """
    if properties and not properties.endswith(b"\x02"):
        properties += b"\x02"
    if not by_level:
        return remove(properties, DELIVER_NAME)
    for name in REQUEST_NAMES:
        properties = remove(properties, name)
    return properties + b"%b%d\x02" % (DELAY, level) if level else properties


def _number(key: bytes, value: bytes) -> int:
    if value.isdigit() and len(value) <= NUMBER_DIGITS_MAX:
        return int(value)
    return _odd_number(key.decode(), value)


def _odd_number(key: str, value: bytes) -> int:
    """A number with a sign or of many digits, or the reason why it is none."""
    if value.startswith(b"-") and _DIGITS.fullmatch(value[1:]):
        raise RefusalError("TIMER_NEGATIVE", f"{key} {shown(value)} is negative")
    if not _DIGITS.fullmatch(value):
        raise RefusalError(
            "TIMER_NOT_A_NUMBER", f"{key}: expected decimal digits, found {shown(value)}"
        )
    number = int(value)
    if number > INT64_MAX:
        raise RefusalError(
            "TIMER_OVERFLOW", f"{key} {shown(value)} does not fit a signed 64-bit number"
        )
    return number


# A structure of msgspec's for the reason given at `Message`.
class TimerPutResult(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """The result of the admission of one message."""

    result: PutResult
    deliver_ms: int | None = None
    """The moment asked for; None without a delay request."""
    out_ms: int | None = None
    """Slot time; None unless the message waits on the wheel."""
    by_level: bool = False
    rule: str | None = None
    """The rule that refused the message; None when admission let it in."""

    @property
    def is_timer(self) -> bool:
        """Whether the message waits on the wheel."""
        return self.out_ms is not None


@attrs.frozen(eq=False)
class TimerPutColumns:
    """The result of a run of messages: all of them are stored."""

    stored: StoredColumns
    out_ms: NDArray[np.int64] | None
    """Slot times; None unless the messages wait on the wheel."""


def accepted(admitted: Admitted, result: PutResult) -> TimerPutResult:
    """The result of a message that admission let in."""
    return TimerPutResult(
        result=result,
        deliver_ms=admitted.deliver_ms,
        out_ms=admitted.out_ms,
        by_level=admitted.by_level,
    )


def refused(refusal: Refusal, now_ms: int) -> TimerPutResult:
    """The result of one that it refused."""
    return TimerPutResult(
        result=PutResult(
            status=refusal.status,
            phy_offset=-1,
            size=0,
            queue_offset=-1,
            store_ms=now_ms,
            remark=refusal.remark,
        ),
        rule=refusal.rule,
    )
