"""The answers to a run, joined: each is what the send alone would be answered."""

from __future__ import annotations

import json

import numpy as np
import pytest

from broker_rig import BROKER, commands_in
from timermq.broker.sending.run_answers import run_answers
from timermq.broker.sending.send_request import AddressedRun, AnswerFacts
from timermq.pipeline.admission.admission import TimerPutColumns, TimerPutResult
from timermq.remoting.send_run.send_run import RunForm, SendRun
from timermq.timerstore.byte_columns import Pieces, rows_like
from timermq.timerstore.message import Message, pack_host
from timermq.timerstore.message_columns import MessageColumns, StoredColumns
from timermq.timerstore.put_status import PutResult, PutStatus

HOST = pack_host("127.0.0.1", 10_911)
FACTS = AnswerFacts.of(BROKER, HOST)


def header(number: int) -> bytes:
    """The header of a send with an opaque and a key of its own."""
    fields = {"a": "g", "b": "T", "e": "3", "g": "1700000000000", "i": f"UNIQ_KEY\x01K{number}\x02"}
    front = {"code": 310, "extFields": fields, "flag": 0, "opaque": number, "version": 479}
    return json.dumps(front, separators=(",", ":")).encode()


def addressed(topic: str, count: int) -> AddressedRun:
    """A run of sends, with the opaques 10, 11, ..."""
    headers = [header(10 + number) for number in range(count)]
    form = RunForm.of(headers[0])
    assert form is not None
    starts = np.arange(count, dtype=np.int64)
    rows = np.frombuffer(b"".join(headers), np.uint8).reshape(count, -1)
    run = SendRun(form, rows, b"x" * count, starts, starts + 1)
    key = form.values[0]
    first = Message(topic, 3, b"x", b"UNIQ_KEY\x01K10\x02")
    columns = MessageColumns(
        first=first,
        queue_ids=np.full(count, 3, np.int64),
        bodies=Pieces(run.data, starts, starts + 1),
        properties=rows_like(first.properties, count, []),
        born_ms=np.zeros(count, np.int64),
    )
    return AddressedRun(run=run, columns=columns, topic=topic, unique_keys=run.texts(key.header))


@pytest.mark.parametrize("topic", ["T", "%RETRY%G"])
@pytest.mark.parametrize("first_out_ms", [None, 1_700_000_000_999, 99_999_999_998])
def test_each_answer_is_that_of_its_send_alone(topic: str, first_out_ms: int | None) -> None:
    """Also where numbers of more digits follow: of queue offsets, and of the moments."""
    sent = addressed(topic, 4)
    offsets = np.array([8, 9, 10, 1_000], np.int64)
    places = np.array([0, 512, 1 << 40, 2], np.int64)
    out_ms = None if first_out_ms is None else first_out_ms + np.arange(4, dtype=np.int64)
    answers = run_answers(FACTS, sent, TimerPutColumns(StoredColumns(places, offsets), out_ms))

    expected = [
        FACTS.stored_frame(
            send,
            one,
            TimerPutResult(
                result=PutResult(PutStatus.PUT_OK, int(place), 1, int(offset)),
                out_ms=None if out_ms is None else int(out_ms[number]),
            ),
        )
        for number, (send, one, place, offset) in enumerate(
            zip(sent.run.sends(), sent.each(), places, offsets, strict=True)
        )
    ]
    found = {one.opaque: one for one in commands_in([answers])}
    assert sorted(found) == [10, 11, 12, 13]
    assert [found[one.opaque].ext for one in commands_in(expected)] == [
        one.ext for one in commands_in(expected)
    ]
    assert len(answers) == sum(map(len, expected))


def test_answers_of_one_shape_stay_in_order() -> None:
    """Nearly always that is all of them: no answer overtakes another."""
    sent = addressed("T", 3)
    stored = StoredColumns(np.arange(3, dtype=np.int64), np.arange(3, dtype=np.int64))
    answers = commands_in([run_answers(FACTS, sent, TimerPutColumns(stored, None))])

    assert [one.opaque for one in answers] == [10, 11, 12]
    assert [one.ext["queueOffset"] for one in answers] == ["0", "1", "2"]
