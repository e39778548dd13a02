"""What RocketMQ's consumer sees of a message, from RocketMQ's broker and from ours: all properties.

Each difference stands in a table, with its reason; a difference that the table does not have fails,
and so does a row that is none.
"""

from __future__ import annotations

import subprocess
from pathlib import Path

import attrs
import pytest

from interop.conftest import Client
from interop.java_peer import RELEASE_5_3, RELEASE_5_5, JavaPeer
from interop.serving import serving

pytestmark = [pytest.mark.slow, pytest.mark.interop]

TIMERS = ("delay", "seconds", "moment")
RETRIES = ("retry", "retried level")
LEVELS = ("level", *RETRIES)
BATCH = ("batch0", "batch1")
WAYS = {"plain", *TIMERS, "level", "transactional", *BATCH, *RETRIES}
"""Names of the messages of ``PropertyClient.java``: the ways in which they are sent."""

VARYING = {
    "CONSUME_START_TIME",
    "MAX_OFFSET",
    "MIN_OFFSET",
    "ORIGIN_MESSAGE_ID",
    "REAL_QID",
    "TIMER_DELIVER_MS",
    "TIMER_DEQUEUE_MS",
    "TIMER_ENQUEUE_MS",
    "TIMER_OUT_MS",
    "UNIQ_KEY",
    "__transactionId__",
}
"""Properties whose values are of one run: of these it is compared whether they are there."""

Seen = dict[str, dict[str, str]]
"""By message its properties, and as ``level`` what ``getDelayTimeLevel`` says."""


@attrs.frozen
class Row:
    """Properties that differ on some messages."""

    names: tuple[str, ...]
    ways: tuple[str, ...]
    why: str
    releases: tuple[str, ...] = (RELEASE_5_3.broker, RELEASE_5_5.broker)
    """Of RocketMQ."""
    also_left: bool = True
    """The difference is there with ``leave_timer_properties``, too."""

    def places(self) -> set[tuple[str, str]]:
        """Messages, each with one of the properties."""
        return {(way, name) for way in self.ways for name in self.names}


TABLE = (
    Row(
        ("REAL_TOPIC", "REAL_QID"),
        (*TIMERS, *LEVELS),
        "only a broker sets them: ours takes them off, so that a copy can be forwarded",
        also_left=False,
    ),
    Row(
        ("TIMER_OUT_MS", "TIMER_ENQUEUE_MS", "TIMER_DEQUEUE_MS"),
        TIMERS,
        "RocketMQ leaves them, and delivers at once what is forwarded with them",
        also_left=False,
    ),
    Row(
        ("TIMER_DELIVER_MS",),
        ("delay", "seconds", *LEVELS),
        "ours: the exact moment, which lateness is judged by",
    ),
    Row(
        ("REAL_TOPIC", "REAL_QID"),
        ("transactional",),
        "left from the half message, until 5.5",
        releases=(RELEASE_5_3.broker,),
    ),
    Row(
        ("CLUSTER", "MSG_REGION", "TRACE_ON"),
        BATCH,
        "5.5 sets them on the batch alone; ours and 5.3 on each message",
        releases=(RELEASE_5_5.broker,),
    ),
    Row(
        ("WAIT",),
        RETRIES,
        "RocketMQ overwrites the producer's with false when it stores the retry",
    ),
)


def seen(client: list[str]) -> Seen:
    """What the program prints of each message."""
    run = subprocess.run(client, capture_output=True, text=True, timeout=300, check=False)

    assert "DONE" in run.stdout.splitlines(), run.stdout[-4000:] + run.stderr[-2000:]
    found: Seen = {}
    for line in run.stdout.splitlines():
        word, *words = line.split("\t")
        if word == "GOT":
            name, level, *pairs = words
            properties = dict(pair.split("=", 1) for pair in pairs)
            found[name] = {
                key: "…" if key in VARYING else value for key, value in properties.items()
            }
            found[name]["level"] = level
    return found


def differences(one: Seen, other: Seen) -> set[tuple[str, str]]:
    """Messages and properties in which two differ."""
    return {
        (way, name)
        for way in WAYS
        for name in {*one[way], *other[way]}
        if one[way].get(name) != other[way].get(name)
    }


@pytest.fixture(scope="module", params=["5.5", "5.3"])
def javas(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory, java_client: Client
) -> tuple[str, Seen]:
    """A release of RocketMQ, and what its broker lets consumers see."""
    is_new = request.param == "5.5"
    peer: JavaPeer = request.getfixturevalue("java_peer" if is_new else "java_peer_5_3")
    store = tmp_path_factory.mktemp("javas") / "store"
    with peer.broker(store) as broker:
        shown = seen(java_client("PropertyClient", broker.namesrv, "T", "G"))
    return (RELEASE_5_5 if is_new else RELEASE_5_3).broker, shown


def ours_with(home: Path, client: Client, *flags: str) -> Seen:
    """What our broker lets consumers see."""
    with serving(home / "store", *flags) as broker:
        return seen(client("PropertyClient", broker.namesrv, "T", "G"))


@pytest.fixture(scope="module")
def ours(tmp_path_factory: pytest.TempPathFactory, java_client: Client) -> Seen:
    """What our broker lets consumers see with the usual settings."""
    return ours_with(tmp_path_factory.mktemp("ours"), java_client)


@pytest.fixture(scope="module")
def ours_left(tmp_path_factory: pytest.TempPathFactory, java_client: Client) -> Seen:
    """With the setting that leaves what RocketMQ leaves."""
    home = tmp_path_factory.mktemp("ours-left")
    return ours_with(home, java_client, "--set", "leave_timer_properties=true")


def test_usual(javas: tuple[str, Seen], ours: Seen) -> None:
    """The differences are those of the table: level and transaction are told by both."""
    release, shown = javas
    expected = [row.places() for row in TABLE if release in row.releases]

    assert differences(shown, ours) == set().union(*expected)
    assert {way: one["DELAY"] for way, one in ours.items() if "DELAY" in one} == dict.fromkeys(
        LEVELS, "1"
    )
    assert [way for way, one in ours.items() if "TRAN_MSG" in one] == ["transactional"]


def test_left(javas: tuple[str, Seen], ours_left: Seen) -> None:
    """With ``leave_timer_properties`` those of timers are as in RocketMQ."""
    release, shown = javas
    expected = [row.places() for row in TABLE if release in row.releases and row.also_left]

    assert differences(shown, ours_left) == set().union(*expected)
