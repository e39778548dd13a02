"""The headers that our clients write are those that the real ones were seen to write."""

from __future__ import annotations

from timermq.remoting.client_header import UnregisterHeader
from timermq.remoting.command import Command
from timermq.remoting.pull_header import PullFlag, PullHeader


def test_pull_is_written_as_java_writes_it() -> None:
    """Eleven parameters, in the order of ``PullMessageRequestHeader``."""
    header = PullHeader(
        consumer_group="G",
        topic="T",
        queue_id=3,
        queue_offset=17,
        max_msg_nums=32,
        sys_flag=PullFlag.SUSPEND | PullFlag.SUBSCRIPTION,
        commit_offset=0,
        suspend_timeout_ms=15_000,
        subscription="*",
        sub_version=1_700_000_000_000,
    )

    expected = {
        "consumerGroup": "G",
        "topic": "T",
        "queueId": "3",
        "queueOffset": "17",
        "maxMsgNums": "32",
        "sysFlag": "6",
        "commitOffset": "0",
        "suspendTimeoutMillis": "15000",
        "subscription": "*",
        "subVersion": "1700000000000",
        "expressionType": "TAG",
    }
    assert list(expected.items()) == list(header.to_ext().items())
    assert header == PullHeader.of(Command(code=11, ext=expected))


def test_pull_says_little() -> None:
    """A place is enough: one message at most, nothing committed, the group's own filter."""
    ext = {"consumerGroup": "G", "topic": "T", "queueId": "0", "queueOffset": "0"}

    header = PullHeader.of(Command(code=11, ext=ext))
    assert (1, 0, -1) == (header.max_msg_nums, header.sys_flag, header.commit_offset)
    assert (None, "", 0, "TAG") == (
        header.suspend_timeout_ms,
        header.subscription,
        header.sub_version,
        header.expression_type,
    )


def test_a_group_that_is_not_named_is_not_written() -> None:
    """A producer leaves its group alone, a consumer says that it has no other."""
    producer = UnregisterHeader(client_id="c", producer_group="P")
    consumer = UnregisterHeader(client_id="c", producer_group="", consumer_group="G")

    assert {"clientID": "c", "producerGroup": "P"} == producer.to_ext()
    assert {"clientID": "c", "producerGroup": "", "consumerGroup": "G"} == consumer.to_ext()
