"""Tests of signatures of runs: what each send says by itself, the run says of it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import attrs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from signed import sign
from timermq.remoting import Command, FrameConnection, SendHeader, encode_frame
from timermq.remoting.send_run.send_run import SendRun
from timermq.remoting.send_run.signed_run import SignedRunForm, requests_of
from timermq.remoting.send_run.signed_send_v2 import SignedSendV2, decode_signed_send_v2
from timermq.remoting.signature import SIGNATURE, signed_content

COUNT = 12


def commands(
    count: int = COUNT, *, more: str = "", ext: Mapping[str, str] | None = None
) -> list[Command]:
    """Signed sends of one form, as a busy producer makes them."""
    return [
        sign(
            Command(
                310,
                opaque=100 + number,
                ext=SendHeader(
                    topic="T",
                    queue_id=number % 4,
                    producer_group="PG",
                    born_ms=1_700_000_000_000 + number,
                    properties=f"UNIQ_KEY\x01{number:032X}\x02{more}WAIT\x01true\x02".encode(),
                ).to_v2()
                | dict(ext or {}),
                body=b"body %d" % number,
            ),
            "producer",
        )
        for number in range(count)
    ]


def received(sends: Sequence[Command]) -> list[object]:
    """What a broker with access control reads of them."""
    connection = FrameConnection(decode_send=decode_signed_send_v2, run_count_min=4)
    connection.receive_data(b"".join(map(encode_frame, sends)))
    return list(connection.requests())


def run_of(sends: Sequence[Command]) -> SendRun:
    """The one run that they are."""
    (run,) = received(sends)
    assert isinstance(run, SendRun)
    assert len(run) == len(sends)
    return run


@pytest.mark.parametrize(
    "ext",
    [
        {},
        {"OnsChannel": "ALIYUN", "SecurityToken": "token"},
        {"n": "broker-a", "l": "16"},
        {"a": 'quo"te', "c": "Größe\\"},
    ],
)
def test_the_columns_say_what_the_sends_say(ext: dict[str, str]) -> None:
    """Contents and signatures, with every parameter that a client may add."""
    sends = commands(more="TIMER_DELAY_MS\x0112345\x02TAGS\x01ä\x02", ext=ext)
    run = run_of(sends)
    signed = SignedRunForm.of(run.form)
    assert signed is not None

    assert list(signed.contents(run)) == [
        signed_content(one.ext, one.body, one.version) for one in sends
    ]
    assert signed.signatures(run) == [one.ext[SIGNATURE].encode() for one in sends]


def test_one_by_one_they_are_as_they_came() -> None:
    """Each send of a run becomes its command again, with all parameters."""
    sends = commands()
    requests = requests_of(run_of(sends))

    assert all(isinstance(one, SignedSendV2) for one in requests)
    for request, send in zip(requests, sends, strict=True):
        command = request.to_command() if isinstance(request, SignedSendV2) else request
        assert (command.ext, command.body, command.opaque) == (send.ext, send.body, send.opaque)


def test_an_unknown_parameter_makes_no_signed_form() -> None:
    """Its sends are looked at one by one."""
    run = run_of(commands(ext={"another": "x"}))

    assert SignedRunForm.of(run.form) is None
    assert all(isinstance(one, Command) for one in requests_of(run))


def test_unsigned_sends_make_no_signed_form() -> None:
    """A run without signatures has no signed form."""
    sends = [
        attrs.evolve(one, ext={k: v for k, v in one.ext.items() if k != SIGNATURE})
        for one in commands()
    ]

    assert SignedRunForm.of(run_of(sends).form) is None


@given(
    st.text(st.characters(codec="utf-8", exclude_characters="\x01\x02"), max_size=5),
    st.text(st.characters(codec="utf-8"), max_size=5),
)
def test_contents_for_any_texts(tag: str, group: str) -> None:
    """Whatever stands around the places, or there is no signed form."""
    sends = commands(6, more=f"TAGS\x01{tag}\x02", ext={"a": group})
    for one in received(sends):
        if isinstance(one, SendRun):
            signed = SignedRunForm.of(one.form)
            if signed is not None:
                assert list(signed.contents(one)) == [
                    signed_content(send.ext, send.body, send.version) for send in sends
                ]
