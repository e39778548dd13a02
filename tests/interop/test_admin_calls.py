"""Every call of RocketMQ's DefaultMQAdminExt: it works, or is refused with a reason that it shows.

Tools and dashboards are made of these calls.
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Callable, Generator, Mapping

import attrs
import pytest

from interop.java_peer import free_ports
from interop.serving import Broker, starting
from interop.talking import Talking, talking
from interop.test_vip_channel import with_vip_channel
from waiting import wait_until

pytestmark = [pytest.mark.slow, pytest.mark.interop]

TOPIC = "CallsTopic"
GROUP = "CallsGroup"
ABANDONED = "TRANS_CHECK_MAX_TIME_TOPIC"
PATIENCE_SECONDS = 60.0


@attrs.frozen
class Works:
    """The call returns, and says so much."""

    args: str
    """Its arguments; names in capitals stand for what the stage has."""
    says: str = ""
    """Part of what it returns."""


@attrs.frozen
class Refused:
    """The call fails, and shows why."""

    args: str
    why: str


def refused(args: str, name: str, code: int, why: str) -> Refused:
    """Refused by its request code, with the reason of the broker."""
    return Refused(args, f"REQUEST_CODE: {name} ({code}) is not supported: {why}")


def no_lite(args: str, code: int) -> Refused:
    """Refused since there are no lite topics."""
    return Refused(args, str(code))


ACCOUNTS = "accounts stand in `plain_acl.yml`"
METADATA = ("CONTROLLER_GET_METADATA_INFO", 1005, "no controller")
QUEUE = "TOPIC@broker-a@0"
FOUND = '"offsetTable":{'

CALLS: Mapping[str, Works | Refused] = {
    # -- topics and groups -----------------------------------------------------------------------
    "createTopic(String,String,int,Map)": Works("TBW102 Made 2 EMPTY"),
    "createTopic(String,String,int,int,Map)": Works("TBW102 Made2 2 0 EMPTY"),
    "createAndUpdateTopicConfig(String,TopicConfig)": Works("BROKER Second"),
    "createAndUpdateTopicConfigList(String,List)": Works("BROKER Third,Fourth,Fifth"),
    "createAndUpdateSubscriptionGroupConfig(String,SubscriptionGroupConfig)": Works("BROKER Ga"),
    "createAndUpdateSubscriptionGroupConfigList(String,List)": Works("BROKER Gb,Gc"),
    "createStaticTopic(String,String,TopicConfig,TopicQueueMappingDetail,boolean)": refused(
        "BROKER TBW102 Static Static true",
        "UPDATE_AND_CREATE_STATIC_TOPIC",
        513,
        "no static topics",
    ),
    "examineTopicConfig(String,String)": Works("BROKER TOPIC", "topicName=TOPIC, readQueueNums=2"),
    "examineSubscriptionGroupConfig(String,String)": Works("BROKER GROUP", "groupName=GROUP"),
    "updateAndGetGroupReadForbidden(String,String,String,Boolean)": Works(
        "BROKER Ga TOPIC false",
        '"readable":false',  # 353
    ),
    "setMessageRequestMode(String,String,String,MessageRequestMode,int,long)": Works(
        "BROKER TOPIC GROUP PULL 0 20000"  # 401
    ),
    "getAllTopicConfig(String,long)": Works("BROKER 20000", '"TOPIC":{'),
    "getUserTopicConfig(String,boolean,long)": Works("BROKER false 20000", '"TOPIC":{'),
    "getAllSubscriptionGroup(String,long)": Works("BROKER 20000", '"GROUP":{'),
    "getUserSubscriptionGroup(String,long)": Works("BROKER 20000", '"GROUP":{'),
    "fetchAllTopicList()": Works("", '"TOPIC"'),
    "fetchTopicsByCLuster(String)": Works("DefaultCluster", '"TOPIC"'),
    "getClusterList(String)": Works("TOPIC"),
    "getTopicClusterList(String)": Works("TOPIC", "[DefaultCluster]"),
    "examineTopicRouteInfo(String)": Works("TOPIC", '"brokerName":"broker-a"'),
    "examineTopicStats(String)": Works("TOPIC", FOUND),
    "examineTopicStats(String,String)": Works("BROKER TOPIC", FOUND),
    "examineTopicStatsConcurrent(String)": Works("TOPIC", FOUND),
    "deleteTopic(String,String)": Works("Second DefaultCluster"),
    "deleteTopicInBroker(Set,String)": Works("BROKER Third"),
    "deleteTopicInBrokerConcurrent(Set,String)": Works("BROKER Fourth"),
    "deleteTopicInNameServer(Set,String)": Works("NAMESRV Fifth"),
    "deleteTopicInNameServer(Set,String,String)": Works("NAMESRV DefaultCluster Fifth"),
    "deleteSubscriptionGroup(String,String)": Works("BROKER Gb"),
    "deleteSubscriptionGroup(String,String,boolean)": Works("BROKER Gc true"),
    # -- messages --------------------------------------------------------------------------------
    "viewMessage(String,String)": Works("TOPIC UNIQUE_ID", "now0"),
    "queryMessage(String,String,String)": Works("DefaultCluster TOPIC UNIQUE_ID", "now0"),
    "queryMessage(String,String,int,long,long)": Works("TOPIC now0 9 0 EVER", "now0"),
    "queryMessage(String,String,String,int,long,long)": Works(
        "DefaultCluster TOPIC now0 9 0 EVER", "now0"
    ),
    "queryMessage(String,String,String,int,long,long,String,String)": Works(
        "DefaultCluster TOPIC now0 9 0 EVER K EMPTY", "now0"
    ),
    "queryMessageByUniqKey(String,String,String,int,long,long)": Works(
        "DefaultCluster TOPIC UNIQUE_ID 9 0 EVER", "now0"
    ),
    "messageTrackDetail(MessageExt)": Works("TOPIC@UNIQUE_ID", "consumerGroup=GROUP"),
    "messageTrackDetailConcurrent(MessageExt)": Works("TOPIC@UNIQUE_ID", "consumerGroup=GROUP"),
    "consumeMessageDirectly(String,String,String,String)": Works(
        "GROUP CLIENT TOPIC OFFSET_ID", "CR_SUCCESS"
    ),
    "consumeMessageDirectly(String,String,String,String,String)": Works(
        "DefaultCluster GROUP CLIENT TOPIC OFFSET_ID", "CR_SUCCESS"
    ),
    "resumeCheckHalfMessage(String,String)": Works(f"{ABANDONED} ABANDONED_ID", "true"),  # 323
    "queryConsumeQueue(String,String,int,long,int,String)": Works(
        "BROKER TOPIC 0 0 9 GROUP", '"maxQueueIndex"'
    ),
    "maxOffset(MessageQueue)": Works(QUEUE),
    "minOffset(MessageQueue)": Works(QUEUE, "0"),
    "earliestMsgStoreTime(MessageQueue)": Works(QUEUE),
    "searchOffset(MessageQueue,long)": Works(f"{QUEUE} 0", "0"),
    "searchOffset(String,String,int,long,long)": Works("BROKER TOPIC 0 0 20000", "0"),
    "searchLowerBoundaryOffset(MessageQueue,long)": Works(f"{QUEUE} 0", "0"),
    "searchUpperBoundaryOffset(MessageQueue,long)": Works(f"{QUEUE} 0"),
    # -- consumers and their offsets ---------------------------------------------------------------
    "examineConsumeStats(String)": Works("GROUP", FOUND),
    "examineConsumeStats(String,String)": Works("GROUP TOPIC", FOUND),
    "examineConsumeStats(String,String,String)": Works("DefaultCluster GROUP TOPIC", FOUND),
    "examineConsumeStats(String,String,String,long)": Works("BROKER GROUP TOPIC 20000", FOUND),
    "examineConsumeStatsConcurrent(String,String)": Works("GROUP TOPIC", FOUND),
    "fetchConsumeStatsInBroker(String,boolean,long)": Works("BROKER false 20000", '"GROUP"'),
    "examineConsumerConnectionInfo(String)": Works("GROUP", "CONSUME_PASSIVELY"),
    "examineConsumerConnectionInfo(String,String)": Works("GROUP BROKER", "CONSUME_PASSIVELY"),
    "examineProducerConnectionInfo(String,String)": Works("GROUP-P TOPIC", '"clientId"'),
    "getAllProducerInfo(String)": Works("BROKER", '"GROUP-P"'),
    "getConsumerRunningInfo(String,String,boolean)": Works("GROUP CLIENT false", "TOPIC"),
    "getConsumerRunningInfo(String,String,boolean,boolean)": Works(
        "GROUP CLIENT false false", "TOPIC"
    ),
    "getConsumeStatus(String,String,String)": Works("TOPIC GROUP null", "queueId="),
    "queryTopicConsumeByWho(String)": Works("TOPIC", '"GROUP"'),
    "queryTopicsByConsumer(String)": Works("GROUP", '"TOPIC"'),
    "queryTopicsByConsumerConcurrent(String)": Works("GROUP", '"TOPIC"'),
    "querySubscription(String,String)": Works("GROUP TOPIC", "subString=*"),
    "queryConsumeTimeSpan(String,String)": Works("TOPIC GROUP", "QueueTimeSpan"),
    "queryConsumeTimeSpanConcurrent(String,String)": Works("TOPIC GROUP", "QueueTimeSpan"),
    "cloneGroupOffset(String,String,String,boolean)": Works("GROUP Cloned TOPIC false"),
    "updateConsumeOffset(String,String,MessageQueue,long)": Works(f"BROKER Cloned {QUEUE} 1"),
    "resetOffsetByQueueId(String,String,String,int,long)": Works("BROKER Cloned TOPIC 0 0"),
    "resetOffsetByTimestamp(String,String,long,boolean)": Works("TOPIC GROUP 0 true", "=0"),
    "resetOffsetByTimestamp(String,String,String,long,boolean)": Works(
        "DefaultCluster TOPIC GROUP 0 true", "=0"
    ),
    "resetOffsetByTimestamp(String,String,long,boolean,boolean)": Works(
        "TOPIC GROUP 0 true false", "=0"
    ),
    "resetOffsetByTimestamp(String,String,String,long,boolean,boolean)": Works(
        "DefaultCluster TOPIC GROUP 0 true false", "=0"
    ),
    "resetOffsetByTimestampOld(String,String,long,boolean)": Works("Cloned TOPIC 0 true"),
    "resetOffsetByTimestampOld(String,String,String,long,boolean)": Works(
        "DefaultCluster Cloned TOPIC 0 true"
    ),
    "resetOffsetNew(String,String,long)": Works("GROUP TOPIC 0"),
    "resetOffsetNewConcurrent(String,String,long)": Works("GROUP TOPIC 0"),
    # -- the broker ------------------------------------------------------------------------------
    "examineBrokerClusterInfo()": Works("", "broker-a"),
    "fetchBrokerRuntimeStats(String)": Works("BROKER", "msgPutTotalTodayNow"),
    "viewBrokerStatsData(String,String,String)": Works("BROKER TOPIC_PUT_NUMS TOPIC", "statsDay"),
    "getBrokerConfig(String)": Works("BROKER", "brokerName=broker-a"),
    "updateBrokerConfig(String,Properties)": Works("BROKER fileReservedTime=48"),
    "cleanExpiredConsumerQueue(String)": Works("DefaultCluster", "true"),
    "cleanExpiredConsumerQueueByAddr(String)": Works("BROKER", "true"),
    "cleanUnusedTopic(String)": Works("DefaultCluster", "true"),
    "cleanUnusedTopicByAddr(String)": Works("BROKER", "true"),
    "deleteExpiredCommitLog(String)": Works("DefaultCluster", "true"),
    "deleteExpiredCommitLogByAddr(String)": Works("BROKER", "true"),
    "getBrokerHAStatus(String)": Works("BROKER", '"master":true'),  # 907
    "getBrokerEpochCache(String)": Works("BROKER", '"epochList":[]'),  # 1007
    "resetMasterFlushOffset(String,long)": Works("BROKER 0"),  # 908
    "updateColdDataFlowCtrGroupConfig(String,Properties)": Works("BROKER GROUP=1024"),  # 2001
    "getColdDataFlowCtrInfo(String)": Works("BROKER", '"configTable":{"GROUP":1024}'),  # 2003
    "removeColdDataFlowCtrGroupConfig(String,String)": Works("BROKER GROUP"),  # 2002
    "setCommitLogReadAheadMode(String,String)": Works("BROKER 0", "success, mode: 0"),  # 2004
    "checkRocksdbCqWriteProgress(String,String,long)": refused(
        "BROKER TOPIC 0", "CHECK_ROCKSDB_CQ_WRITE_PROGRESS", 354, "no RocksDB"
    ),
    "exportRocksDBConfigToJson(String,List)": refused(
        "BROKER TOPICS", "EXPORT_ROCKSDB_CONFIG_TO_JSON", 355, "no RocksDB"
    ),
    "exportPopRecords(String,long)": refused("BROKER 20000", "POP_ROLLBACK", 200_056, "no POP"),
    "switchTimerEngine(String,String)": Refused("BROKER F", "5001"),
    # -- the name server -------------------------------------------------------------------------
    "getNameServerAddressList()": Works("", "NAMESRV"),
    "getNameServerConfig(List)": Works("NAMESRV", "brokerName=broker-a"),
    "updateNameServerConfig(Properties,List)": Works("recallMessageEnable=true NAMESRV"),  # 318
    "putKVConfig(String,String,String)": Works("N k v"),
    "createAndUpdateKvConfig(String,String,String)": Works("N k v"),
    "getKVConfig(String,String)": Works("N k", "v"),
    "getKVListByNamespace(String)": Works("N", '"k":"v"'),
    "deleteKvConfig(String,String)": Works("N k"),
    "createOrUpdateOrderConf(String,String,boolean)": Works("TOPIC broker-a:2 true"),
    "wipeWritePermOfBroker(String,String)": Works("NAMESRV broker-a"),
    "addWritePermOfBroker(String,String)": Works("NAMESRV broker-a"),
    # -- what is not here ------------------------------------------------------------------------
    "addBrokerToContainer(String,String)": refused(
        "BROKER EMPTY", "ADD_BROKER", 902, "no broker containers"
    ),
    "removeBrokerFromContainer(String,String,String,long)": refused(
        "BROKER DefaultCluster broker-a 0", "REMOVE_BROKER", 903, "no broker containers"
    ),
    "getInSyncStateData(String,List)": refused("BROKER broker-a", *METADATA),
    "getControllerMetaData(String)": refused("BROKER", *METADATA),
    "electMaster(String,String,String,Long)": refused(
        "BROKER DefaultCluster broker-a 0", *METADATA
    ),
    "cleanControllerBrokerData(String,String,String,String,boolean)": refused(
        "BROKER DefaultCluster broker-a 0 true", *METADATA
    ),
    "updateControllerConfig(Properties,List)": refused(
        "a=b BROKER", "UPDATE_CONTROLLER_CONFIG", 1009, "no controller"
    ),
    "getControllerConfig(List)": refused("BROKER", "GET_CONTROLLER_CONFIG", 1010, "no controller"),
    "createUser(String,UserInfo)": refused("BROKER u", "AUTH_CREATE_USER", 3001, ACCOUNTS),
    "createUser(String,String,String,String)": refused(
        "BROKER u p NORMAL", "AUTH_CREATE_USER", 3001, ACCOUNTS
    ),
    "updateUser(String,UserInfo)": refused("BROKER u", "AUTH_UPDATE_USER", 3002, ACCOUNTS),
    "updateUser(String,String,String,String,String)": refused(
        "BROKER u p NORMAL enable", "AUTH_UPDATE_USER", 3002, ACCOUNTS
    ),
    "deleteUser(String,String)": refused("BROKER u", "AUTH_DELETE_USER", 3003, ACCOUNTS),
    "getUser(String,String)": refused("BROKER u", "AUTH_GET_USER", 3004, ACCOUNTS),
    "listUser(String,String)": refused("BROKER u", "AUTH_LIST_USER", 3005, ACCOUNTS),
    "createAcl(String,AclInfo)": refused("BROKER u", "AUTH_CREATE_ACL", 3006, ACCOUNTS),
    "createAcl(String,String,List,List,List,String)": refused(
        "BROKER User:u Topic:T Pub 127.0.0.1 ALLOW", "AUTH_CREATE_ACL", 3006, ACCOUNTS
    ),
    "updateAcl(String,AclInfo)": refused("BROKER u", "AUTH_UPDATE_ACL", 3007, ACCOUNTS),
    "updateAcl(String,String,List,List,List,String)": refused(
        "BROKER User:u Topic:T Pub 127.0.0.1 ALLOW", "AUTH_UPDATE_ACL", 3007, ACCOUNTS
    ),
    "deleteAcl(String,String,String)": refused(
        "BROKER User:u Topic:T", "AUTH_DELETE_ACL", 3008, ACCOUNTS
    ),
    "getAcl(String,String)": refused("BROKER User:u", "AUTH_GET_ACL", 3009, ACCOUNTS),
    "listAcl(String,String,String)": refused("BROKER u T", "AUTH_LIST_ACL", 3010, ACCOUNTS),
    "getBrokerLiteInfo(String)": no_lite("BROKER", 200_074),
    "getParentTopicInfo(String,String)": no_lite("BROKER TOPIC", 200_075),
    "getLiteTopicInfo(String,String,String)": no_lite("BROKER TOPIC lite", 200_076),
    "getLiteClientInfo(String,String,String,String)": no_lite("BROKER TOPIC GROUP CLIENT", 200_077),
    "getLiteGroupInfo(String,String,String,int)": no_lite("BROKER GROUP lite 9", 200_078),
    "triggerLiteDispatch(String,String,String)": no_lite("BROKER GROUP CLIENT", 200_079),
}
"""In the order in which they are called: some need what others have made."""

EXPORTER = """
examineBrokerClusterInfo fetchAllTopicList examineTopicStats getAllProducerInfo
queryTopicConsumeByWho examineConsumerConnectionInfo examineConsumeStats examineTopicRouteInfo
viewBrokerStatsData fetchBrokerRuntimeStats getConsumerRunningInfo getNameServerAddressList
getAllSubscriptionGroup getAllTopicConfig
"""
"""What rocketmq-exporter calls; it makes the requests 21 and 201 itself."""
DASHBOARD = """
examineBrokerClusterInfo examineConsumerConnectionInfo viewMessage queryTopicConsumeByWho
examineTopicRouteInfo examineConsumeStats deleteTopicInBroker viewBrokerStatsData queryMessage
getConsumerRunningInfo fetchBrokerRuntimeStats fetchAllTopicList deleteTopicInNameServer
consumeMessageDirectly resetOffsetByTimestampOld resetOffsetByTimestamp messageTrackDetail
getBrokerConfig getAllTopicConfig getAllSubscriptionGroup examineTopicStats examineTopicConfig
examineSubscriptionGroupConfig examineProducerConnectionInfo deleteSubscriptionGroup
createAndUpdateTopicConfig createAndUpdateSubscriptionGroupConfig
"""
"""What rocketmq-dashboard calls, without accounts and ACLs; it makes 201 and 351 itself."""


@attrs.frozen
class Stage:
    """A broker, the program that calls, and what stands for the names in arguments."""

    broker: Broker
    admin: Talking
    names: Mapping[str, str]

    def call(self, method: str, args: str) -> str:
        """The one line with the outcome of a call, without what the client logs."""
        said = self.admin.ask(f"{method} {self.fill(args)}".strip())
        (outcome,) = re.findall(r"^(?:OK|REFUSED) .*$", said, re.MULTILINE)
        return str(outcome)

    def fill(self, text: str) -> str:
        """A text with what the names in it stand for."""
        return re.sub(rf"\b({'|'.join(self.names)})\b", lambda found: self.names[found[0]], text)


@pytest.fixture(scope="module")
def stage(
    tmp_path_factory: pytest.TempPathFactory, java_client: Callable[..., list[str]]
) -> Generator[Stage]:
    """A topic with messages and a member of a group; transactions are abandoned at once.

    The calls come by the VIP channel, as those of the dashboard do by default.
    """
    folder = tmp_path_factory.mktemp("admin-calls")
    at_once = ("transaction_time_out_ms=0", "transaction_check_max=0")
    settings = (*at_once, "transaction_check_interval_ms=200", "vip_listen_enable=true")
    flags = [f"--set={one}" for one in settings]
    port, _ = free_ports(0, -2)
    with contextlib.ExitStack() as stack:
        start = stack.enter_context(starting())
        broker = start(folder / "store", *flags, listen=f"127.0.0.1:{port}")
        calls = with_vip_channel(java_client("AdminCalls", broker.namesrv))
        admin = stack.enter_context(talking(calls))
        admin.ask(f"createAndUpdateTopicConfig(String,TopicConfig) {broker.listen} {TOPIC}")
        with talking(java_client("Member", broker.namesrv, TOPIC, GROUP)) as member:
            (client,) = member.hear("READY ")
            member.say("9 0 now")
            member.hear("GOT now", 9)
            (sent,) = [one for one in member.hear("SENT now", 9) if one.startswith("0 ")]
            _, _, offset_id, unique_id = sent.split()
            wait(admin, f"queryTopicsByConsumer(String) {GROUP}", TOPIC)  # it has committed
            counted = f"{broker.listen} TOPIC_PUT_NUMS {TOPIC}"
            wait(admin, f"viewBrokerStatsData(String,String,String) {counted}", "statsDay")
            names = {
                "BROKER": broker.listen,
                "NAMESRV": broker.namesrv,
                "TOPIC": TOPIC,
                "GROUP": GROUP,
                "CLIENT": client,
                "OFFSET_ID": offset_id,
                "UNIQUE_ID": unique_id,
                "ABANDONED_ID": abandoned(admin),
                "EVER": str(1 << 61),
            }
            yield Stage(broker, admin, names)


def abandoned(admin: Talking) -> str:
    """The id of a transactional message that the broker has given up."""
    message_id = admin.ask(f"abandon {TOPIC}").splitlines()[-1]
    wait(admin, f"maxOffset(MessageQueue) {ABANDONED}@broker-a@0", "OK 1")
    return message_id


def wait(admin: Talking, call: str, says: str) -> None:
    """Until a call returns that."""
    wait_until(
        lambda: says in admin.ask(call), PATIENCE_SECONDS, told=lambda: admin.heard[-9:], pause=0.1
    )


def test_every_call_is_in_the_table(stage: Stage) -> None:
    """A call that a release of RocketMQ has and the table has not is a failure."""
    methods = {one for one in stage.admin.ask("methods").splitlines() if one.endswith(")")}

    assert len(methods) > 130
    assert methods - CALLS.keys() == set()


def test_every_call(stage: Stage) -> None:
    """Each one in the order of the table; all that go wrong are told together."""
    there = set(stage.admin.ask("methods").splitlines())
    wrong: list[str] = []
    for method, expected in CALLS.items():
        if method not in there:  # of a later release
            continue
        outcome = stage.call(method, expected.args)
        good = (
            f"OK .*{re.escape(stage.fill(expected.says))}.*"
            if isinstance(expected, Works)
            else f"REFUSED .*{re.escape(expected.why)}.*"
        )
        if re.fullmatch(good, outcome) is None:
            wrong.append(f"{method} {expected.args}: expected {good}, found {outcome[:400]}")

    assert wrong == []


@pytest.mark.parametrize("tool", [EXPORTER, DASHBOARD], ids=["exporter", "dashboard"])
def test_what_the_tools_call_works(tool: str) -> None:
    """None of their calls is one that is refused."""
    works = {name.partition("(")[0] for name, call in CALLS.items() if isinstance(call, Works)}

    assert set(tool.split()) - works == set()
