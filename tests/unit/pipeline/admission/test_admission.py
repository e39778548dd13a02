"""The admission routine: what is let in, turned towards the wheel, or refused by which rule."""

from __future__ import annotations

import pytest

from timermq.pipeline.admission.admission import Admitted, Refusal, TimerAdmission
from timermq.pipeline.records.timer_record import TIMER_TOPIC, own_properties
from timermq.pipeline.state.timer_options import TimerOptions
from timermq.timerstore.message import Message
from timermq.timerstore.properties import find, parse
from timermq.timerstore.put_status import PutStatus

NOW_MS = 1_700_000_000_500


def props(**pairs: str) -> bytes:
    """Property text of pairs, in their order."""
    return "".join(f"{name}\x01{value}\x02" for name, value in pairs.items()).encode()


def admission(*, congested: bool = False, wheel: bool = True) -> TimerAdmission:
    """An admission routine whose slots are congested or not, with the wheel on or off."""
    return TimerAdmission(TimerOptions(timer_wheel_enable=wheel), lambda _: congested)


def admit(properties: bytes, *, congested: bool = False, wheel: bool = True) -> Admitted | Refusal:
    """The decision on a message with these properties."""
    message = Message(topic="T", queue_id=3, body=b"x", properties=properties)
    return admission(congested=congested, wheel=wheel).admit(message, NOW_MS)


def admitted(properties: bytes) -> Admitted:
    """The decision, which must be to let the message in."""
    decision = admit(properties)

    assert isinstance(decision, Admitted), decision
    return decision


def refused(properties: bytes, *, congested: bool = False, wheel: bool = True) -> Refusal:
    """The decision, which must be a refusal."""
    decision = admit(properties, congested=congested, wheel=wheel)

    assert isinstance(decision, Refusal), decision
    return decision


def test_plain_message_stays() -> None:
    """A message without a delay request is stored as it came."""
    decision = admitted(props(UNIQ_KEY="U", TAGS="a"))

    assert (decision.message.topic, decision.message.queue_id) == ("T", 3)
    assert decision.deliver_ms is None


@pytest.mark.parametrize(
    ("properties", "deliver_ms"),
    [
        (props(TIMER_DELIVER_MS=str(NOW_MS + 1)), NOW_MS + 1),
        (props(TIMER_DELAY_MS="1500"), NOW_MS + 1500),
        (props(TIMER_DELAY_SEC="3"), NOW_MS + 3000),
        (props(DELAY="2"), NOW_MS + 5000),
        (props(TIMER_DELAY_SEC="3", TIMER_DELAY_MS="bad", TIMER_DELIVER_MS="1"), NOW_MS + 3000),
        (props(TIMER_DELAY_MS="20", TIMER_DELIVER_MS="1"), NOW_MS + 20),
        (props(DELAY="0", TIMER_DELAY_MS="20"), NOW_MS + 20),
        (props(DELAY="-4", TIMER_DELAY_MS="20"), NOW_MS + 20),
        (props(DELAY="1", TIMER_DELAY_MS="99000"), NOW_MS + 1000),
    ],
)
def test_moment(properties: bytes, deliver_ms: int) -> None:
    """Level before seconds before milliseconds before the absolute moment."""
    decision = admitted(properties)

    assert deliver_ms == decision.deliver_ms
    assert (decision.message.topic, decision.message.queue_id) == (TIMER_TOPIC, 0)


@pytest.mark.parametrize(
    ("deliver_ms", "out_ms"),
    [
        (1_700_000_003_000, 1_700_000_002_000),
        (1_700_000_003_001, 1_700_000_003_000),
        (1_700_000_003_999, 1_700_000_003_000),
        (1_700_000_004_000, 1_700_000_003_000),
    ],
)
def test_slot(deliver_ms: int, out_ms: int) -> None:
    """The slot is the greatest multiple of the precision below the moment, as in RocketMQ."""
    assert out_ms == admitted(props(TIMER_DELIVER_MS=str(deliver_ms))).out_ms


def test_tail() -> None:
    """The timer's properties follow the producer's own, in fixed order and width."""
    decision = admitted(props(A="1", TIMER_DELIVER_MS="1700000003001", B="2"))

    assert decision.message.properties == (
        b"A\x011\x02B\x012\x02TIMER_DELIVER_MS\x011700000003001\x02REAL_TOPIC\x01T\x02"
        b"REAL_QID\x013\x02TIMER_OUT_MS\x011700000003000\x02"
    )


def test_missing_last_separator() -> None:
    """A property text without its last separator is completed, not glued to ours."""
    decision = admitted(b"TIMER_DELAY_MS\x0110\x02A\x011")

    assert decision.message.properties.startswith(
        b"TIMER_DELAY_MS\x0110\x02A\x011\x02TIMER_DELIVER_MS\x01"
    )


def test_level_removes_timer_keys() -> None:
    """A level wins over the timer properties and removes them, as RocketMQ does, and stays.

    The last value counts: RocketMQ's wheel would delay a message with a level again when it is due,
    and lose its topic when it rolls.
    """
    decision = admitted(props(DELAY="1", TIMER_DELAY_SEC="7", TIMER_DELAY_MS="8", A="b"))

    assert decision.by_level
    assert decision.message.properties.startswith(b"A\x01b\x02DELAY\x011\x02TIMER_DELIVER_MS\x01")
    assert find(decision.message.properties, b"DELAY") == b"0"


@pytest.mark.parametrize(
    ("asked", "kept"), [("3", b"3"), ("+3", b"3"), ("003", b"3"), ("99", b"18")]
)
def test_the_level_that_counts_is_kept(asked: str, kept: bytes) -> None:
    """As a number of digits, and not above the highest, as RocketMQ writes it."""
    decision = admitted(props(DELAY="7", A="b") + props(DELAY=asked))

    assert find(own_properties(decision.message.properties), b"DELAY") == kept


def test_level_above_top_clamps() -> None:
    """A level above the highest counts as the highest, and is counted."""
    door = admission()
    decision = door.admit(Message(topic="T", queue_id=0, body=b"", properties=props(DELAY="99")), 0)

    assert isinstance(decision, Admitted)
    assert decision.deliver_ms == 7_200_000
    assert door.counts.levels_clamped == 1


@pytest.mark.parametrize(
    "properties",
    [props(TIMER_DELIVER_MS="0"), props(TIMER_DELAY_MS="0"), props(TIMER_DELIVER_MS=str(NOW_MS))],
)
def test_past_is_due_now(properties: bytes) -> None:
    """A moment already past is due now: the message goes straight to its topic, untouched."""
    decision = admitted(properties)

    assert ("T", properties) == (decision.message.topic, decision.message.properties)
    assert decision.out_ms is None


@pytest.mark.parametrize(
    ("properties", "rule"),
    [
        (props(TIMER_DELIVER_MS="tomorrow"), "TIMER_NOT_A_NUMBER"),
        (props(TIMER_DELIVER_MS="1.5"), "TIMER_NOT_A_NUMBER"),
        (props(TIMER_DELAY_SEC="-1"), "TIMER_NEGATIVE"),
        (props(TIMER_DELIVER_MS="-1700000000000"), "TIMER_NEGATIVE"),
        (props(TIMER_DELIVER_MS="9223372036854775808"), "TIMER_OVERFLOW"),
        (props(TIMER_DELAY_SEC="9223372036854775"), "TIMER_OVERFLOW"),
        (props(TIMER_DELAY_SEC="9223372036854775807"), "TIMER_OVERFLOW"),
        (props(TIMER_DELAY_MS="9223372036854775807"), "TIMER_OVERFLOW"),
        (props(TIMER_DELAY_SEC="259201"), "TIMER_DELAY_TOO_LONG"),
        (props(TIMER_DELIVER_MS=str(NOW_MS + 259_200_001)), "TIMER_DELAY_TOO_LONG"),
        (props(DELAY="three"), "DELAY_LEVEL"),
        (props(DELAY="2147483648"), "DELAY_LEVEL"),
        (props(TIMER_OUT_MS="1"), "INTERNAL_PROPERTY"),
        (props(REAL_TOPIC="Other"), "INTERNAL_PROPERTY"),
        (props(A="1", REAL_QID="0"), "INTERNAL_PROPERTY"),
        (props(TIMER_ROLL_TIMES="1", TIMER_DELAY_MS="5"), "INTERNAL_PROPERTY"),
        (props(TIMER_DEL_UNIQKEY="T+U"), "DELETE_WITHOUT_TIME"),
        (props(TIMER_DEL_UNIQKEY="T+U", TIMER_DELIVER_MS="5"), "DELETE_TOO_LATE"),
        (b"no separator", "PROPERTY_TEXT"),
        (b"\x01value\x02", "PROPERTY_TEXT"),
        (b"a\x011\x022\x01\x01\x02", "PROPERTY_TEXT"),
        (b"a\x011\x02\x02b\x012\x02", "PROPERTY_TEXT"),
        (props(TIMER_DELAY_MS="5", A="x" * 32_600), "PROPERTIES_SIZE"),
    ],
)
def test_refused(properties: bytes, rule: str) -> None:
    """What cannot be honoured is refused by the rule's name and value; nothing is reinterpreted."""
    refusal = refused(properties)

    assert rule == refusal.rule
    assert refusal.remark.startswith(f"{rule}: ")


def test_exactly_the_maximum_is_allowed() -> None:
    """A delay of exactly timerMaxDelaySec is accepted."""
    assert admitted(props(TIMER_DELAY_SEC="259200")).deliver_ms == NOW_MS + 259_200_000


@pytest.mark.parametrize(
    "properties",
    [
        props(TIMER_DELAY_MS="5"),
        props(TIMER_DELAY_SEC="5"),
        props(TIMER_DELIVER_MS=str(NOW_MS + 5)),
        props(DELAY="0", TIMER_DELAY_MS="5"),
    ],
)
def test_wheel_disabled(properties: bytes) -> None:
    """With the wheel switched off a delay is refused by a status of its own."""
    refusal = refused(properties, wheel=False)

    assert refusal.status == PutStatus.WHEEL_TIMER_NOT_ENABLE


def test_levels_need_no_wheel_to_be_enabled() -> None:
    """RocketMQ's levels do not go by its wheel; a level wins over the timer properties here too."""
    plain = admit(props(DELAY="3"), wheel=False)
    both = admit(props(DELAY="3", TIMER_DELAY_MS="5"), wheel=False)

    for decision in (plain, both):
        assert isinstance(decision, Admitted)
        assert (decision.deliver_ms, decision.by_level) == (NOW_MS + 10_000, True)


def test_what_is_due_needs_no_wheel_to_be_enabled() -> None:
    """It is stored as any other message."""
    decision = admit(props(TIMER_DELIVER_MS=str(NOW_MS)), wheel=False)

    assert isinstance(decision, Admitted)
    assert decision.out_ms is None


def test_a_delete_for_a_congested_slot() -> None:
    """What cancels a message is let in where no other would be: it makes room."""
    delete = props(TIMER_DELAY_MS="5", TIMER_DEL_UNIQKEY="T+K")

    assert isinstance(admit(delete, congested=True), Admitted)


@pytest.mark.parametrize("named", ["T+K", "K"])
@pytest.mark.parametrize(
    ("own", "found"),
    [
        ({}, {"UNIQ_KEY": "K"}),
        ({"UNIQ_KEY": "K"}, {"UNIQ_KEY": "K"}),
        ({"UNIQ_KEY": "mine"}, {"UNIQ_KEY": "K", "KEYS": "mine"}),
        ({"UNIQ_KEY": "mine", "KEYS": "a b"}, {"UNIQ_KEY": "K", "KEYS": "a b mine"}),
    ],
)
def test_a_delete_is_found_by_the_key_of_its_target(
    own: dict[str, str], found: dict[str, str], named: str
) -> None:
    """As one of RocketMQ's recall is: whatever looks for the message meets it."""
    delete = admitted(props(**own, TIMER_DEL_UNIQKEY=named, TIMER_DELAY_MS="5", A="1"))

    stored = parse(delete.message.properties)
    assert {name: stored[name] for name in ("UNIQ_KEY", "KEYS") if name in stored} == found
    assert (stored["TIMER_DEL_UNIQKEY"], stored["A"]) == ("T+K", "1")


@pytest.mark.parametrize("named", ["V+K", "+K", "V+T+K"])
def test_a_delete_of_another_topic(named: str) -> None:
    """Its sender has the right to its own topic alone."""
    refusal = refused(props(TIMER_DEL_UNIQKEY=named, TIMER_DELAY_MS="5"))

    assert (refusal.rule, refusal.status) == ("DELETE_TOPIC", PutStatus.MESSAGE_ILLEGAL)


@pytest.mark.parametrize("topic", ["RMQ_SYS_TRACE_TOPIC", "rmq_sys_TRACE_DATA_region"])
@pytest.mark.parametrize(
    "asked",
    [
        {"TIMER_DELAY_MS": "5"},
        {"TIMER_DELIVER_MS": str(NOW_MS + 5)},
        {"DELAY": "3"},
        {"TIMER_DEL_UNIQKEY": "K", "TIMER_DELAY_MS": "5"},
        {"TRAN_MSG": "true"},
        {"REPLY_TO_CLIENT": "C"},
        {"REAL_TOPIC": "V"},
    ],
    ids=str,
)
def test_what_a_trace_may_not_carry(topic: str, asked: dict[str, str]) -> None:
    """Any account may write it: it takes no timers, no deletes, no transactions."""
    message = Message(topic, 0, b"body", props(**asked))
    (decision,) = admission().admit_all([message], NOW_MS)

    assert isinstance(decision, Refusal)
    assert decision.rule == "TRACE_PLAIN"


def test_a_trace() -> None:
    """As RocketMQ's clients write it."""
    message = Message("RMQ_SYS_TRACE_TOPIC", 0, b"body", props(KEYS="a b", UNIQ_KEY="U"))
    (decision,) = admission().admit_all([message], NOW_MS)

    assert isinstance(decision, Admitted)
    assert (decision.message, decision.deliver_ms) == (message, None)


def test_congested_slot() -> None:
    """A congested slot refuses with the status for flow control."""
    refusal = refused(props(TIMER_DELAY_MS="5"), congested=True)

    assert refusal.status == PutStatus.WHEEL_TIMER_FLOW_CONTROL


def test_a_congested_slot_refuses_of_many_only_its_own() -> None:
    """However ordinary the messages are; the slot is asked once a message, and each is counted."""
    asked: list[int] = []

    def is_congested(slot_ms: int) -> bool:
        asked.append(slot_ms)
        return slot_ms == NOW_MS - 500 + 5_000

    door = TimerAdmission(TimerOptions(), is_congested)
    messages = [
        Message("T", 0, b"x", props(UNIQ_KEY="U", TIMER_DELAY_MS=str(delay_ms)))
        for delay_ms in (4_000, 5_000, 5_100, 6_000)
    ]
    decisions = door.admit_all(messages, NOW_MS)

    assert [False, True, True, False] == [isinstance(one, Refusal) for one in decisions]
    assert {"TIMER_FLOW_CONTROL": 2} == door.counts.refused
    assert 4 == len(asked)


def test_timer_topic_is_closed() -> None:
    """No client writes to the timer topic itself."""
    decision = admission().admit(Message(topic=TIMER_TOPIC, queue_id=0, body=b""), NOW_MS)

    assert isinstance(decision, Refusal)
    assert decision.rule == "INTERNAL_TOPIC"


def test_refusals_are_counted() -> None:
    """Each refusal is counted under its rule."""
    door = admission()
    for _ in range(2):
        door.admit(Message(topic="T", queue_id=0, body=b"", properties=props(DELAY="x")), NOW_MS)

    assert door.counts.refused == {"DELAY_LEVEL": 2}
