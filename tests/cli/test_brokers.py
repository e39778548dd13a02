"""`timermq serve --brokers N`: several brokers as one, and one of them killed under load."""

from __future__ import annotations

import datetime
import json
import signal
import urllib.request
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import attrs
import psutil
import pytest
import trio

from cli.program import SMALL_FILES, Ran, RunProgram
from interop.serving import READY_SECONDS, free_port
from interop.several import Several, serving_several
from timermq.client import ClientError, Consumer, Producer
from timermq.client.recall import broker_of
from waiting import wait_until

pytestmark = pytest.mark.slow

FLAGS = (*SMALL_FILES, "--metrics-listen=127.0.0.1:0")
BEFORE, AFTERWARDS = 20, 60
"""Messages that a broker has taken before the kill, and the other one after it."""
DELAY = datetime.timedelta(seconds=3)
SENDERS = 4


@pytest.fixture(scope="module")
def two(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Several]:
    """Two brokers, shared by the tests; each takes a topic of its own."""
    with serving_several(tmp_path_factory.mktemp("brokers") / "stores", 2, *FLAGS) as one:
        yield one


def page(two: Several, path: str) -> str:
    """A page of the supervisor's port."""
    address = two.told("brokers ready")[0]["metrics_listen"]
    with urllib.request.urlopen(f"http://{address}{path}", timeout=60) as answer:
        return str(answer.read().decode())


def spread(two: Several, topic: str) -> list[dict[str, object]]:
    """A message for each queue of both brokers, due in an hour and later; as they were sent."""
    two.make_topic(topic)

    async def send() -> list[dict[str, object]]:
        async with Producer(two.namesrv) as producer:
            receipts = [
                await producer.send(
                    topic, b"x", delay=datetime.timedelta(hours=hours), key=f"{topic}{hours}"
                )
                for hours in (4, 3, 2, 1)
            ]
        return [attrs.asdict(one) for one in receipts]

    return trio.run(send)


def test_one_list(timermq: RunProgram, two: Several) -> None:
    """What waits at both stands in the order in which it fires, and says where it waits."""
    sent = spread(two, "Listed")
    ran = timermq("pending", "--topic", "Listed", "--json", "--namesrv", two.namesrv)

    assert (0, "") == (ran.code, ran.err)
    assert [one["message_id"] for one in reversed(sent)] == [one["unique_id"] for one in ran.rows]
    assert set(two.addresses) == {one["broker"] for one in ran.rows}


def test_any_message_is_found(timermq: RunProgram, two: Several) -> None:
    """By handle, id or key it is cancelled, moved and explained, whichever broker has it."""
    sent = spread(two, "Found")
    asked = ("--namesrv", two.namesrv)
    explained = [
        timermq("explain", str(one["message_id"]), "--json", *asked).rows[0] for one in sent
    ]
    moved = timermq("reschedule", "Found", "--id", str(sent[0]["message_id"]), "--delay=9h", *asked)
    cancelled = [
        timermq("cancel", "Found", str(sent[1]["recall_handle"]), *asked),
        timermq("cancel", "Found", "--id", str(sent[2]["message_id"]), *asked),
        timermq("cancel", "Found", "--key", "Found1", *asked),
    ]
    left = timermq("pending", "--topic", "Found", "--json", *asked).rows

    assert set(two.addresses) == {one["broker"] for one in explained}
    assert moved.out.startswith("moved")
    assert ["cancelled\n"] * 3 == [one.out for one in cancelled]
    assert ["Found4"] == [one["keys"] for one in left]


def test_one_picture(timermq: RunProgram, two: Several) -> None:
    """`top` shows the sum of both; its JSON has a snapshot of each."""
    spread(two, "Watched")

    def of_topic(frame: str) -> list[str]:
        return [line for line in frame.splitlines() if " Watched " in line and " 4 " in line]

    def once() -> Ran:
        return timermq("top", "--once", "--namesrv", two.namesrv)

    # A message is sent before it has its place in the wheel.
    wait_until(lambda: bool(of_topic(once().out)), READY_SECONDS, told=lambda: once().out)
    frame = once()
    snapshots = timermq("top", "--once", "--json", "--namesrv", two.namesrv).rows

    assert (0, "") == (frame.code, frame.err)
    assert "2 brokers" in frame.out.splitlines()[0]
    assert 1 == len(of_topic(frame.out))
    assert set(two.addresses) == {one["address"] for one in snapshots}


def test_one_page_of_metrics(two: Several) -> None:
    """The supervisor's page has the series of both, and is ready when both are."""
    text = page(two, "/metrics")

    assert "ready\n" == page(two, "/readyz")
    for number in (0, 1):
        labels = f'cluster="DefaultCluster",node_type="broker",node_id="broker-a-{number}"'
        assert f"timermq_broker_up{{{labels}}} 1\n" in text
        assert f'timermq_info{{cluster="DefaultCluster",node_id="broker-a-{number}"' in text
    assert 1 == text.count("# HELP timermq_info ")


def test_a_broker_that_hangs_is_told(timermq: RunProgram, two: Several) -> None:
    """The status has a line of each; one that does not answer has the reason in it."""
    good = timermq("cluster", "status", "--json", "--namesrv", two.namesrv)
    hung = two.broker_process(1)
    hung.suspend()
    try:
        bad = timermq("cluster", "status", "--json", "--namesrv", two.namesrv)
    finally:
        hung.resume()

    assert (0, ["serving"] * 2) == (good.code, [one["state"] for one in good.rows])
    assert [("broker-a-0", two.addresses[0]), ("broker-a-1", two.addresses[1])] == [
        (one["name"], one["address"]) for one in good.rows
    ]
    assert 1 == bad.code
    assert "serving" == bad.rows[0]["state"]
    assert "no answer within 5.0 s" in str(bad.rows[1]["state"])


def test_a_killed_broker(two: Several) -> None:
    """The other goes on, the killed one is started again, and nothing acknowledged is lost."""
    two.make_topic("Killed")
    sent: dict[str, str] = {}

    async def send(producer: Producer, left: trio.Event) -> None:
        while not left.is_set():
            try:
                receipt = await producer.send("Killed", b"x", delay=DELAY)
            except ClientError:
                await trio.sleep(0.05)
            else:
                sent[receipt.message_id] = str(broker_of(receipt.recall_handle or ""))

    async def until(least: int, *names: str) -> None:
        with trio.fail_after(READY_SECONDS):
            while min(Counter(sent.values())[name] for name in names) < least:  # noqa: ASYNC110 - senders
                await trio.sleep(0.02)

    async def load() -> int:
        left = trio.Event()
        async with Producer(two.namesrv) as producer, trio.open_nursery() as nursery:
            for _ in range(SENDERS):
                nursery.start_soon(send, producer, left)
            await until(BEFORE, "broker-a-0", "broker-a-1")
            two.broker_process(1).kill()
            before = Counter(sent.values())["broker-a-0"]
            await until(before + AFTERWARDS, "broker-a-0")
            left.set()
        return len(sent)

    async def consume() -> Counter[str]:
        got: Counter[str] = Counter()
        topics = {"Killed": "*"}
        with trio.fail_after(READY_SECONDS):
            async with Consumer(
                two.namesrv, group="KilledGroup", topics=topics, start_from="first"
            ) as consumer:
                async for message in consumer:
                    got[message.message_id] += 1
                    await consumer.commit(message)
                    if got.keys() >= sent.keys():
                        break
        return got

    assert trio.run(load) > 2 * BEFORE
    wait_until(lambda: bool(two.told("broker is back")), READY_SECONDS, told=two.log.read_text)
    two.wait_registered()
    got = trio.run(consume)

    assert sent.keys() <= got.keys()
    (told,) = two.told("broker ended and is started again: its messages are late meanwhile")
    assert ("broker-a-1", "killed by SIGKILL", "error") == (
        told["broker"],
        told["ended"],
        told["level"],
    )
    assert 'timermq_broker_restarts_total{cluster="DefaultCluster"' in page(two, "/metrics")


def test_starts_and_ends(timermq: RunProgram, tmp_path: Path) -> None:
    """A signal ends all in order (0), one failed start ends all (1), usage is told (2)."""
    with serving_several(tmp_path / "stores", 2, *SMALL_FILES) as several:
        supervisor = psutil.Process(several.process.pid)
        brokers = supervisor.children()
        plain = timermq("serve", "--store", str(several.store))
        fewer = timermq("serve", "--brokers=1", "--store", str(several.store))
        second = timermq("serve", "--brokers=2", "--store", str(several.store), *free_ports())
        several.process.send_signal(signal.SIGINT)
        code = several.process.wait(timeout=READY_SECONDS)

    assert 0 == code
    assert [False, False] == [one.is_running() for one in brokers]
    assert {"broker-a-0", "broker-a-1"} == {one["broker"] for one in several.told("broker stopped")}
    assert (2, True) == (plain.code, "serve it with --brokers N" in plain.err)
    assert (2, True) == (fewer.code, "broker-a-1 that none of them serves" in fewer.err)
    assert 1 == second.code
    failed = json.loads(second.err.splitlines()[-2])
    assert "broker did not start: all are stopped" == failed["event"]


def free_ports() -> tuple[str, ...]:
    """Flags of a start that finds its store locked, not its ports in use."""
    return ("--listen=127.0.0.1:0", f"--namesrv-listen=127.0.0.1:{free_port()}", *SMALL_FILES)


def test_no_broker_outlives_its_supervisor(tmp_path: Path) -> None:
    """A supervisor that is killed leaves no process behind that keeps a store locked."""
    with serving_several(tmp_path / "stores", 1, *SMALL_FILES) as several:
        (broker,) = psutil.Process(several.process.pid).children()
        several.process.kill()
        several.process.wait()
        wait_until(lambda: not broker.is_running(), READY_SECONDS, told=several.log.read_text)

    assert ["broker-a-0"] == [one["broker"] for one in several.told("broker stopped")]
