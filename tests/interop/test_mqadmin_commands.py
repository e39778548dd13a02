"""Every command of RocketMQ's admin tool: it works, or shows for which reason it is refused.

The tool waits for seconds between two commands, so several of them run side by side, each with some
families of commands. What ``test_mqadmin`` looks at more closely is not asked for again.
"""

from __future__ import annotations

import json
import re
import time
from collections.abc import Callable, Generator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import attrs
import pytest

from interop import test_mqadmin
from interop.java_peer import RELEASE, RELEASE_5_5
from interop.mqadmin_stage import GROUP, TOPIC, Stage, staged
from interop.talking import ANSWER_SECONDS, Talking, talking
from timermq.broker.compatibility import REFUSED

pytestmark = [
    pytest.mark.slow,
    pytest.mark.interop,
    pytest.mark.skipif(RELEASE is not RELEASE_5_5, reason="the table is that of the newest tool"),
]

Row = tuple[str, str | int]
"""A command, and what the tool prints: a pattern, or the reason for which this code is refused."""

TOPICS: Sequence[Row] = (
    ("updateTopicList -b BROKER -f FOLDER/topics.json", "batch of topic config to BROKER success"),
    ("topicList -c", rf"(?s)(?=.* Listed1 )(?=.* {TOPIC} +{GROUP} )"),
    ("updateTopic -b BROKER -t Ranks -a +message.type=PRIORITY", "create topic to BROKER success"),
    ("updateTopic -b BROKER -t Few -a +message.type=LITE", "TOPIC_ATTRIBUTES: .* found 'LITE'"),
    ("topicStatus -t rmq_sys_wheel_timer", r"broker-a +0 +0 +1 "),
    (f"updateOrderConf -t {TOPIC} -m put -v broker-a:2", "update orderConf success"),
    (f"updateOrderConf -t {TOPIC} -m get", r"orderConf=\[broker-a:2\]"),
    (f"updateOrderConf -t {TOPIC} -m delete", "delete orderConf success"),
    (f"allocateMQ -t {TOPIC} -i 10.0.0.1,10.0.0.2", r'"10\.0\.0\.2":\[\{"brokerName":"broker-a"'),
    ("updateStaticTopic -t Static -qn 4 -c DefaultCluster", 513),
    (f"remappingStaticTopic -t {TOPIC} -b broker-a", "Mapping info should not be null"),
    ("exportMetadata -b BROKER -t -f FOLDER/export", "export .*topic.json success"),
    ("exportMetadata -b BROKER -g -f FOLDER/export", "export .*subscriptionGroup.json success"),
    ("exportMetadata -c DefaultCluster -f FOLDER/export", "export .*metadata.json success"),
    ("updateKvConfig -s NS -k k -v v", "kv config to namespace success"),
    ("deleteKvConfig -s NS -k k", "delete kv config from namespace success"),
)
GROUPS: Sequence[Row] = (
    ("updateSubGroupList -b BROKER -f FOLDER/groups.json", "of group config to BROKER success"),
    ("deleteSubGroup -b BROKER -g Listed1 -r true", r"group \[Listed1\] from broker .* success"),
    (f"setConsumeMode -b BROKER -t {TOPIC} -g {GROUP} -m PULL", 401),
    (f"skipAccumulatedMessage -g {GROUP} -t {TOPIC} -f true", r"broker-a +1 +\d+"),
    ("exportPopRecord -b BROKER", 200_056),
    ("getColdDataFlowCtrInfo -b BROKER", 2_003),
    (f"updateColdDataFlowCtrGroupConfig -b BROKER -g {GROUP} -v 100", 2_001),
    (f"removeColdDataFlowCtrGroupConfig -b BROKER -g {GROUP}", 2_002),
    (f"getParentTopicInfo -p {TOPIC}", r"\[broker-a\] error"),
    (f"getLiteTopicInfo -p {TOPIC} -l x", r"\[broker-a\] error"),
    (f"getLiteClientInfo -p {TOPIC} -g {GROUP} -c CLIENT", r"\[broker-a\] error"),
    (f"getLiteGroupInfo -p {TOPIC} -g {GROUP}", r"\[broker-a\] error"),
    (f"triggerLiteDispatch -p {TOPIC} -g {GROUP} -b broker-a", "broker-a +error"),
    ("getBrokerLiteInfo -b BROKER", 200_074),
)
MESSAGES: Sequence[Row] = (
    (f"queryMsgByOffset -t {TOPIC} -b broker-a -i 0 -o 0", rf"Topic: +{TOPIC}\n"),
    ("queryMsgByOffset -t rmq_sys_wheel_timer -b broker-a -i 0 -o 0", r"TIMER_DELIVER_MS=\d{13}"),
    (f"printMsg -t {TOPIC} -d true", "BODY: now9"),
    (f"printMsgByQueue -t {TOPIC} -a broker-a -i 1 -p true -d true", r"BODY: now\d"),
    ("printMsg -t rmq_sys_wheel_timer -d true", "BODY: later0"),
    (f"consumeMessage -t {TOPIC} -b broker-a -i 0 -o 0 -c 2", r"MSGID: .* BODY: now\d"),
    ("queryMsgTraceById -i UNIQUE", r"CODE: 17 .* not matched route info"),
    ("sendMsgStatus -b broker-a -s 128 -c 2", "sendStatus=SEND_OK"),
    (f"sendMessage -t {TOPIC} -p hello -k key1 -c tagA", r"broker-a +\d +SEND_OK"),
    (f"checkMsgSendRT -t {TOPIC} -a 2 -s 10", r"broker-a +1 +true"),
    ("exportConfigs -c DefaultCluster -f FOLDER/export", "export .*configs.json success"),
    ("exportMetrics -c DefaultCluster -f FOLDER/export", "export .*metrics.json success"),
    ("exportMetadataInRocksDB -p FOLDER/none -t topics", "RocksDB path is invalid"),
    ("dumpCompactionLog -f FOLDER/topics.json", r"\A\s*\Z"),
    ("rocksDBConfigToJson -t topics -b BROKER", 355),
    ("checkRocksdbCqWriteProgress -c DefaultCluster -n NAME_SERVER", 354),
)
CLUSTER: Sequence[Row] = (
    ("getNamesrvConfig", "brokerName += +broker-a"),
    (
        "updateNamesrvConfig -k fileReservedTime -v 48",
        "_CONFIG: 'fileReservedTime' does not change while",
    ),
    ("switchTimerEngine -b BROKER -e R", 5_001),
    ("setCommitLogReadAheadMode -b BROKER -m 0", 2_004),
    ("addBroker -c BROKER -b /broker.conf", 902),
    ("removeBroker -c BROKER -b DefaultCluster:broker-a:0", 903),
    ("resetMasterFlushOffset -b BROKER -o 0", 908),
    ("haStatus -b BROKER", 907),
    ("getSyncStateSet -a NAME_SERVER -b broker-a", 1_005),
    ("getBrokerEpoch -b broker-a", 1_007),
    ("getControllerMetaData -a NAME_SERVER", 1_005),
    ("getControllerConfig -a NAME_SERVER", 1_010),
    ("updateControllerConfig -a NAME_SERVER -k a -v b", 1_009),
    ("electMaster -a NAME_SERVER -b 0 -bn broker-a -c DefaultCluster", 1_005),
    ("cleanBrokerMetadata -a NAME_SERVER -b 0 -bn broker-a -c DefaultCluster", 1_005),
)
ACCOUNTS: Sequence[Row] = (
    ("createUser -b BROKER -u u -p p", 3_001),
    ("updateUser -b BROKER -u u -p q", 3_002),
    ("deleteUser -b BROKER -u u", 3_003),
    ("getUser -b BROKER -u u", 3_004),
    ("listUser -b BROKER", 3_005),
    ("copyUser -f BROKER -t BROKER", 3_005),
    ("createAcl -b BROKER -s User:u -r Topic:T -a Pub -d Allow", 3_006),
    ("updateAcl -b BROKER -s User:u -r Topic:T -a Pub -d Allow", 3_007),
    ("deleteAcl -b BROKER -s User:u", 3_008),
    ("getAcl -b BROKER -s User:u", 3_009),
    ("listAcl -b BROKER", 3_010),
    ("copyAcl -f BROKER -t BROKER", 3_010),
)
FAMILIES = (TOPICS, GROUPS, MESSAGES, CLUSTER, ACCOUNTS)
ENDLESS = {"clusterRT", "startMonitoring"}
"""Those that go on until they are killed."""
TOO_SLOW = re.compile("Timeout|timeout|RemotingConnectException|TooMuchRequest")
"""What the tool says when an answer has taken three or five seconds, on a busy machine."""
TRIES = 5
TOOLS = 3
"""Tools at work at the same time."""
LISTED: Mapping[str, list[dict[str, object]]] = {
    "topics.json": [
        {"topicName": f"Listed{number}", "readQueueNums": 2, "writeQueueNums": 2, "perm": 6}
        for number in (1, 2)
    ],
    "groups.json": [{"groupName": f"Listed{number}"} for number in (1, 2)],
}


def ask_until_answered(tool: Talking, command: str) -> str:
    """What it prints, asked again while the broker does not answer in time."""
    printed = tool.ask(command)
    for _ in range(TRIES - 1):
        if TOO_SLOW.search(printed) is None:
            break
        printed = tool.ask(command)
    return printed


@attrs.frozen
class Answers:
    """What was printed for the commands, and what their words stand for."""

    stage: Stage
    words: Mapping[str, str]
    printed: dict[str, str] = attrs.Factory(dict[str, str])

    def filled(self, text: str) -> str:
        """A command or a pattern with the words in it replaced."""
        for word, value in self.words.items():
            text = text.replace(word, value)
        return text

    def ask(self, tool: Talking, rows: Sequence[Row]) -> None:
        """One tool is asked for some commands, one after the other."""
        for command, _ in rows:
            self.printed[command] = ask_until_answered(tool, self.filled(command))


@pytest.fixture(scope="module")
def answers(
    tmp_path_factory: pytest.TempPathFactory, java_client: Callable[..., list[str]]
) -> Generator[Answers]:
    """All commands have been given, beside a message that waits for its moment."""
    folder: Path = tmp_path_factory.mktemp("mqadmin-commands")
    for name, listed in LISTED.items():
        (folder / name).write_text(json.dumps(listed))
    with staged(folder, java_client) as stage:
        stage.member.say("1 3600000 later")
        stage.member.hear("SENT later")
        words = {
            "BROKER": stage.broker.listen,
            "NAME_SERVER": stage.broker.namesrv,
            "FOLDER": str(folder),
            "CLIENT": stage.client_id,
            "UNIQUE": stage.member.heard_so_far("SENT now")[0].split()[-1],
        }
        made = Answers(stage, words)
        program, *arguments = java_client("MqAdmin", stage.broker.namesrv)

        def ask(rows: Sequence[Row]) -> None:
            # Some write into the directory for temporary files.
            with talking([program, f"-Djava.io.tmpdir={folder}", *arguments]) as tool:
                made.ask(tool, rows)

        with ThreadPoolExecutor(TOOLS) as tools:
            for _ in tools.map(ask, FAMILIES):
                pass
        yield made


def test_all_commands_are_here(answers: Answers) -> None:
    """The tool has no other command than those of the table, and those that are tried elsewhere."""
    lines = answers.stage.admin.ask("").splitlines()
    listed = {line.split()[0] for line in lines if line.startswith("   ")}
    tried = {command.split()[0] for rows in FAMILIES for command, _ in rows} | ENDLESS
    text = Path(test_mqadmin.__file__).read_text()
    elsewhere = {name for name in listed if re.search(rf'"{name}\b', text)}

    assert len(listed) > 90
    assert listed - elsewhere - tried == set()
    assert tried - listed == set()


@pytest.mark.parametrize(
    ("command", "expected"), [pytest.param(*row, id=row[0]) for rows in FAMILIES for row in rows]
)
def test_a_command(answers: Answers, command: str, expected: str | int) -> None:
    """It prints what it should; what is refused by its code, the name and the reason."""
    printed = answers.printed[command]

    if isinstance(expected, str):
        assert re.search(answers.filled(expected), printed), printed
    elif expected in REFUSED:
        name, reason = REFUSED[expected]
        assert f"REQUEST_CODE: {name} ({expected}) is not supported: {reason}" in printed
    else:
        assert "Exception" not in printed


def test_what_goes_on_until_it_is_killed(
    answers: Answers, java_client: Callable[..., list[str]]
) -> None:
    """The times of sends to all brokers, and the monitor, which consumes as a group."""
    stage = answers.stage
    with (
        talking(java_client("MqAdmin", stage.broker.namesrv)) as times,
        talking(java_client("MqAdmin", stage.broker.namesrv)) as monitor,
    ):
        for _ in range(TRIES):
            times.say("clusterRT -a 2 -i 1")  # the tool reads no second one unless the first fails
        ask_until_answered(monitor, "startMonitoring")
        rows = times.hear("DefaultCluster", 2)
        deadline = time.monotonic() + ANSWER_SECONDS
        while "OFFSET_MOVED_EVENT" not in stage.ask("consumerConnection -g __MONITOR_CONSUMER"):
            assert time.monotonic() < deadline
        times.process.kill()
        monitor.process.kill()

    assert [row.split()[0::2] for row in rows[:2]] == [["broker-a", "2"]] * 2
