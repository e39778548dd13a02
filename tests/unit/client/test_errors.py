"""What a server's answer says about a request."""

from __future__ import annotations

import pytest

from timermq.client import BrokerRefusedError, ConnectionLostError, MalformedAnswerError
from timermq.client.errors import check_answer, reading_answer
from timermq.remoting import Command, RemoteProtocolError, ResponseCode


@pytest.mark.parametrize(
    ("remark", "rule"),
    [
        ("TIMER_DELAY_TOO_LONG: the delay is 4 days", "TIMER_DELAY_TOO_LONG"),
        ("[REJECTREQUEST] busy: later", ""),
        ("not: a rule", ""),
        ("NO MARK", ""),
        ("", ""),
    ],
)
def test_rule(remark: str, rule: str) -> None:
    """A remark may begin with the rule's name in capitals and a colon."""
    error = BrokerRefusedError(13, remark)

    assert rule == error.rule
    assert f"refused with code 13: {remark}" == str(error)


def test_only_success_passes() -> None:
    """Any other code is a refusal, with the remark if there is one."""
    answer = Command(0, flag=1)
    assert answer is check_answer(answer)
    with pytest.raises(BrokerRefusedError) as caught:
        check_answer(Command(17, flag=1))

    assert (17, "") == (caught.value.code, caught.value.remark)


def test_protocol_errors_become_ours() -> None:
    """Who uses the client sees one family of errors."""
    with (
        pytest.raises(MalformedAnswerError, match=r"^route of T: BODY: no$"),
        reading_answer("route of T"),
    ):
        raise RemoteProtocolError(ResponseCode.SYSTEM_ERROR, "BODY: no")


def test_outcomes_are_empty_elsewhere() -> None:
    """Only a batch says what became of each message."""
    assert () == ConnectionLostError("x", may_have_arrived=True).outcomes
