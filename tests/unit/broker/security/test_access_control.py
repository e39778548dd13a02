"""Tests of access control: who is let through, and what the others learn."""

from collections.abc import Mapping
from pathlib import Path

import attrs
import cbor2
import pytest
import trio
from structlog.testing import capture_logs
from trio.testing import MockClock

from broker_rig import PROPERTIES, RecordingSession, Rig, commands_in, pull_ext, send_ext
from signed import RULES, SECRET, sign, write_rules
from timermq.broker.security import access_control
from timermq.broker.security.access_control import AccessStatistics
from timermq.remoting import (
    Command,
    FrameConnection,
    LanguageCode,
    SendHeader,
    WatchView,
    encode_frame,
)
from timermq.remoting.bodies import ConsumerData, HeartbeatData, SubscriptionData
from timermq.remoting.send_batch import SendItem, encode_items
from timermq.remoting.send_run.signed_send_v2 import SignedSendV2, decode_signed_send_v2
from timermq.remoting.signature import signed_content
from unit.broker.security.guarded_rig import answering, code_of, guarded, statistics

REFUSED = (16, "NO_PERMISSION: the request is not signed by an account that may do this")
SEND_V2 = SendHeader(topic="T", queue_id=0, properties=PROPERTIES.encode()).to_v2()


async def test_who_may_send_sends(tmp_path: Path) -> None:
    """With the old and the new code."""
    rig = guarded(tmp_path)

    assert code_of(rig, sign(rig.command(10, send_ext("T"), b"one"), "producer")) == 0
    assert code_of(rig, sign(rig.command(310, SEND_V2, b"two"), "producer")) == 0
    assert [record.body for record in rig.records("T")] == [b"one", b"two"]


async def test_plain_sends_stay_plain(tmp_path: Path) -> None:
    """With signatures too, the sends of a chunk are read in one pass and put as one batch."""
    rig = guarded(tmp_path)
    connection = FrameConnection(decode_send=decode_signed_send_v2)
    for body in (b"one", b"two"):
        command = sign(rig.command(310, SEND_V2, body), "producer")
        connection.receive_data(encode_frame(command))
    requests = connection.requests()
    assert all(isinstance(request, SignedSendV2) for request in requests)

    answers = commands_in(rig.broker.dispatcher.handle(rig.peer.session, requests))

    assert [answer.code for answer in answers] == [0, 0]
    assert [record.body for record in rig.records("T")] == [b"one", b"two"]


@pytest.mark.parametrize("field", ["a", "b", "i", "m"])
async def test_a_plain_send_that_was_changed_is_refused(
    tmp_path: Path, field: str, autojump_clock: MockClock
) -> None:
    """Whatever of it: a replay with another topic or body is of no account."""
    rig = guarded(tmp_path)
    command = sign(rig.command(310, SEND_V2, b"one"), "producer")
    changed = attrs.evolve(command, ext=command.ext | {field: command.ext[field] + "2"})
    connection = FrameConnection(decode_send=decode_signed_send_v2)
    connection.receive_data(encode_frame(changed))
    connection.receive_data(encode_frame(attrs.evolve(command, body=b"two")))

    async with answering(rig):
        assert rig.broker.dispatcher.handle(rig.peer.session, connection.requests()) == []
        await trio.sleep(1)
    assert [(answer.code, answer.remark) for answer in rig.peer.sent] == [REFUSED, REFUSED]
    assert rig.records("T") == []


async def test_a_replayed_send_is_taken_again(tmp_path: Path) -> None:
    """A signature holds no time and no number: that is the protocol's, and TLS is what helps."""
    rig = guarded(tmp_path)
    command = sign(rig.command(10, send_ext("T"), b"one"), "producer")

    assert [code_of(rig, command), code_of(rig, command)] == [0, 0]


@pytest.mark.parametrize(
    ("access_key", "secret"),
    [
        ("producer", "another-secret"),
        ("stranger", SECRET),
        ("", ""),
        ("Producer", SECRET),
    ],
)
async def test_all_failed_logins_look_the_same(
    tmp_path: Path, access_key: str, secret: str, autojump_clock: MockClock
) -> None:
    """Wrong secret, unknown key, the empty key of C++: one code, one remark, one delay."""
    rig = guarded(tmp_path)
    command = sign(rig.command(10, send_ext("T")), access_key, secret)
    async with answering(rig):
        begun = trio.current_time()
        assert rig.handle(command) == []
        await rig.peer.wait_sent()
        waited = trio.current_time() - begun

    (answer,) = rig.peer.sent
    assert (answer.code, answer.remark, answer.opaque) == (*REFUSED, command.opaque)
    assert answer.ext == {}
    assert 0.1 <= waited <= 0.12
    assert statistics(rig) == AccessStatistics(
        failed_logins=1, failed_at=begun, missing_rights=0, problem=None
    )


async def test_missing_rights_look_the_same_and_come_at_once(tmp_path: Path) -> None:
    """A topic that is there and one that is not, a send and a list of topics."""
    rig = guarded(tmp_path)
    rig.handle(sign(rig.command(10, send_ext("T")), "producer"))
    for command in (
        rig.command(10, send_ext("T")),
        rig.command(10, send_ext("Missing")),
        rig.command(105, {"topic": "T"}),
        rig.command(105, {"topic": "Missing"}),
        rig.command(33, {"offset": "0"}),
        rig.command(33, {"offset": "7"}),
        rig.command(206),
        rig.command(9007),
        rig.command(9003),
    ):
        (answer,) = [*rig.handle(sign(command, "powerless")), *rig.peer.sent]
        rig.peer.sent.clear()
        assert (answer.code, answer.remark, answer.ext, answer.body) == (*REFUSED, {}, b"")
    assert statistics(rig).missing_rights == 9
    assert statistics(rig).failed_logins == 0


async def test_one_way_requests_are_refused_in_silence(
    tmp_path: Path, autojump_clock: MockClock
) -> None:
    """They are counted all the same."""
    rig = guarded(tmp_path)
    commit = {"topic": "T", "queueId": "0", "consumerGroup": "G", "commitOffset": "1"}
    async with answering(rig):
        assert rig.handle(sign(rig.command(15, commit, flag=2), "producer")) == []
        assert rig.handle(rig.command(15, commit, flag=2)) == []
        await trio.sleep(5)

    assert rig.peer.sent == []
    assert (statistics(rig).failed_logins, statistics(rig).missing_rights) == (1, 1)
    assert rig.broker.tables.offsets.query(group="G", topic="T", queue_id=0) is None


async def test_a_refused_pull_is_answered_late(tmp_path: Path, autojump_clock: MockClock) -> None:
    """C++ asks again at once, whatever the error."""
    rig = guarded(tmp_path)
    async with answering(rig):
        assert rig.handle(sign(rig.command(11, pull_ext("T")), "producer")) == []
        await trio.sleep(0.99)
        assert rig.peer.sent == []
        await trio.sleep(0.02)

    assert [(answer.code, answer.remark) for answer in rig.peer.sent] == [REFUSED]


async def test_how_late_changes_live(tmp_path: Path, autojump_clock: MockClock) -> None:
    """The next refusal is as late as the setting says now."""
    rig = guarded(tmp_path)
    rig.broker.options.pull_error_delay_ms = 5
    async with answering(rig):
        assert rig.handle(sign(rig.command(11, pull_ext("T")), "producer")) == []
        await trio.sleep(0.01)

        assert [(answer.code, answer.remark) for answer in rig.peer.sent] == [REFUSED]


async def test_an_administrator_may_everything(tmp_path: Path) -> None:
    """Topics of no right, lists, what concerns the broker."""
    rig = guarded(tmp_path)
    for command in (
        rig.command(10, send_ext("Any"), b"x"),
        rig.command(206),
        rig.command(9007, body=cbor2.dumps({})),
        rig.command(105, {"topic": "Any"}),
    ):
        assert code_of(rig, sign(command, "the-admin")) == 0


async def test_codes_that_are_not_served_are_told_to_accounts_alone(
    tmp_path: Path, autojump_clock: MockClock
) -> None:
    """Clients of newer versions ask for them, and go on when they are answered with 3."""
    rig = guarded(tmp_path)

    assert code_of(rig, sign(rig.command(200_050), "powerless")) == 3
    assert code_of(rig, rig.command(200_050)) is None


async def test_answers_of_clients_are_let_through(tmp_path: Path) -> None:
    """They carry no signature; nothing but our own calls waits for them."""
    rig = guarded(tmp_path)

    assert rig.handle(rig.command(0, flag=1)) == []
    assert statistics(rig).failed_logins == 0


async def test_a_white_address_needs_no_account(tmp_path: Path) -> None:
    """Everything is allowed from there, as in RocketMQ; the port does not matter."""
    rig = guarded(tmp_path, RULES + "globalWhiteRemoteAddresses: [127.0.0.*]\n")
    peers = [RecordingSession(), RecordingSession()]
    peers[1].session.remote_address = "127.0.0.9:1"

    for peer in peers * 2:
        assert rig.call(206, peer=peer).code == 0
    peers[1].session.remote_address = "127.0.1.9:1"
    assert rig.handle(rig.command(206), peer=peers[1]) == []


async def test_a_white_address_of_an_account_needs_its_key_alone(tmp_path: Path) -> None:
    """From elsewhere it has to sign."""
    rig = guarded(tmp_path)
    peer = RecordingSession()
    peer.session.remote_address = "10.0.0.7:5"
    command = rig.command(206, {"AccessKey": "from-home"})

    assert [answer.code for answer in rig.handle(command, peer=peer)] == [0]
    assert rig.handle(command) == []


def heartbeat(group: str, topic: str) -> bytes:
    """The body of a consumer's heartbeat."""
    consumer = ConsumerData(
        group_name=group,
        subscriptions=[
            SubscriptionData(topic=topic),
            SubscriptionData(topic=f"%RETRY%{group}"),
        ],
    )
    return HeartbeatData(client_id="c", producer_groups=["anything"], consumers=[consumer]).encode()


LOCK = (
    b'{"clientId":"c","consumerGroup":"%s","mqSet":[{"topic":"%s","brokerName":"b","queueId":0}]}'
)


CHECK = b'{"clientId":"c","group":"%s","subscriptionData":{"topic":"%s","subString":"*"}}'


COMMIT = {"queueId": "0", "commitOffset": "1"}


@pytest.mark.parametrize("code", [11, 361, 14, 15, 34, 38, 35, 46, 12, 29, 30, 31, 32, 105])
async def test_who_may_consume_consumes(
    tmp_path: Path, code: int, autojump_clock: MockClock
) -> None:
    """Each request of a consumer is let through for its own group and topic, and for no other."""
    rig = guarded(tmp_path)
    rig.handle(sign(rig.command(10, send_ext("T")), "producer"))

    def request(group: str, topic: str) -> Command:
        bodies = {
            34: heartbeat(group, topic),
            46: CHECK % (group.encode(), topic.encode()),
        }
        ext = pull_ext(topic, group) | COMMIT | {"timestamp": "0", "key": "k", "maxNum": "1"}
        ext |= {"beginTimestamp": "0", "endTimestamp": "9"}
        ext = {} if code in bodies else ext
        return sign(rig.command(code, ext, bodies.get(code, b"")), "consumer")

    assert code_of(rig, request("G", "T")) != 16
    refused_before = statistics(rig).missing_rights
    assert refused_before == 0
    wrong = [("H", "T")] if code in (35, 38) else [("G", "U")]
    wrong += [("H", "T")] if code in (11, 361, 14, 15, 34, 46) else []
    for group, topic in wrong:
        assert code_of(rig, request(group, topic)) in (16, None)
    assert statistics(rig).missing_rights == len(wrong)


async def test_a_message_is_seen_by_its_place_with_a_right_to_its_topic(tmp_path: Path) -> None:
    """One that waits on the wheel belongs to where it goes."""
    rig = guarded(tmp_path)
    soon = f"TIMER_DELIVER_MS\x01{rig.clock.now_ms() + 60_000}\x02UNIQ_KEY\x01K2\x02"
    places: list[int] = []
    for properties in ("UNIQ_KEY\x01K1\x02", soon):
        places.append(rig.broker.store.commit_log.max_offset)
        answer = rig.handle(sign(rig.command(10, send_ext("T", properties), b"x"), "producer"))
        assert answer[0].code == 0
    for place in places:
        view = rig.command(33, {"offset": str(place)})
        assert code_of(rig, sign(view, "consumer")) == 0
        assert code_of(rig, sign(view, "producer")) == 16
        back = rig.command(36, {"offset": str(place), "group": "G", "delayLevel": "0"})
        assert code_of(rig, sign(back, "consumer")) != 16
        assert code_of(rig, sign(back, "producer")) in (16, 3)


async def test_a_batch_for_several_topics_needs_a_right_to_each(tmp_path: Path) -> None:
    """Or none of it is taken."""
    rig = guarded(tmp_path)
    items = [
        SendItem(topic, 0, 0, f"UNIQ_KEY\x01K{topic}\x02".encode(), b"x") for topic in ("T", "U")
    ]

    assert code_of(rig, sign(rig.command(9001, body=encode_items(items[:1])), "producer")) == 0
    assert code_of(rig, sign(rig.command(9001, body=encode_items(items)), "producer")) == 16
    assert len(rig.records("T")) == 1


@pytest.mark.parametrize(
    ("access_key", "topic", "code"),
    [
        ("consumer", "%RETRY%G", 0),
        ("consumer", "%RETRY%H", 16),
        ("consumer", "T", 16),
        ("producer", "%RETRY%G", 16),
        ("producer", "%DLQ%G", 16),
        ("producer", "SCHEDULE_TOPIC_XXXX", 16),
        ("powerless", "RMQ_SYS_TRACE_TOPIC", 0),
    ],
)
async def test_sends_to_special_topics(
    tmp_path: Path, access_key: str, topic: str, code: int
) -> None:
    """A retry topic goes by its group's right, whichever group the send names; traces are free."""
    rig = guarded(tmp_path)
    rig.handle(sign(rig.command(34, body=heartbeat("G", "T")), "consumer"))
    rig.peer.sent.clear()
    ext = SEND_V2 | {"a": "G", "b": topic}

    assert code_of(rig, sign(rig.command(310, ext, b"x"), access_key)) == code


async def test_lists_of_pending_messages(tmp_path: Path) -> None:
    """Of one topic with a right to it, of all for administrators."""
    rig = guarded(tmp_path)
    one = rig.command(9002, body=cbor2.dumps({"topic": "T"}))

    assert code_of(rig, sign(one, "consumer")) != 16
    assert code_of(rig, sign(one, "producer")) == 16
    assert code_of(rig, sign(rig.command(9002), "consumer")) == 16
    assert code_of(rig, sign(rig.command(9002), "the-admin")) != 16


async def test_cancelling_needs_the_right_to_send(tmp_path: Path) -> None:
    """By RocketMQ's code and by ours."""
    rig = guarded(tmp_path)
    for code in (370, 9005):
        command = rig.command(code, {"topic": "T", "recallHandle": "x", "uniqueKey": "x"})
        assert code_of(rig, sign(command, "producer")) != 16
        assert code_of(rig, sign(command, "consumer")) == 16


@pytest.mark.parametrize(
    ("code", "body"), [(34, b"{"), (46, b"\xff"), (9001, b"\x80"), (9002, b"\xff")]
)
async def test_malformed_bodies_of_accounts_are_told(
    tmp_path: Path, code: int, body: bytes
) -> None:
    """What is wrong is said, since it is known who asks; nothing is done."""
    rig = guarded(tmp_path)
    rig.handle(sign(rig.command(code, body=body), "powerless"))

    (answer,) = rig.peer.sent
    assert answer.code not in (0, 16)
    assert answer.remark


async def test_malformed_signatures_are_wrong_ones(
    tmp_path: Path, autojump_clock: MockClock
) -> None:
    """Other characters, other lengths, none at all."""
    rig = guarded(tmp_path)
    command = sign(rig.command(206), "the-admin")
    for signature in ("", "é", "=" * 10_000, command.ext["Signature"] + " "):
        rig.handle(attrs.evolve(command, ext=command.ext | {"Signature": signature}))

    assert statistics(rig).failed_logins == 4
    assert rig.broker.dispatcher.requests == {}


async def test_no_secret_stands_in_the_log(tmp_path: Path, autojump_clock: MockClock) -> None:
    """Neither those of the file nor what strangers send in their place."""
    with capture_logs() as logs:
        rig = guarded(tmp_path)
        async with answering(rig):
            rig.handle(sign(rig.command(10, send_ext("T")), "producer", "sent-secret"))
            rig.handle(sign(rig.command(10, send_ext("T")), "sent-secret", "producer"))
            rig.handle(sign(rig.command(206), "producer"))
            write_rules(tmp_path, RULES + "- secretKey: 'hidden-secret")
            await trio.sleep(5)
        shown = [repr(rig.broker.options), repr(rig.broker.statistics()), repr(vars(rig.broker))]

    text = repr(logs) + repr(shown)
    assert "hidden" not in text
    assert "sent-secret" not in text
    assert [log["event"] for log in logs if log["log_level"] != "info"] == [
        "logins failed",
        "missing right",
        "access rules not read, the old ones stay in force",
    ]


async def test_without_access_control_nothing_is_asked(tmp_path: Path) -> None:
    """Everybody may everything, signed or not."""
    rig = Rig()

    assert rig.broker.access is None
    assert rig.broker.statistics().access is None
    assert rig.call(206).code == 0
    assert code_of(rig, sign(rig.command(206), "stranger", "wrong")) == 0


async def test_a_mistake_in_access_control_ends_its_connection_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No request is known that does it, so one is made: the others of its round are served."""
    rig = guarded(tmp_path)
    peers = [RecordingSession() for _ in range(3)]
    bodies = [b"one", b"a mistake", b"three"]

    def content(ext: Mapping[str, str], body: bytes, version: int) -> bytes:
        if body == b"a mistake":
            raise ZeroDivisionError
        return signed_content(ext, body, version)

    monkeypatch.setattr(access_control, "signed_content", content)
    chunks = [
        (peer.session, [sign(rig.command(10, send_ext("T"), body), "producer")])
        for peer, body in zip(peers, bodies, strict=True)
    ]
    with capture_logs() as logs:
        answers = rig.broker.dispatcher.handle_all(chunks)

    assert [session for session, _ in answers] == [peers[0].session, peers[2].session]
    assert {one.code for one in commands_in(answer for _, answer in answers)} == {0}
    assert [peer.closed_for for peer in peers] == [None, "failed", None]
    assert [one["event"] for one in logs if one["log_level"] == "error"] == ["connection failed"]
    assert [record.body for record in rig.records("T")] == [b"one", b"three"]


async def test_cpp_is_slowed_like_everybody(tmp_path: Path, autojump_clock: MockClock) -> None:
    """A client that asks again at once cannot ask often."""
    rig = guarded(tmp_path)
    peer = RecordingSession(language=LanguageCode.CPP)
    async with answering(rig):
        begun = trio.current_time()
        for asked in range(1, 8):
            rig.handle(rig.command(11, pull_ext("T"), language=LanguageCode.CPP), peer=peer)
            await peer.wait_sent(asked)
        waited = trio.current_time() - begun

    assert 0.1 + 0.2 + 0.4 + 0.8 + 1.6 + 2 + 2 <= waited <= 7.5


async def test_watchers_see_who_was_not_let_in(tmp_path: Path, autojump_clock: MockClock) -> None:
    """How many logins failed and when, and why changed rules are not in force."""
    rig = guarded(tmp_path)
    source = rig.broker.processors.watch.source
    view = WatchView()

    quiet = source.read().snapshot(view)
    assert (quiet.failed_logins, quiet.failed_login_ms, quiet.door_problem) == (0, None, None)
    rig.handle(rig.command(206))
    rig.handle(sign(rig.command(206), "powerless"))
    path = write_rules(tmp_path, "accounts: 7")
    assert rig.broker.access is not None
    await rig.broker.access.reload()
    await trio.sleep(3)
    seen = source.read().snapshot(view)

    assert (seen.failed_logins, seen.missing_rights, seen.tls_refused) == (1, 1, 0)
    assert seen.failed_login_ms == seen.now_ms - 3_000
    assert seen.door_problem == f"{path}: accounts: expected a list, found something else"


async def test_who_registers_as_a_producer_may_see_what_he_may_send(tmp_path: Path) -> None:
    """Half messages of a group are shown to its producers: by the rules of that moment."""
    rig = guarded(tmp_path)
    body = HeartbeatData(client_id="c", producer_groups=["P"], consumers=[]).encode()
    seen: dict[str, list[bool]] = {}
    for access_key in ("the-admin", "producer", "powerless"):
        peer = RecordingSession()
        rig.handle(sign(rig.command(34, body=body), access_key), peer=peer)
        last = rig.broker.tables.clients.producers("P")[peer.session].speaker
        seen[access_key] = [last.may_send(topic) for topic in ("T", "U")]
        rig.broker.dispatcher.close(peer.session)
    assert seen == {
        "the-admin": [True, True],
        "producer": [True, False],
        "powerless": [False, False],
    }

    write_rules(tmp_path, RULES.replace("powerless", "another"))
    assert rig.broker.access is not None
    await rig.broker.access.reload()
    assert not last.may_send("T")
