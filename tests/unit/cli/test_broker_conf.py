"""RocketMQ's broker.conf: names that translate by rule, by table, or not at all."""

from __future__ import annotations

import pytest

from timermq.cli.broker_conf import TOLD_BY_FILES, BrokerConf, parse_broker_conf, snake_case
from timermq.cli.settings import ConfigurationError

KNOWN = ("mapped_file_size_commit_log", "flush_interval_commit_log_ms", "store_path_root_dir")


@pytest.mark.parametrize(
    ("name", "key"),
    [
        ("mappedFileSizeCommitLog", "mapped_file_size_commit_log"),
        ("checkCRCOnRecover", "check_crc_on_recover"),
        ("brokerIP1", "broker_ip1"),
        ("timerPrecisionMs", "timer_precision_ms"),
    ],
)
def test_snake_case(name: str, key: str) -> None:
    """A name is cut at its humps; a run of capitals is one word."""
    assert key == snake_case(name)


def test_lines() -> None:
    """Comments and blank lines are passed over; units stand at the end of our names only."""
    text = """
        # a comment
        ! another
        mappedFileSizeCommitLog = 1048576
        flushIntervalCommitLog=200
        home=/data=1
        brokerFastFailureEnable=true
    """

    assert BrokerConf(
        values={
            "mapped_file_size_commit_log": "1048576",
            "flush_interval_commit_log_ms": "200",
            "store_path_root_dir": "/data=1",
        },
        names={
            "mapped_file_size_commit_log": "mappedFileSizeCommitLog",
            "flush_interval_commit_log_ms": "flushIntervalCommitLog",
            "store_path_root_dir": "home",
        },
        unknown=("brokerFastFailureEnable",),
    ) == parse_broker_conf(text, KNOWN, {"home": "store_path_root_dir"})


def test_names_of_one_key_say_the_same() -> None:
    """Which of them would count is not for the order of lines to say; one name may come again."""
    names = {"home": "store_path_root_dir"}
    said = r"^line 2: expected storePathRootDir as home, which are one setting here"
    with pytest.raises(ConfigurationError, match=said):
        parse_broker_conf("home=/a\nstorePathRootDir=/b\n", KNOWN, names)

    again = parse_broker_conf("home=/a\nhome=/b\nstorePathRootDir=/b\n", KNOWN, names)
    assert {"store_path_root_dir": "/b"} == again.values


def test_a_line_without_a_value() -> None:
    """The line is named by its number."""
    with pytest.raises(ConfigurationError, match=r"^line 2: expected key=value, found 'oops'$"):
        parse_broker_conf("a=1\noops\n", KNOWN, {})


@pytest.mark.parametrize(
    ("name", "served", "other", "what"),
    [
        ("storeType", "default", "defaultRocksDB", "queues and offsets that RocketMQ keeps in"),
        ("configManagerVersion", "v1", "v2", "topics and offsets that RocketMQ keeps in RocksDB"),
        ("rocksdbCQDoubleWriteEnable", "false", "true", "queues that RocketMQ keeps in RocksDB"),
        ("transRocksDBEnable", "false", "true", "transactions that RocketMQ keeps in RocksDB"),
        ("enableDLegerCommitLog", "false", "true", "a commit log of DLedger"),
    ],
)
def test_a_store_of_other_files(name: str, served: str, other: str, what: str) -> None:
    """What would be served without its queues, or as an empty store, is refused."""
    assert () == parse_broker_conf(f"{name} = {served}", KNOWN, {}).unknown
    with pytest.raises(ConfigurationError, match=f"line 2: {name}: expected {served}: .*{what}"):
        parse_broker_conf(f"# one\n{name}={other}", KNOWN, {})


def test_the_role_of_a_slave() -> None:
    """It follows as RocketMQ's would, and never registers as the master of its name."""
    known = {"broker_role", "broker_id", "ha_master_address", "slave_read_enable"}
    lines = "brokerRole=SLAVE\nbrokerId=1\nhaMasterAddress=m:10912\nslaveReadEnable=true"
    conf = parse_broker_conf(lines, known, {})

    assert conf.unknown == ()
    assert conf.values == {
        "broker_role": "SLAVE",
        "broker_id": "1",
        "ha_master_address": "m:10912",
        "slave_read_enable": "true",
    }


@pytest.mark.parametrize("name", sorted(TOLD_BY_FILES))
def test_engines_of_timers(name: str) -> None:
    """They are known whatever they say: the files tell which engines there were."""
    conf = parse_broker_conf(f"{name}=true\n{name}=false\n{name}=1000", KNOWN, {})

    assert ({}, ()) == (conf.values, conf.unknown)


def test_paths_that_rocketmq_itself_passes_over() -> None:
    """They stand in many such files, and name no setting of RocketMQ 5: no reason to refuse."""
    paths = "storePathConsumeQueue=/q\nstorePathIndex=/i\nstoreCheckpoint=/c\nabortFile=/a"
    names = ("storePathConsumeQueue", "storePathIndex", "storeCheckpoint", "abortFile")

    assert names == parse_broker_conf(paths, KNOWN, {}).unknown
