"""Tests of runs of sends: which headers have one form, and which places may differ."""

from __future__ import annotations

import json

import numpy as np
import pytest

from timermq.remoting import Command, FrameConnection
from timermq.remoting.connection import RUN_COUNT_MIN, one_by_one
from timermq.remoting.send_run.send_run import Rows, RunForm, SendRun
from timermq.remoting.send_run.send_v2 import SendV2

TEXT = "TIMER_DELAY_MS\x011000\x02UNIQ_KEY\x01AB12\x02user\x017\x02"
FIELDS = {"a": "g", "b": "T", "e": "10", "g": "1700000000000", "h": "0", "i": TEXT, "j": "0"}


def header(opaque: int = 17, **fields: str) -> bytes:
    """A header as clients write it."""
    front = {"code": 310, "extFields": {**FIELDS, **fields}, "flag": 0, "opaque": opaque}
    return json.dumps({**front, "version": 479}, separators=(",", ":")).encode()


def rows(*headers: bytes) -> Rows:
    """Headers of one size as rows."""
    return np.frombuffer(b"".join(headers), np.uint8).reshape(len(headers), -1)


def form_of(text: bytes) -> RunForm:
    """The form of a header that has one."""
    form = RunForm.of(text)
    assert form is not None
    return form


def test_the_places_of_a_form_hold_what_its_fields_say() -> None:
    """Numbers of the header, and of the properties those that the broker looks at."""
    data, form = header(), form_of(header())
    text = form.send.fields.properties.encode()

    assert [data[place] for place in (form.opaque, form.queue_id, form.born_ms)] == [
        b"17",
        b"10",
        b"1700000000000",
    ]
    assert [(one.name, data[one.header], text[one.text]) for one in form.values] == [
        (b"TIMER_DELAY_MS", b"1000", b"1000"),
        (b"UNIQ_KEY", b"AB12", b"AB12"),
    ]


def test_a_run_ends_before_the_first_header_that_says_something_else() -> None:
    """Other letters and digits in the places keep the form; anything else is not."""
    form = form_of(header())
    same = header(
        99, e="42", g="1800000000001", i=TEXT.replace("1000", "0007").replace("AB12", "zZ90")
    )
    others = [
        header(b="S"),
        header(i=TEXT.replace("AB12", "A_12")),
        header(i=TEXT.replace("1000", "1e00")),
        header(i=TEXT.replace("user\x017", "user\x018")),
        header(e="01"),
        header(g="0700000000000"),
        header().replace(b":17,", b":07,"),
        header().replace(b"extFields", b"extfields"),
    ]

    assert form.run_length(rows(header(), same)) == 2
    for other in others:
        assert form.run_length(rows(header(), same, other, same)) == 2


@pytest.mark.parametrize(
    "odd",
    [
        b"{}",
        header(e="+1"),
        header(e="01"),
        header(g="17"),
        header(i='quo"te\x011\x02'),
        header().replace(b'"e":"10"', b'"e":"10","e":"11"'),
        header().replace(b'"e":"10"', b'"e":"10","e" : "11"'),
        header().replace(b'"opaque":17', b'"opaque":17.0'),
        header().replace(b"310", b"10"),
        header(i="user\x01a\\u0002b\x02UNIQ_KEY\x01AB12\x02"),
    ],
)
def test_an_odd_header_has_no_form(odd: bytes) -> None:
    """It is read by itself."""
    assert RunForm.of(odd) is None


def frames(*headers: bytes, body: bytes = b"body") -> bytes:
    """Frames with these headers, one behind the other, all with one body."""
    return b"".join(
        (4 + len(one) + len(body)).to_bytes(4) + len(one).to_bytes(4) + one + body
        for one in headers
    )


def test_sends_of_one_form_are_received_as_one() -> None:
    """From so many on that it is worth it; the frames around them are received one by one."""
    many = [header(100 + index) for index in range(RUN_COUNT_MIN + 1)]
    data = frames(header(7)) + frames(*many) + frames(header(8))[:-1]
    connection = FrameConnection()
    connection.receive_data(data)
    received = connection.requests()
    alone = FrameConnection()
    alone.receive_data(data)

    assert [type(one) for one in received] == [SendV2, SendRun]
    assert [one.opaque for one in one_by_one(received)] == [7, *range(100, 101 + RUN_COUNT_MIN)]
    assert [as_command(one) for one in one_by_one(received)] == [
        as_command(one) for one in alone.events()
    ]


def test_runs_end_where_another_form_begins() -> None:
    """Each form is a run of its own, also when the headers have one size."""
    connection = FrameConnection(run_count_min=2)
    connection.receive_data(frames(*[header(b=topic) for topic in "TTTSST"]))

    assert [
        (len(one), one.form.send.fields.topic) if isinstance(one, SendRun) else type(one)
        for one in connection.requests()
    ] == [(3, "T"), (2, "S"), SendV2]


def test_sends_that_are_no_run_go_to_the_reader_of_sends() -> None:
    """The broker with access control has another one; runs it looks at as a whole."""
    connection = FrameConnection(decode_send=lambda _: None, run_count_min=60)
    connection.receive_data(frames(*[header()] * 50))

    assert {type(one) for one in connection.requests()} == {Command}


def as_command(request: SendV2 | Command) -> tuple[int, dict[str, str], bytes]:
    """What a request says, whichever way it was read."""
    command = request if isinstance(request, Command) else request.to_command()
    return command.opaque, {name: command.ext[name] for name in FIELDS}, command.body
