"""Tests of the name server's role."""

import json

import attrs

from broker_rig import ADDRESS, BROKER, Rig


async def test_the_route_of_a_topic() -> None:
    """It has the shape that all clients read, and the address that they are to use."""
    rig = Rig()
    rig.send("T")
    answer = rig.call(105, {"topic": "T"})

    assert answer.code == 0
    assert json.loads(answer.body) == {
        "brokerDatas": [
            {
                "brokerAddrs": {"0": ADDRESS},
                "brokerName": "broker-a",
                "cluster": "DefaultCluster",
                "enableActingMaster": False,
            }
        ],
        "filterServerTable": {},
        "queueDatas": [
            {
                "brokerName": "broker-a",
                "perm": 6,
                "readQueueNums": 4,
                "topicSysFlag": 0,
                "writeQueueNums": 4,
            }
        ],
    }


async def test_the_way_to_a_new_topic() -> None:
    """An unknown topic is 17, its template has a route, and the first send makes the topic."""
    rig = Rig()

    assert rig.call(105, {"topic": "T"}).code == 17
    template = json.loads(rig.call(105, {"topic": "TBW102"}).body)
    assert template["queueDatas"][0]["perm"] == 7
    assert rig.send("T").code == 0
    assert rig.call(105, {"topic": "T"}).code == 0


async def test_the_template_is_hidden_when_topics_are_not_made() -> None:
    """Also when the table still has it from another time."""
    rig = Rig(options=attrs.evolve(BROKER, auto_create_topic_enable=False))
    rig.broker.tables.topics.restore("TBW102", 8)

    assert rig.call(105, {"topic": "TBW102"}).code == 17


async def test_the_broker_s_permission_shows_in_routes() -> None:
    """Producers keep away from a broker that only lets messages out."""
    rig = Rig(options=attrs.evolve(BROKER, broker_permission=4))
    route = json.loads(rig.call(105, {"topic": "TBW102"}).body)

    assert route["queueDatas"][0]["perm"] == 5


async def test_the_cluster() -> None:
    """One broker in one cluster."""
    answer = Rig().call(106)

    assert json.loads(answer.body) == {
        "brokerAddrTable": {
            "broker-a": {
                "brokerAddrs": {"0": ADDRESS},
                "brokerName": "broker-a",
                "cluster": "DefaultCluster",
                "enableActingMaster": False,
            }
        },
        "clusterAddrTable": {"DefaultCluster": ["broker-a"]},
    }


async def test_topic_lists() -> None:
    """All topics, those of a cluster, and RocketMQ's own."""
    rig = Rig()
    rig.send("T")
    everything = json.loads(rig.call(206).body)["topicList"]

    assert "T" in everything
    assert "TBW102" in everything
    assert json.loads(rig.call(224, {"cluster": "DefaultCluster"}).body)["topicList"] == everything
    assert json.loads(rig.call(224, {"cluster": "other"}).body)["topicList"] == []
    system = json.loads(rig.call(304).body)
    assert "SCHEDULE_TOPIC_XXXX" in system["topicList"]
    assert "T" not in system["topicList"]
    assert system["brokerAddr"] == ADDRESS
