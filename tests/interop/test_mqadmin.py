"""RocketMQ's own admin tool against a serving broker: what it prints is of this broker.

The numbers are the request codes that the tool sends.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Generator

import pytest

from interop.mqadmin_stage import GROUP, TOPIC, Stage, staged

pytestmark = [pytest.mark.slow, pytest.mark.interop]


@pytest.fixture(scope="module")
def stage(
    tmp_path_factory: pytest.TempPathFactory, java_client: Callable[..., list[str]]
) -> Generator[Stage]:
    """For all tests of this module."""
    with staged(tmp_path_factory.mktemp("mqadmin"), java_client) as made:
        yield made


def test_the_cluster(stage: Stage) -> None:
    """One broker, active, with its address and counts (106, 28)."""
    (row,) = stage.rows("clusterList")
    (more,) = stage.rows("clusterList -m")

    assert row[:4] == ["DefaultCluster", "broker-a", "0", stage.broker.listen]
    assert row[-1] == "true"
    assert more[:2] == ["DefaultCluster", "broker-a"]
    assert int(more[-2]) >= 10


def test_topics(stage: Stage) -> None:
    """Where a topic is, what its queues hold, and the list of all (105, 202, 206)."""
    assert [TOPIC] in stage.rows("topicList")
    assert stage.rows(f"topicClusterList -t {TOPIC}") == [["DefaultCluster"]]
    route = "".join(stage.ask(f"topicRoute -t {TOPIC}").split())
    assert f'"brokerAddrs":{{0:"{stage.broker.listen}"}}' in route
    assert '"perm":6,"readQueueNums":2' in route
    status = stage.rows(f"topicStatus -t {TOPIC}")
    assert [row[:2] for row in status[:2]] == [["broker-a", "0"], ["broker-a", "1"]]
    assert sum(int(row[3]) for row in status[:2]) == 10


def test_the_broker_s_state(stage: Stage) -> None:
    """Numbers of the broker's, and its settings by RocketMQ's names (28, 26)."""
    state = dict(re.findall(r"(\w+) *: (.*)", stage.ask("brokerStatus -b BROKER")))
    settings = dict(re.findall(r"(\w+) += +(.*)", stage.ask("getBrokerConfig -b BROKER")))

    assert int(state["msgPutTotalTodayNow"]) >= 10
    assert int(state["msgGetTotalTodayNow"]) >= 10
    assert len(state["putTps"].split()) == 3
    assert (settings["brokerName"], settings["timerMaxDelaySec"]) == ("broker-a", "259200")
    assert (settings["transactionTimeOut"], settings["checkCRCOnRecover"]) == ("6000", "true")


def test_settings_change_live(stage: Stage) -> None:
    """The permission shows in routes at once; the port does not change (25)."""
    change = "updateBrokerConfig -b BROKER -k"

    assert "update broker config success" in stage.ask(f"{change} brokerPermission -v 4")
    assert '"perm":4' in stage.ask(f"topicRoute -t {TOPIC}")
    assert "update broker config success" in stage.ask(f"{change} brokerPermission -v 6")
    assert "update broker config success" in stage.ask(f"{change} fileReservedTime -v 48")
    assert re.search(r"fileReservedTime += +48", stage.ask("getBrokerConfig -b BROKER"))
    refused = stage.ask(f"{change} listenPort -v 1")
    assert "BROKER_CONFIG: 'listenPort' does not change while the broker serves" in refused


def test_who_is_connected(stage: Stage) -> None:
    """Producers and consumers, what they subscribe to, what a client says of itself.

    Codes 203, 204, 328, 307.
    """
    consumers = stage.ask(f"consumerConnection -g {GROUP}")
    assert stage.client_id in consumers
    assert f"{TOPIC}" in consumers
    assert "CONSUME_PASSIVELY" in consumers
    process = stage.client_id.partition("#")[0]
    assert process in stage.ask(f"producerConnection -g {GROUP}-P -t {TOPIC}")
    assert f"{GROUP}-P" in stage.ask("producer -b BROKER")
    status = stage.ask(f"consumerStatus -g {GROUP} -i {stage.client_id}")
    assert "PROP_NAMESERVER_ADDR" in status
    assert TOPIC in status


def test_progress(stage: Stage) -> None:
    """Everything that was sent is consumed, by group and over all (208, 300, 315, 317)."""
    stage.member.say("2 0 progress")
    stage.member.hear("GOT progress", 2)
    rows = [row for row in stage.rows(f"consumerProgress -g {GROUP}") if row[0] == TOPIC]

    assert sum(int(row[3]) for row in rows) >= 12
    assert [GROUP] in [row[:1] for row in stage.rows("consumerProgress")]
    assert f"{TOPIC}" in stage.ask(f"statsAll -t {TOPIC}")
    stats = stage.rows("brokerConsumeStats -b BROKER")
    consumed = [row for row in stats if row[:3] == [TOPIC, GROUP, "broker-a"]]
    assert [row[3] for row in consumed] == ["0", "1"]
    assert sum(int(row[4]) for row in consumed) >= 12


def test_messages_are_found(stage: Stage) -> None:
    """By key, unique key and offset id, with who consumes them, and again (12, 33, 321, 309)."""
    stage.member.say("1 0 found")
    (sent,) = stage.member.hear("SENT found")
    _, _, offset_id, unique_id = sent.split()
    stage.member.hear("GOT found")

    assert unique_id in stage.ask(f"queryMsgByKey -t {TOPIC} -k found0")
    for found in (
        stage.ask(f"queryMsgByUniqueKey -t {TOPIC} -i {unique_id}"),
        stage.ask(f"queryMsgById -t {TOPIC} -i {offset_id}"),
    ):
        assert re.search(rf"Topic: +{TOPIC}", found)
        assert re.search(r"Keys: +\[found0\]", found)
        assert f"consumerGroup={GROUP}" in found
    units = stage.ask(f"queryCq -t {TOPIC} -q 0 -i 0 -b {stage.broker.listen}")
    assert re.search(r"max: \d+, min: 0", units)
    assert "physicOffset=" in units
    direct = f"queryMsgById -t {TOPIC} -i {offset_id} -g {GROUP} -d {stage.client_id}"
    assert "consumeResult=CR_SUCCESS" in stage.ask(direct)
    assert len(stage.member.hear("GOT found", 2)) == 2


def test_offsets_are_reset(stage: Stage) -> None:
    """A consumer that is running gets its messages again (222)."""
    before = len(stage.member.hear("GOT now", 10))
    rows = stage.rows(f"resetOffsetByTime -g {GROUP} -t {TOPIC} -s 0")

    assert ["broker-a", "0", "0"] in rows
    assert ["broker-a", "1", "0"] in rows
    stage.member.hear("GOT now", before + 10)
    assert "clone group offset success" in stage.ask(
        f"cloneGroupOffset -s {GROUP} -d Cloned -t {TOPIC}"
    )


def test_groups(stage: Stage) -> None:
    """Made, looked at, deleted (200, 201, 207)."""
    assert "success" in stage.ask("updateSubGroup -b BROKER -g NewGroup -r 5")
    found = stage.ask("getConsumerConfig -g NewGroup")
    assert re.search(r"retryMaxTimes += +5", found)
    assert "[NewGroup] from broker" in stage.ask("deleteSubGroup -b BROKER -g NewGroup")
    assert "retryMaxTimes" not in stage.ask("getConsumerConfig -g NewGroup")


def test_topics_are_changed_and_deleted(stage: Stage) -> None:
    """Not while messages wait for their moment (17, 351, 215, 216)."""
    assert "success" in stage.ask("updateTopic -c DefaultCluster -t Second")
    assert "from 6 to 4" in stage.ask("updateTopicPerm -t Second -b BROKER -p 4")
    assert "delete topic [Second] from cluster" in stage.ask(
        "deleteTopic -t Second -c DefaultCluster"
    )
    assert ["Second"] not in stage.rows("topicList")
    assert "Exception" not in stage.ask("deleteTopic -t Second -c DefaultCluster")

    stage.member.say("1 3600000 later")
    stage.member.hear("SENT later")
    refused = stage.ask(f"deleteTopic -t {TOPIC} -c DefaultCluster")
    assert f"TOPIC_HAS_TIMERS: a message of {TOPIC} is pending until" in refused
    assert [TOPIC] in stage.rows("topicList")


def test_queues_of_deleted_topics_go(stage: Stage) -> None:
    """Of topics that were not created the queues are removed; what is there stays (316)."""
    before = stage.rows(f"topicStatus -t {TOPIC}")

    assert "success" in stage.ask("cleanUnusedTopic -b BROKER")
    assert stage.rows(f"topicStatus -t {TOPIC}") == before


def test_write_permission_in_the_name_server(stage: Stage) -> None:
    """Taken away, producers keep off the broker; then given back (205, 327)."""
    for command, perm in (("wipeWritePerm", 4), ("addWritePerm", 6)):
        said = stage.ask(f"{command} -b broker-a -n {stage.broker.namesrv}")
        assert re.search(r"write perm of broker\[broker-a\].*OK, \d+", said)
        assert f'"perm":{perm}' in stage.ask(f"topicRoute -t {TOPIC}")


@pytest.mark.parametrize(
    "command",
    ["cleanExpiredCQ -b BROKER", "deleteExpiredCommitLog -b BROKER"],
)
def test_cleaning(stage: Stage, command: str) -> None:
    """It is done at once (306, 329)."""
    assert "success" in stage.ask(command)


@pytest.mark.parametrize(
    ("command", "reason"),
    [
        (
            "setConsumeMode -b BROKER -t AdminTopic -g AdminGroup -m POP",
            "REQUEST_MODE: expected PULL, found 'POP': no POP",
        ),
        (
            "listUser -b BROKER",
            "REQUEST_CODE: AUTH_LIST_USER (3005) is not supported: accounts stand in",
        ),
    ],
)
def test_what_is_refused(stage: Stage, command: str, reason: str) -> None:
    """The tool shows the reason for which a request is refused."""
    assert reason in stage.ask(command)
