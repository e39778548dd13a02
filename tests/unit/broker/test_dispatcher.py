"""Tests of bringing requests to processors."""

import pytest
from structlog.testing import capture_logs

from broker_rig import PROPERTIES, RecordingSession, Rig, commands_in, pull_ext, send_ext
from timermq.broker.admin.client_calls import ClientCalls
from timermq.broker.client_registry import ClientRegistry
from timermq.broker.sending.send_processor import SendProcessor
from timermq.broker.speaker import UNLIMITED
from timermq.remoting import (
    Command,
    FrameConnection,
    LanguageCode,
    RequestCode,
    ResponseCode,
    SendHeader,
    encode_frame,
)
from timermq.remoting.send_run.send_run import SendRun
from timermq.remoting.send_run.send_v2 import SendV2


@pytest.mark.parametrize("code", [0, -1, 13, 308, 400, 9_999, 200_050])
async def test_codes_that_are_not_served(code: int) -> None:
    """They are answered with 3, never left without an answer."""
    answer = Rig().call(code)

    assert answer.code == 3
    assert answer.remark is not None
    assert answer.remark.startswith("REQUEST_CODE: ")
    assert str(code) in answer.remark


async def test_one_way_requests_are_never_answered() -> None:
    """Neither done, nor refused, nor unknown ones."""
    rig = Rig()
    rig.send("T")
    commit = {"topic": "T", "queueId": "0", "consumerGroup": "G", "commitOffset": "1"}

    assert rig.handle(rig.command(15, commit, flag=2)) == []
    assert rig.handle(rig.command(15, {}, flag=2)) == []
    assert rig.handle(rig.command(999, flag=2)) == []
    assert rig.broker.tables.offsets.query(group="G", topic="T", queue_id=0) == 1


async def test_answers_to_our_own_calls_are_ignored() -> None:
    """No request waits for them."""
    rig = Rig()

    assert rig.handle(rig.command(0, flag=1)) == []


async def test_a_chunk_is_one_batch() -> None:
    """Sends go first, together; every other request of the chunk sees what they stored."""
    rig = Rig()
    answers = rig.handle(
        rig.command(30, {"topic": "T", "queueId": "0"}),
        rig.command(10, send_ext("T"), b"one"),
        rig.command(11, pull_ext("T")),
        rig.command(10, send_ext("T"), b"two"),
    )

    assert [one.opaque for one in answers] == [2, 4, 1, 3]
    assert answers[2].ext == {"offset": "2"}
    assert answers[3].ext["nextBeginOffset"] == "2"


async def test_who_asks_is_known_from_the_newest_request() -> None:
    """Language and version of a connection are those of its client."""
    rig = Rig()
    rig.handle(rig.command(999, language=LanguageCode.CPP, version=63))

    assert rig.peer.session.is_cpp
    assert rig.peer.session.version == 63


async def test_requests_are_counted_by_code() -> None:
    """Codes that are not served share one count: they cannot make the table grow."""
    rig = Rig()
    rig.send("T")
    rig.call(999)
    rig.call(998)

    assert rig.broker.statistics().requests == {10: 1, -1: 2}


async def test_our_own_mistakes_are_answered_and_logged() -> None:
    """A processor that fails does not take the connection or the other requests with it."""
    rig = Rig()
    await rig.broker.store.aclose()
    rig.broker.dispatcher.handlers[30] = _fail
    with capture_logs() as logs:
        answer = rig.call(30)

    assert (answer.code, answer.remark) == (
        1,
        "SYSTEM_ERROR: the broker failed, see its log",
    )
    assert [(one["event"], one["code"]) for one in logs] == [("request failed", 30)]


def _fail(_session: object, _command: Command) -> Command:
    raise ZeroDivisionError


async def test_a_mistake_with_a_client_s_answer_ends_its_connection_alone(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """No answer is known that does it, so one is made; what came with it before is done."""
    rig = Rig()
    bad, good = RecordingSession(), RecordingSession()
    monkeypatch.setattr(ClientCalls, "answered", _fail_on_answer)
    with capture_logs() as logs:
        answers = rig.broker.dispatcher.handle_all(
            [
                (
                    bad.session,
                    [rig.command(10, send_ext("T"), b"one"), rig.command(0, flag=1)],
                ),
                (good.session, [rig.command(10, send_ext("T"), b"two")]),
            ]
        )

    assert [session for session, _ in answers] == [bad.session, good.session]
    assert (bad.closed_for, good.closed_for) == ("failed", None)
    assert [record.body for record in rig.records("T")] == [b"one", b"two"]
    assert [one["event"] for one in logs if one["log_level"] == "error"] == ["connection failed"]


def _fail_on_answer(_calls: ClientCalls, _session: object, _answer: Command) -> None:
    raise ZeroDivisionError


def run_of_sends(count: int = 40) -> SendRun:
    """Sends of one form, read together."""
    connection = FrameConnection(run_count_min=8)
    for number in range(count):
        header = SendHeader(
            topic="T",
            queue_id=0,
            born_ms=1_700_000_000_000 + number,
            properties=PROPERTIES.encode(),
        )
        command = Command(310, opaque=100 + number, ext=header.to_v2(), body=b"x")
        connection.receive_data(encode_frame(command))
    (run,) = [one for one in connection.requests() if isinstance(one, SendRun)]
    return run


async def test_sends_that_cannot_even_be_refused_end_their_connection(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """No run is known that cannot be read one by one, so reading is made to fail."""
    rig = Rig()
    bad, good = RecordingSession(), RecordingSession()
    run = run_of_sends()

    def sends(_run: SendRun) -> list[SendV2]:
        raise AssertionError("a header of a proven form")

    def handle(_processor: SendProcessor, _sends: object) -> None:
        raise AssertionError("a header of a proven form")

    monkeypatch.setattr(SendRun, "sends", sends)
    monkeypatch.setattr(SendProcessor, "handle", handle)
    with capture_logs() as logs:
        answers = rig.broker.dispatcher.handle_all(
            [(bad.session, [run]), (good.session, [rig.command(10, send_ext("T"))])]
        )

    ((session, answer),) = answers
    assert session is good.session
    assert [one.code for one in commands_in([answer])] == [1]
    assert (bad.closed_for, good.closed_for) == ("failed", None)
    assert [(one["event"], one.get("count")) for one in logs] == [
        ("sends failed", len(run) + 1),
        ("connection failed", None),
    ]


async def test_the_end_of_a_connection_is_the_end_of_its_pulls_and_registrations() -> None:
    """What belonged to it is forgotten at once."""
    rig, peer = Rig(), RecordingSession()
    rig.send("T")
    heartbeat = b'{"clientID":"c","producerDataSet":[{"groupName":"P"}]}'
    rig.call(34, body=heartbeat, peer=peer)
    wanted = pull_ext("T", sysFlag="6", queueOffset="1")
    assert rig.handle(rig.command(11, wanted), peer=peer) == []
    rig.broker.dispatcher.close(peer.session)

    assert not peer.session.is_open
    assert rig.broker.tables.long_polling.held == 0
    assert rig.broker.tables.clients.producers("P") == {}


async def test_a_mistake_about_a_peer_that_has_gone_stays_with_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """What else can be forgotten is, and nothing is raised into the task of its connection."""
    rig, peer = Rig(), RecordingSession()
    rig.send("T")
    rig.handle(rig.command(11, pull_ext("T", sysFlag="6", queueOffset="1")), peer=peer)
    monkeypatch.setattr(ClientRegistry, "drop", _fail)
    with capture_logs() as logs:
        rig.broker.dispatcher.close(peer.session)

    assert not peer.session.is_open
    assert rig.broker.tables.long_polling.held == 0
    assert [one["event"] for one in logs] == ["connection not forgotten whole"]


async def test_a_long_filter_is_compiled_in_steps_of_its_own() -> None:
    """Whether it is one or not, and once; the pull is answered in the last one."""
    rig = Rig()
    long = " OR ".join(f"steps{at} = 1" for at in range(200))
    found: list[tuple[int, int]] = []
    for expression in (long, long, f"{long} OR", f"{long} OR", "steps = 1"):
        ext = pull_ext("TBW102", subscription=expression, expressionType="SQL92")
        command = Command(RequestCode.PULL_MESSAGE, ext=ext)
        steps, count = rig.broker.dispatcher.steps(rig.peer.session, UNLIMITED, command), 0
        while True:
            try:
                next(steps)
                count += 1
            except StopIteration as end:
                found.append((count, end.value.code))
                break

    refused = ResponseCode.SUBSCRIPTION_PARSE_FAILED
    held = ResponseCode.PULL_NOT_FOUND
    assert found == [(4, held), (0, held), (4, refused), (0, refused), (0, held)]
