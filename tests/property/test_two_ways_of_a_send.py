"""Two ways of a send: alone or in a run, it is stored and answered as a command would be."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import attrs
from hypothesis import example, given, settings
from hypothesis import strategies as st

from broker_rig import STORE, TIMER, Rig, commands_in
from timermq.broker.refusal import failed_answer
from timermq.pipeline.admission.admission import Admitted, Refusal, TimerAdmission
from timermq.pipeline.records.timer_record import TIMER_TOPIC
from timermq.pipeline.state.timer_options import CONGEST_OFF, TimerOptions
from timermq.remoting import Command, FrameConnection, SendV2, encode_frame
from timermq.remoting.connection import Received
from timermq.timerstore.message import Message
from timermq.timerstore.properties import join_run, validate

NOW_MS = 1_700_000_000_000
FAILED = failed_answer(Command(310)).remark

NAMES = [
    "KEYS", "TAGS", "UNIQ_KEY", "WAIT", "DELAY", "TIMER_DELAY_SEC", "TIMER_DELAY_MS",
    "TIMER_DELIVER_MS", "TIMER_DEL_UNIQKEY", "TIMER_OUT_MS", "REAL_TOPIC", "REAL_QID", "TRAN_MSG",
    "MSG_REGION", "TRACE_ON", "CLUSTER", "POP_CK", "INNER_NUM", "XUNIQ_KEY", "XDELAY",
    "XTIMER_DELAY_MS", "_SYS_MSG_PRIORITY_", "__SHARDINGKEY", "a", "é", "",
]  # fmt: skip
VALUES = [
    "1", "3", "0", "-5", "+7", "1000", "100000000000", str(NOW_MS + 5_000), str(NOW_MS - 1), "true",
    "false", "K1", "a b", "", "x\x00y", "9" * 18, "9" * 19, "9" * 30, "٣", "TIMER_DELAY_MS", "é",
]  # fmt: skip

pieces = st.tuples(st.sampled_from(NAMES), st.sampled_from(VALUES)).map("\x01".join)
odd_pieces = st.sampled_from(["", "\x01", "KEYS", "a\x01b\x01c", "\x7f\x01a"])
fitting_texts = st.tuples(
    st.sampled_from(["TIMER_DELAY_MS\x011000", f"TIMER_DELIVER_MS\x01{NOW_MS + 5}", "TAGS\x01t"]),
    st.sampled_from(["UNIQ_KEY\x01AB12", "UNIQ_KEY\x01k\x02WAIT\x01true", "KEYS\x01k"]),
    st.sampled_from(["", "\x02"]),
).map(lambda parts: f"{parts[0]}\x02{parts[1]}{parts[2]}")
texts = st.one_of(
    fitting_texts,
    st.tuples(fitting_texts, pieces).map("\x02".join),
    st.tuples(pieces, fitting_texts).map("\x02".join),
    st.tuples(st.lists(pieces, max_size=4), st.sampled_from(["", "\x02"])).map(
        lambda parts: "\x02".join(parts[0]) + parts[1]
    ),
    st.lists(odd_pieces | pieces, max_size=4).map("\x02".join),
)

ODD_FIELDS = {
    "a": ["", "é"],
    "b": ["New", "%RETRY%G", "SCHEDULE_TOPIC_XXXX", "a/b"],
    "c": ["none"],
    "d": ["x", "1024", ""],
    "e": ["1", "3", "4", "-1", "+1", "01", "x", "99999999999"],
    "f": ["1", "4", "16", "128", "x", ""],
    "g": ["1", "", "-1", "x", "1_0", "9" * 18, "9" * 20],
    "h": ["-1", "7", "2147483648", ""],
    "j": ["1", "99", ""],
    "l": ["0", "16", "x"],
    "m": ["0", "1", "true", "x", ""],
}
odd_field = st.sampled_from(sorted(ODD_FIELDS)).flatmap(
    lambda name: st.tuples(st.just(name), st.sampled_from(ODD_FIELDS[name]))
)
fields = st.tuples(texts, st.lists(odd_field, max_size=1)).map(
    lambda parts: {"a": "g", "b": "T", "e": "0", "i": parts[0], "j": "0", **dict(parts[1])}
)
bodies = st.sampled_from([b"x", b"body", b"body", b"", bytes(70_000)])
sends = st.tuples(fields, bodies, st.sampled_from([0, 0, 0, 2]))


def frame(opaque: int, send: tuple[dict[str, str], bytes, int]) -> bytes:
    """A send as clients write it."""
    ext, body, flag = send
    header = {"code": 310, "extFields": ext, "flag": flag, "language": "JAVA", "opaque": opaque}
    data = json.dumps({**header, "version": 479}, separators=(",", ":")).encode()
    return (4 + len(data) + len(body)).to_bytes(4) + len(data).to_bytes(4) + data + body


def rig() -> Rig:
    """A broker that knows the topic T with four queues."""
    made = Rig()
    made.send("T")
    return made


def answered(made: Rig, requests: Sequence[Received]) -> list[Command]:
    """The answers to requests; that the broker failed is none, however often it says so."""
    commands = commands_in(made.answers(requests))
    assert FAILED not in [one.remark for one in commands]
    return commands


def in_order(commands: list[Command]) -> list[Command]:
    """By request: which answer of a chunk goes first says nothing."""
    return sorted(commands, key=lambda command: command.opaque)


def log_of(made: Rig) -> bytes:
    """Everything in the commit log."""
    log = made.broker.timer_store.store.commit_log
    return log.read(0, log.max_offset)


@settings(max_examples=500)
@given(st.lists(sends, min_size=1, max_size=3))
def test_sends_are_stored_and_answered_like_commands(
    chunk: list[tuple[dict[str, str], bytes, int]],
) -> None:
    """Answers and log are the same, byte for byte, whichever way a chunk takes."""
    send_frames, command_frames = FrameConnection(), FrameConnection()
    for opaque, send in enumerate(chunk):
        send_frames.receive_data(frame(opaque, send))
        command_frames.receive_data(frame(opaque, send))
    by_send, by_command = rig(), rig()
    requests = send_frames.requests()
    answers = answered(by_send, requests)
    commands = answered(by_command, command_frames.events())

    assert all(isinstance(request, SendV2) for request in requests)
    assert in_order(commands) == in_order(answers)
    assert log_of(by_command) == log_of(by_send)


SMALL_SEGMENTS = attrs.evolve(
    STORE,
    mapped_file_size_commit_log=8_192,
    max_message_size=1_024,
    mapped_file_size_consume_queue=200,
)
run_texts = st.sampled_from(
    [
        "TIMER_DELAY_MS\x01{delay}\x02UNIQ_KEY\x01{key}\x02TAGS\x01t\x02",
        "TIMER_DELAY_SEC\x01{delay}\x02UNIQ_KEY\x01{key}",
        "é\x01ü\x02TIMER_DELIVER_MS\x01{moment}\x02UNIQ_KEY\x01{key}\x02WAIT\x01true",
        "UNIQ_KEY\x01{key}\x02KEYS\x01a b\x02",
        "UNIQ_KEY\x01{key}\x02TAGS\x01t{delay}\x02",
        "TIMER_DELAY_MS\x01{delay}\x02UNIQ_KEY\x01k-{key}\x02",
        "DELAY\x013\x02UNIQ_KEY\x01{key}\x02",
        "TIMER_DELAY_MS\x01{delay}\x02UNIQ_KEY\x01{key}\x02UNIQ_KEY\x01{key}\x02",
        "\x02UNIQ_KEY\x01{key}\x02",
    ]
)
run_sends = st.fixed_dictionaries(
    {
        "delay": st.sampled_from(["1000", "7000", "0000", "00", "99999999", "864000000"]),
        "moment": st.sampled_from([str(NOW_MS + 5), str(NOW_MS + 70_000), str(NOW_MS), "9" * 13]),
        "key": st.sampled_from(["AB12", "cd34", "xy_z", "abcde"]),
        "queue": st.sampled_from(["0", "1", "3", "5", "01"]),
        "born": st.sampled_from([str(NOW_MS), str(NOW_MS - 9), "0" * 13]),
        "body": st.sampled_from([b"x", b"x", b"y", b"body", b"", bytes(2_000)]),
    }
)
fitting_sends = st.fixed_dictionaries(
    {
        "delay": st.sampled_from(["1000", "7000"]),
        "moment": st.sampled_from([str(NOW_MS + 5), str(NOW_MS + 70_000)]),
        "key": st.sampled_from(["AB12", "cd34"]),
        "queue": st.sampled_from(["0", "1", "3"]),
        "born": st.sampled_from([str(NOW_MS), str(NOW_MS - 9)]),
        "body": st.sampled_from([b"x", b"y"]),
    }
)


@settings(max_examples=300)
@given(
    run_texts,
    st.lists(fitting_sends | run_sends, min_size=1, max_size=40),
    st.sampled_from([0, 0, 7, 95, 2**31 - 10]),
    st.sampled_from([0, 0, 0, 2]),
    st.booleans(),
)
def test_runs_are_stored_and_answered_like_commands(
    text: str, chunk: list[dict[str, Any]], opaque: int, flag: int, limited: bool
) -> None:
    """Answers, log, queues and counts are the same, wherever runs begin and end."""
    data = b"".join(
        frame(
            opaque + index,
            (
                {
                    "a": "g",
                    "b": "T",
                    "e": send["queue"],
                    "g": send["born"],
                    "i": text.format_map(send),
                    "j": "0",
                },
                send["body"],
                flag,
            ),
        )
        for index, send in enumerate(chunk)
    )
    timer_options = attrs.evolve(
        TIMER, timer_congest_num_each_slot=2**20 if limited else CONGEST_OFF
    )
    by_run, by_command = (
        Rig(store_options=SMALL_SEGMENTS, timer_options=timer_options) for _ in range(2)
    )
    by_run.send("T")
    by_command.send("T")
    run_frames, command_frames = FrameConnection(run_count_min=2), FrameConnection()
    run_frames.receive_data(data)
    command_frames.receive_data(data)
    answers = answered(by_run, run_frames.requests())
    commands = answered(by_command, command_frames.events())

    assert in_order(commands) == in_order(answers)
    assert log_of(by_command) == log_of(by_run)
    for queue_id in range(4):
        assert units_of(by_command, "T", queue_id) == units_of(by_run, "T", queue_id)
    assert units_of(by_command, TIMER_TOPIC, 0) == units_of(by_run, TIMER_TOPIC, 0)
    for key in ("AB12", "cd34", "a"):
        assert found_by_key(by_command, key) == found_by_key(by_run, key)
    expected, found = (made.broker.timer_store for made in (by_command, by_run))
    assert expected.admission.counts == found.admission.counts
    assert expected.store.statistics() == found.store.statistics()


@given(run_texts, st.lists(fitting_sends, min_size=2, max_size=40), st.sampled_from([0, 7, 95]))
def test_the_answers_to_a_run_are_those_to_its_sends(
    text: str, chunk: list[dict[str, Any]], opaque: int
) -> None:
    """Byte for byte, in order: one template writes both."""
    data = b"".join(
        frame(
            opaque + index,
            (
                {
                    "a": "g",
                    "b": "T",
                    "e": send["queue"],
                    "g": send["born"],
                    "i": text.format_map(send),
                },
                send["body"],
                0,
            ),
        )
        for index, send in enumerate(chunk)
    )
    by_run, by_send = rig(), rig()
    run_frames, send_frames = FrameConnection(run_count_min=2), FrameConnection()
    run_frames.receive_data(data)
    send_frames.receive_data(data)
    runs, sends = run_frames.requests(), send_frames.requests()

    assert all(isinstance(send, SendV2) for send in sends)
    assert frames_of(by_run, runs) == frames_of(by_send, sends)
    assert log_of(by_run) == log_of(by_send)


def frames_of(made: Rig, requests: list[Received]) -> bytes:
    """The answers to requests, as they go to the peer."""
    answers = made.answers(requests)
    assert FAILED not in [one.remark for one in commands_in(answers)]
    return b"".join(
        answer if isinstance(answer, bytes) else encode_frame(answer) for answer in answers
    )


def units_of(made: Rig, topic: str, queue_id: int) -> list[tuple[int, ...]]:
    """All units of a queue, whatever the segments that they stand in."""
    queue = made.broker.timer_store.store.queue(topic, queue_id)
    units: list[tuple[int, ...]] = []
    while queue is not None and len(part := queue.units(len(units), 100)):
        units += part.tolist()
    return units


def found_by_key(made: Rig, key: str) -> list[bytes]:
    """The records that the index has for a key."""
    store = made.broker.timer_store.store
    return [
        record for topic in ("T", TIMER_TOPIC) for record in store.query(topic, key, count_max=64)
    ]


@given(st.lists(texts.map(str.encode), max_size=5))
def test_joined_texts_fit_into_a_run_only_if_each_is_well_formed(found: list[bytes]) -> None:
    """No text hides behind its neighbours."""
    joined = join_run(found)

    if joined is not None:
        assert [validate(text) for text in found] == [None] * len(found)
    for text in found:
        alone = join_run([text])
        assert joined is None or alone is not None


@settings(max_examples=500)
@given(st.lists(texts.map(str.encode), max_size=3))
@example([b"XTIMER_DELAY_MS\x011000\x02"])
def test_admission_of_many_is_that_of_each(found: list[bytes]) -> None:
    """One batch or one by one: the same decisions and counts."""
    together = TimerAdmission(TimerOptions(), lambda _: False)
    alone = TimerAdmission(TimerOptions(), lambda _: False)
    messages = [Message("T", 0, b"x", text) for text in found]

    decisions = together.admit_all(messages, NOW_MS)

    assert [shown(alone.admit(one, NOW_MS)) for one in messages] == [shown(d) for d in decisions]
    assert alone.counts == together.counts


def shown(decision: Admitted | Refusal) -> object:
    """A decision as something that compares."""
    if isinstance(decision, Refusal):
        return decision
    message = decision.message
    return (
        message.topic,
        message.queue_id,
        message.properties,
        decision.deliver_ms,
        decision.out_ms,
        decision.by_level,
    )
