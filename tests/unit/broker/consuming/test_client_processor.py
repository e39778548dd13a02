"""Tests of heartbeats, goodbyes, member lists and subscription checks."""

import json

import pytest

from broker_rig import RecordingSession, Rig
from timermq.broker.options import BrokerOptions
from timermq.remoting.bodies import decode_consumer_list

JAVA: dict[str, object] = {
    "clientID": "192.0.2.2@10843#3497247162357",
    "consumerDataSet": [
        {
            "consumeFromWhere": "CONSUME_FROM_LAST_OFFSET",
            "consumeType": "CONSUME_PASSIVELY",
            "groupName": "CID-J",
            "messageModel": "CLUSTERING",
            "subscriptionDataSet": [
                {
                    "classFilterMode": False,
                    "codeSet": [],
                    "expressionType": "TAG",
                    "subString": "*",
                    "subVersion": 1795226979990,
                    "tagsSet": [],
                    "topic": "TopicA",
                }
            ],
            "unitMode": False,
        }
    ],
    "heartbeatFingerprint": 0,
    "producerDataSet": [{"groupName": "CLIENT_INNER_PRODUCER"}],
    "withoutSub": False,
}
CPP: dict[str, object] = {
    "clientID": "13994-127.0.0.1@DEFAULT",
    "consumerDataSet": [
        {
            "consumeFromWhere": 0,
            "consumeType": 1,
            "groupName": "CID-X",
            "messageModel": 1,
            "subscriptionDataSet": [
                {"subString": "*", "subVersion": "1795224437390", "topic": "%RETRY%CID-X"},
                {
                    "codeSet": [0, 0],
                    "subString": "tagA || tagB",
                    "subVersion": "1795224661860",
                    "tagsSet": ["tagA", "tagB"],
                    "topic": "TopicA",
                },
            ],
        }
    ],
}


def body(value: object) -> bytes:
    """The body of a request, as JSON."""
    return json.dumps(value).encode()


@pytest.mark.parametrize(("heartbeat", "group"), [(JAVA, "CID-J"), (CPP, "CID-X")])
async def test_a_heartbeat_registers_before_it_is_answered(
    heartbeat: dict[str, object], group: str
) -> None:
    """The caller is in the list once its heartbeat is answered, and its retry topic exists."""
    rig = Rig()

    assert rig.call(34, body=body(heartbeat)).code == 0
    answer = rig.call(38, {"consumerGroup": group})
    assert decode_consumer_list(answer.body) == [heartbeat["clientID"]]
    retry = rig.broker.tables.topics.get(f"%RETRY%{group}")
    assert retry is not None
    assert retry.read_queue_nums == 1
    assert [one.code for one in rig.peer.sent] == [40]


async def test_cpp_expressions_are_read_from_the_text() -> None:
    """C++ sends zeros as tag hashes; the expression itself is what counts."""
    rig = Rig()
    rig.call(34, body=body(CPP))
    info = rig.broker.tables.clients.consumer_group("CID-X")

    assert info is not None
    assert info.subscriptions["TopicA"].sub_string == "tagA || tagB"
    assert info.subscriptions["TopicA"].sub_version == 1_795_224_661_860
    assert info.message_model == "CLUSTERING"


async def test_the_list_is_the_same_for_all() -> None:
    """Members sort queues and ids and take their share: the order must not depend on who asks."""
    rig, other = Rig(), RecordingSession()
    rig.call(34, body=body({**JAVA, "clientID": "b"}))
    rig.call(34, body=body({**JAVA, "clientID": "a"}), peer=other)

    for peer in (rig.peer, other):
        answer = rig.call(38, {"consumerGroup": "CID-J"}, peer=peer)
        assert decode_consumer_list(answer.body) == ["a", "b"]


async def test_all_who_ask_are_given_one_list() -> None:
    """It is sorted and printed when the members change, not for each of them."""
    rig, other = Rig(), RecordingSession()
    rig.call(34, body=body({**JAVA, "clientID": "b"}))
    rig.call(34, body=body({**JAVA, "clientID": "a"}), peer=other)
    first, second = (
        rig.call(38, {"consumerGroup": "CID-J"}, peer=peer).body for peer in (rig.peer, other)
    )

    assert first is second


async def test_a_group_without_members() -> None:
    """Its list is an error (1): the client assigns nothing this round."""
    answer = Rig().call(38, {"consumerGroup": "stranger"})

    assert (answer.code, answer.remark) == (
        1,
        "GROUP_NOT_ONLINE: no consumer of group 'stranger' is registered",
    )


async def test_goodbye() -> None:
    """A client leaves its groups by name; empty names mean none."""
    rig = Rig()
    rig.call(34, body=body(JAVA))
    none = rig.call(35, {"clientID": "x", "producerGroup": "", "consumerGroup": ""})
    assert none.code == 0
    assert rig.broker.tables.clients.consumer_group("CID-J") is not None
    rig.call(35, {"clientID": "x", "producerGroup": "CLIENT_INNER_PRODUCER"})
    rig.call(35, {"clientID": "x", "consumerGroup": "CID-J"})

    assert rig.broker.tables.clients.consumer_group("CID-J") is None
    assert rig.broker.tables.clients.producers("CLIENT_INNER_PRODUCER") == {}


@pytest.mark.parametrize("group", ["", "../../etc", "a/b", "x" * 121])
async def test_illegal_groups_make_no_topic(group: str) -> None:
    """A group's name becomes a topic's and so a directory: it is checked first (29)."""
    rig = Rig()
    heartbeat = {"clientID": "c", "consumerDataSet": [{"groupName": group}]}
    before = rig.broker.tables.topics.changes

    assert rig.call(34, body=body(heartbeat)).code == 29
    assert rig.broker.tables.topics.changes == before
    producer = {"clientID": "c", "producerDataSet": [{"groupName": group}]}
    assert rig.call(34, body=body(producer)).code == 29


@pytest.mark.parametrize("data", [b"", b"{", b"[]", b"{}", b'{"clientID":1}', b"\xff"])
async def test_malformed_heartbeats(data: bytes) -> None:
    """They are answered with what is wrong."""
    answer = Rig().call(34, body=data)

    assert answer.code == 1
    assert answer.remark is not None
    assert answer.remark.startswith("BODY: ")


async def test_groups_of_one_client_are_bounded() -> None:
    """One heartbeat cannot make thousands of groups (29)."""
    rig = Rig(options=BrokerOptions(client_groups_max=2))
    data = [{"groupName": f"g{n}"} for n in range(3)]
    answer = rig.call(34, body=body({"clientID": "c", "consumerDataSet": data}))

    assert (answer.code, answer.remark) == (
        29,
        "CLIENT_GROUPS_MAX: expected at most 2 groups, found 3",
    )


async def test_groups_of_one_connection_are_bounded() -> None:
    """Over all of its heartbeats: what it is in counts, not what it has left, nor a name twice."""
    rig = Rig(options=BrokerOptions(client_groups_max=2))

    def beat(key: str, *names: str, peer: RecordingSession | None = None) -> int:
        groups = [{"groupName": name} for name in names]
        return rig.call(34, body=body({"clientID": "c", key: groups}), peer=peer).code

    assert beat("producerDataSet", "a") == beat("consumerDataSet", "b") == 0
    assert beat("producerDataSet", "a", "a") == beat("consumerDataSet", "b") == 0
    assert beat("producerDataSet", "b") == beat("consumerDataSet", "a") == 29
    assert sorted(rig.broker.tables.clients.producer_groups()) == ["a"]
    assert beat("producerDataSet", "c", "d", peer=RecordingSession()) == 0
    rig.call(35, {"clientID": "c", "producerGroup": "a", "consumerGroup": "b"})
    assert beat("producerDataSet", "e", "f") == 0


@pytest.mark.parametrize("key", ["producerDataSet", "consumerDataSet"])
async def test_ids_of_one_connection_are_bounded(key: str) -> None:
    """A connection has one a group: that of the newest heartbeat."""
    rig = Rig(options=BrokerOptions(client_groups_max=2))
    for client_id in "abcd":
        for group in ("g", "h"):
            groups = [{"groupName": group}]
            beat = {"clientID": f"{client_id} of {group}", key: groups}
            assert rig.call(34, body=body(beat)).code == 0

    assert len(rig.broker.tables.clients.ids) == 2


@pytest.mark.parametrize(
    ("subscription", "code"),
    [
        ({"subString": "a || b", "expressionType": "TAG"}, 0),
        ({"subString": "||", "expressionType": "TAG"}, 23),
        ({"subString": "a > 1", "expressionType": "SQL92"}, 0),
        ({"subString": "a >", "expressionType": "SQL92"}, 23),
        ({"subString": "a > 1", "expressionType": "XPATH"}, 1),
    ],
)
async def test_subscriptions_are_checked_at_start(
    subscription: dict[str, object], code: int
) -> None:
    """Java asks before it uses a filter that is no tag expression."""
    check = {"clientId": "c", "group": "g", "subscriptionData": {"topic": "T", **subscription}}

    assert Rig().call(46, body=body(check)).code == code
