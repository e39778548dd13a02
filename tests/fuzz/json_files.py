"""JSON configuration files: any text is a value that is printed back, or refused with its place."""

from __future__ import annotations

from collections.abc import Callable

from timermq.broker.config_fields import ConfigTableError
from timermq.broker.config_table import ConfigTable
from timermq.broker.consumer_offset import ConsumerOffsetTable
from timermq.broker.consuming.queue_lock import QueueLockTable
from timermq.broker.options import BrokerOptions
from timermq.broker.subscription_group import SubscriptionGroupTable
from timermq.broker.topic_config import TopicConfigTable
from timermq.simulator.disks.memory_disk import MemoryDisk
from timermq.timerlog.timer_metrics import TimerMetrics
from timermq.timerstore.config_file import fastjson, parse_json, save_json_now
from timermq.timerstore.errors import StoreFormatError

OPTIONS = BrokerOptions()
TABLES: tuple[Callable[[], ConfigTable], ...] = (
    lambda: TopicConfigTable(OPTIONS, now_ms=lambda: 7, level_max=18),
    lambda: SubscriptionGroupTable(OPTIONS, now_ms=lambda: 7),
    lambda: ConsumerOffsetTable(now_ms=lambda: 7, version_step=500),
    lambda: QueueLockTable(current_time=lambda: 7.0, locks_max=100),
)
PATH = "/store/config/timermetrics"


def seeds() -> list[bytes]:
    """Each table as it is printed, metrics, and what only fastjson reads."""
    texts = [
        '{"dataVersion":{"counter":1,"stateVersion":0,"timestamp":7},"offsetTable":'
        '{"T@G":{0:7,1:9}},"groupTopicMap":{"G":["T"]}}',
        '{"topicConfigTable":{"T":{"topicName":"T","perm":6,"order":false,"attributes":'
        '{"+message.type":"DELAY"},"other":[1.5,null,{"a":"\\u0001"}]}}}',
        '{"subscriptionGroupTable":{"G":{"groupName":"G","retryMaxTimes":16}},"forbiddenTable":{}}',
        '{"subscriptionGroupTable":{"G":{"groupRetryPolicy":{"type":"EXPONENTIAL",'
        '"exponentialRetryPolicy":{"initial":1,"max":9,"multiplier":3}}}}}',
        '{"lockTable":{"G":{"c":[{"topic":"T","brokerName":"b","queueId":0}]}}}',
        '{"timingCount":{"T":{"count":2,"timeStamp":1}}}',
        '{"offsetTable":{"T@G":{"0":1,"00":2,"99999999999":1e999}},"x":9999999999999999999999}',
        '{{"brokerName":"b","queueId":0}:5,-1:[[],{}],"a":-0.0e1}',
    ]
    return [one.encode() for one in texts]


def fuzz_one(data: bytes) -> None:
    """Parsed and printed again it is the same; a table takes it over or says what is wrong."""
    text = data.decode("utf-8", "surrogateescape")
    try:
        value = parse_json(text)
    except StoreFormatError as error:
        assert 0 <= error.offset <= len(text.encode(errors="surrogatepass"))
        return
    printed = fastjson(value)
    assert fastjson(parse_json(printed)) == printed
    fastjson(value, pretty=False)
    for make in TABLES:
        _check_table(make, value)
    _check_metrics(printed)


def _check_table(make: Callable[[], ConfigTable], value: object) -> None:
    table = make()
    try:
        table.load(value)
    except ConfigTableError as error:
        assert str(error).startswith("config/")
        return
    printed = fastjson(table.to_json())
    again = make()
    again.load(parse_json(printed))
    assert fastjson(again.to_json()) == printed


def _check_metrics(text: str) -> None:
    disk = MemoryDisk()
    save_json_now(disk, PATH, text)
    metrics = TimerMetrics.load(disk, PATH)
    assert all(count >= 0 for count in metrics.counts().values())
    parse_json(metrics.text(7))
