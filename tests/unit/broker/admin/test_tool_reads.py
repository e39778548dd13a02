"""What monitoring tools read of the broker is there: their names, each parsed as they parse it.

From their sources: ``BrokerRuntimeStats`` and ``MetricsCollectTask`` of RocketMQ's exporter,
``DashboardCollectTask``, ``CollectTaskRunnble`` and ``cluster.jsx`` of its dashboard, and
``ClusterListSubCommand`` of mqadmin.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
import trio
import trio.testing

from broker_rig import Peer, pull_ext, running_broker, send_ext

Parse = Callable[[str], object]

EXPORTER_LONGS = (
    "bootTimestamp",
    "brokerVersion",
    "commitLogMaxOffset",
    "commitLogMinOffset",
    "dispatchBehindBytes",
    "dispatchMaxBuffer",
    "earliestMessageTimeStamp",
    "getMessageEntireTimeMax",
    "msgGetTotalTodayMorning",
    "msgGetTotalTodayNow",
    "msgGetTotalYesterdayMorning",
    "msgPutTotalTodayMorning",
    "msgPutTotalTodayNow",
    "msgPutTotalYesterdayMorning",
    "pageCacheLockTimeMills",
    "pullThreadPoolQueueCapacity",
    "pullThreadPoolQueueHeadWaitTimeMills",
    "pullThreadPoolQueueSize",
    "putMessageEntireTimeMax",
    "putMessageSizeTotal",
    "putMessageTimesTotal",
    "queryThreadPoolQueueCapacity",
    "queryThreadPoolQueueHeadWaitTimeMills",
    "queryThreadPoolQueueSize",
    "remainTransientStoreBufferNumbs",
    "sendThreadPoolQueueCapacity",
    "sendThreadPoolQueueHeadWaitTimeMills",
    "sendThreadPoolQueueSize",
    "startAcceptSendRequestTimeStamp",
)
EXPORTER_DOUBLES = (
    "commitLogDiskRatio",
    "consumeQueueDiskRatio",
    "putLatency99",
    "putLatency999",
    "putMessageAverageSize",
)
EXPORTER_RATES = ("getFoundTps", "getMissTps", "getTotalTps", "getTransferredTps", "putTps")


def rates(text: str) -> list[float]:
    """Three numbers with blanks between them."""
    ten, sixty, six_hundred = (float(part) for part in text.split(" "))
    return [ten, sixty, six_hundred]


def spread(text: str) -> dict[str, int]:
    """Names in brackets, a colon and a number; all thirteen, which have a metric each."""
    if text == "null":
        return {}
    rows = [part.split(":") for part in text.strip(" ").split(" ")]
    found = {name.strip("[]"): int(count) for name, count in rows}
    assert len(found) == 13
    return found


def space(text: str) -> tuple[str, str]:
    """The third and fourth word with the comma, and the seventh and eighth with the dot."""
    words = text.split(" ")
    return f"{float(words[2])} {words[3][:-1]}", f"{float(words[6])} {words[7][:-1]}"


def offsets(text: str) -> list[int]:
    """Two numbers with a comma between them."""
    return [int(part) for part in text.split(",")]


EXPORTER: dict[str, Parse] = {
    **dict.fromkeys(EXPORTER_LONGS, int),
    **dict.fromkeys(EXPORTER_DOUBLES, float),
    **dict.fromkeys(EXPORTER_RATES, rates),
    "brokerVersionDesc": str,
    "commitLogDirCapacity": space,
    "putMessageDistributeTime": spread,
    "remainHowManyDataToFlush": lambda text: float(text.split(" ")[0]),
    "runtime": str,
}
DASHBOARD: dict[str, Parse] = {
    "bootTimestamp": int,
    "brokerVersionDesc": str,
    "getTotalTps": rates,
    "getTransferredTps": rates,
    "msgGetTotalTodayMorning": float,
    "msgGetTotalTodayNow": float,
    "msgGetTotalYesterdayMorning": float,
    "msgPutTotalTodayMorning": float,
    "msgPutTotalTodayNow": float,
    "msgPutTotalYesterdayMorning": float,
    "putTps": rates,
    "timerCongestNum": int,
    "timerDequeueTps": float,
    "timerEnqueueTps": float,
    "timerOffsetBehind": int,
    "timerReadBehind": int,
}
MQADMIN: dict[str, Parse] = {
    **DASHBOARD,
    "brokerActive": {"true": True, "false": False}.__getitem__,
    "commitLogDiskRatio": float,
    "consumeQueueDiskRatio": float,
    "earliestMessageTimeStamp": int,
    "pageCacheLockTimeMills": int,
    "pullThreadPoolQueueHeadWaitTimeMills": int,
    "pullThreadPoolQueueSize": int,
    "putMessageAverageSize": float,
    "sendThreadPoolQueueHeadWaitTimeMills": int,
    "sendThreadPoolQueueSize": int,
}
STATISTICS = {
    "BROKER_GET_NUMS": "DefaultCluster",
    "BROKER_PUT_NUMS": "DefaultCluster",
    "GROUP_GET_NUMS": "T@G",
    "GROUP_GET_SIZE": "T@G",
    "SNDBCK_PUT_NUMS": "T@G",
    "TOPIC_PUT_NUMS": "T",
    "TOPIC_PUT_SIZE": "T",
}
"""What the exporter asks 315 for, each with its key; dashboard and mqadmin ask for two of them."""


async def busy_minute(peer: Peer) -> None:
    """Sends, pulls, and a message that is sent back; then a minute passes."""
    for _ in range(4):
        assert (await peer.call(10, send_ext("T"), b"hello")).code == 0
    got = await peer.call(11, pull_ext("T"))
    back = {"offset": str(int.from_bytes(got.body[28:36], "big")), "group": "G", "delayLevel": "1"}
    assert (await peer.call(36, {**back, "originTopic": "T"})).code == 0
    await trio.sleep(65)


@pytest.mark.parametrize(
    "names", [EXPORTER, DASHBOARD, MQADMIN], ids=["exporter", "dashboard", "mqadmin"]
)
async def test_names_that_tools_read(
    names: dict[str, Parse], autojump_clock: trio.testing.MockClock
) -> None:
    """None is missing, at the start and later, and each is parsed."""
    async with running_broker() as running:
        peer = running.connect()
        for _ in range(2):
            table = json.loads((await peer.call(28)).body)["table"]
            for name, parse in names.items():
                parse(table[name])
            for name in table:
                if name.startswith("scheduleMessageOffset"):
                    offsets(table[name])
            await busy_minute(peer)


async def test_statistics_that_tools_read(autojump_clock: trio.testing.MockClock) -> None:
    """Each has counted, with a sum, growth a second and growth a call, as long as it has readings.

    The dashboard takes the sum of the day, else of the hour, else of the minute.
    """
    async with running_broker() as running:
        peer = running.connect()
        await busy_minute(peer)
        for name, key in STATISTICS.items():
            answer = await peer.call(315, {"statsName": name, "statsKey": key})
            found: dict[str, Any] = json.loads(answer.body)

            spans = [found[f"stats{span}"] for span in ("Minute", "Hour", "Day")]
            assert all(set(one) == {"avgpt", "sum", "tps"} for one in spans), name
            assert spans[0]["sum"] > 0, name
            assert spans[0]["tps"] > 0, name
