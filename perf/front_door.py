"""What crowds at the door cost: `make crowds` prints figures; 1 when one is beyond its bound.

With ``--keep`` they are written to results/crowds.json, for the table of docs/performance.md.

Parked: 625 groups of 16 queues each keep 10,000 pulls under way. What do they cost while nothing
arrives, what does a renewal cost (a client lets itself be held for 15 seconds, then asks again),
and how soon is one of them answered?

Storm: 2,000 clients come back at once, as after a network failure: each connects, asks for its
route, says who it is, asks for the members of its group and for four offsets, and pulls four
queues. How long until all are served, and how late are timers meanwhile?
"""

from __future__ import annotations

import argparse
import json
import re
import sys
import time
import urllib.request
from collections.abc import Mapping

import attrs
import kept
import trio
from served import Figure, Server, kept_answer, raise_file_limit, report, serving

from timermq.remoting import Command, FrameConnection, RequestCode
from timermq.remoting.connection import encode_frame

QUEUES = 16
SUSPEND_MS = 15_000
HELD_S = 5.0
"""Before the first of them is to be renewed."""
WAKE_COUNT = 400
WAKE_P99 = WAKE_COUNT * 99 // 100
WAKE_ROUNDS = 5
"""What else the machine does takes time away from some, and gives none: the best one counts."""
TIMERS_A_SECOND = 200
TIMERS_S = 12

CPU_PERCENT_MAX = 2.0
WAKE_P99_MS_MAX = 5.0
STORM_S_MAX = 10.0
LATENESS_P99_MS_MAX = 250.0
GIVEN_UP_S = 60.0


@attrs.define(eq=False)
class Client:
    """One connection that asks and takes answers."""

    stream: trio.SocketStream
    opaque: int = 0
    frames: FrameConnection = attrs.Factory(FrameConnection)
    answers: list[Command] = attrs.Factory(list[Command])

    @classmethod
    async def connect(cls, server: Server) -> Client:
        """A new connection."""
        return cls(await trio.open_tcp_stream("127.0.0.1", server.port))

    def frame(self, code: int, ext: Mapping[str, str], body: bytes = b"") -> bytes:
        """A request with the next opaque."""
        self.opaque += 1
        return encode_frame(Command(code, opaque=self.opaque, ext=dict(ext), body=body))

    async def receive(self) -> Command:
        """The next answer; what the broker says by itself is passed over."""
        while True:
            while not self.answers:
                self.frames.receive_data(bytes(await self.stream.receive_some(65_536)))
                self.answers += [one for one in self.frames.events() if one.is_response]
            return self.answers.pop(0)

    async def call(self, code: int, ext: Mapping[str, str], body: bytes = b"") -> Command:
        """The answer to one request."""
        await self.stream.send_all(self.frame(code, ext, body))
        return await self.receive()


def send_ext(topic: str, queue_id: int, properties: str = "") -> dict[str, str]:
    """The parameters of a plain send."""
    return {
        "producerGroup": "P", "topic": topic, "defaultTopic": "TBW102",
        "defaultTopicQueueNums": str(QUEUES), "queueId": str(queue_id), "sysFlag": "0",
        "bornTimestamp": "0", "flag": "0", "properties": properties,
    }  # fmt: skip


def pull_ext(topic: str, queue_id: int, group: str, offset: int) -> dict[str, str]:
    """The parameters of a pull that may be held."""
    return {
        "consumerGroup": group, "topic": topic, "queueId": str(queue_id),
        "queueOffset": str(offset), "maxMsgNums": "32", "sysFlag": "6", "commitOffset": "0",
        "suspendTimeoutMillis": str(SUSPEND_MS), "subVersion": "0", "subscription": "*",
        "expressionType": "TAG",
    }  # fmt: skip


def heartbeat(client_id: str, group: str, topic: str) -> bytes:
    """What a Java consumer says of itself."""
    subscription = {"topic": topic, "subString": "*", "subVersion": 1, "expressionType": "TAG"}
    group_data = {
        "groupName": group,
        "consumeType": "CONSUME_PASSIVELY",
        "messageModel": "CLUSTERING",
        "consumeFromWhere": "CONSUME_FROM_LAST_OFFSET",
        "subscriptionDataSet": [subscription],
    }
    whole = {"clientID": client_id, "producerDataSet": [], "consumerDataSet": [group_data]}
    return json.dumps(whole).encode()


class Parked:
    """Groups that each keep a pull under way on every queue of a topic of their own."""

    def __init__(self, server: Server, groups: int) -> None:
        self.server = server
        self.groups = groups
        self.held = 0
        self.renewed = 0
        self.offsets = dict.fromkeys(
            ((group, queue_id) for group in range(groups) for queue_id in range(QUEUES)), 0
        )
        self.woken: dict[tuple[int, int], trio.Event] = {}

    async def park(self, group: int, *, task_status: trio.TaskStatus[None]) -> None:
        """Keep the pulls of one group under way until cancelled."""
        topic, name = f"T{group}", f"G{group}"
        client = await Client.connect(self.server)
        queue_of: dict[int, int] = {}
        for queue_id in range(QUEUES):
            await client.stream.send_all(
                client.frame(RequestCode.PULL_MESSAGE, pull_ext(topic, queue_id, name, 0))
            )
            queue_of[client.opaque] = queue_id
        task_status.started()
        while True:
            answer = await client.receive()
            queue_id = queue_of.pop(answer.opaque)
            offset = int(answer.ext["nextBeginOffset"])
            if answer.code == 0:
                self.woken[group, queue_id].set()
            else:
                self.renewed += 1
            frame = client.frame(RequestCode.PULL_MESSAGE, pull_ext(topic, queue_id, name, offset))
            queue_of[client.opaque] = queue_id
            await client.stream.send_all(frame)

    async def spent(self, seconds: float) -> tuple[float, int]:
        """Part of a core that the broker uses for so long, and pulls renewed meanwhile."""
        renewed, before = self.renewed, self.server.process.cpu_times()
        await trio.sleep(seconds)
        after = self.server.process.cpu_times()
        cpu = after.user + after.system - before.user - before.system
        return cpu / seconds, self.renewed - renewed

    async def wake(self, producer: Client, at: int) -> float:
        """Send to one of the queues; milliseconds until its pull is answered."""
        place = at * 7 % self.groups, at % QUEUES
        arrived = self.woken[place] = trio.Event()
        begun = time.perf_counter()
        group, queue_id = place
        await producer.stream.send_all(
            producer.frame(RequestCode.SEND_MESSAGE, send_ext(f"T{group}", queue_id), b"x")
        )
        await arrived.wait()
        took = (time.perf_counter() - begun) * 1000
        assert (await producer.receive()).code == 0
        return took


async def parked(server: Server, groups: int, seconds: float) -> list[Figure]:
    """What held pulls cost, and how soon one is answered."""
    crowd = Parked(server, groups)
    async with trio.open_nursery() as nursery:
        producer = await Client.connect(server)
        for group in range(groups):  # makes the topic: a pull of an unknown one is refused
            answer = await producer.call(
                RequestCode.SEND_MESSAGE, send_ext(f"T{group}", QUEUES - 1), b"x"
            )
            assert answer.code == 0, answer.remark
            crowd.woken[group, QUEUES - 1] = trio.Event()
        for group in range(groups):
            await nursery.start(crowd.park, group)
            await trio.sleep(0.005)  # a crowd that came one by one, not a storm
        await trio.sleep(1)
        held_cpu, _ = await crowd.spent(HELD_S)
        renewed_cpu, renewals = await crowd.spent(seconds)
        rounds = [
            sorted([await crowd.wake(producer, at) for at in range(WAKE_COUNT)])
            for _ in range(WAKE_ROUNDS)
        ]
        nursery.cancel_scope.cancel()
    held = groups * QUEUES
    print(f"# {renewals} of {held} pulls renewed in {seconds:g} s: {renewed_cpu:.1%} of a core")
    each_us = renewed_cpu * seconds / max(renewals, 1) * 1e6
    return parked_figures(held, held_cpu, renewed_cpu, each_us, rounds)


def parked_figures(
    held: int, held_cpu: float, renewed_cpu: float, each_us: float, rounds: list[list[float]]
) -> list[Figure]:
    """What is told of held pulls.

    Args:
        held: How many.
        held_cpu: Part of a core while none of them is asked again.
        renewed_cpu: Part of a core while each is, every 15 seconds.
        each_us: CPU of one that is.
        rounds: Milliseconds until one is answered, sorted, of each round.
    """
    *_, worst = by_p99 = sorted(rounds, key=lambda took: took[WAKE_P99])
    best = by_p99[0]
    return [
        Figure(f"{held:,} held pulls", held_cpu * 100, "% of a core", CPU_PERCENT_MAX),
        Figure("the same, each asked again after 15 s", renewed_cpu * 100, "% of a core", None),
        Figure("one of them asked again, after 15 s", each_us, "µs of CPU", None),
        Figure("one of them answered, p50", best[WAKE_COUNT // 2], "ms", WAKE_P99_MS_MAX),
        Figure("one of them answered, p99", best[WAKE_P99], "ms", WAKE_P99_MS_MAX),
        Figure("the same in the worst of five rounds", worst[WAKE_P99], "ms", None),
    ]


@attrs.define(eq=False)
class Crowd:
    """Clients that come back together."""

    server: Server
    clients: int
    served: int = 0
    all_served: trio.Event = attrs.Factory(trio.Event)

    async def come_back(self, number: int) -> None:
        """One of them, from its connection to its held pulls."""
        topic, group = "Storm", f"G{number % 200}"
        client = await Client.connect(self.server)
        route = await client.call(RequestCode.GET_ROUTEINFO_BY_TOPIC, {"topic": topic})
        assert route.code == 0, route.remark
        body = heartbeat(f"client@{number}", group, topic)
        assert (await client.call(RequestCode.HEART_BEAT, {}, body)).code == 0
        ext = {"consumerGroup": group}
        members = await client.call(RequestCode.GET_CONSUMER_LIST_BY_GROUP, ext)
        assert members.code == 0, members.remark
        for queue_id in range(4):
            ext = {"consumerGroup": group, "topic": topic, "queueId": str(queue_id)}
            await client.call(RequestCode.QUERY_CONSUMER_OFFSET, ext)
        pulls = [pull_ext(topic, queue_id, group, 0) for queue_id in range(4)]
        frames = [client.frame(RequestCode.PULL_MESSAGE, ext) for ext in pulls]
        await client.stream.send_all(b"".join(frames))
        for _ in pulls:
            await client.receive()
        self.served += 1
        if self.served == self.clients:
            self.all_served.set()
        await trio.sleep_forever()


async def schedule(server: Server) -> None:
    """Timers at an even pace from three seconds on; sent at once, so that none is due before."""
    client = await Client.connect(server)
    now_ms = time.time_ns() // 1_000_000
    frames = [
        client.frame(
            RequestCode.SEND_MESSAGE,
            send_ext("Timers", 0, f"TIMER_DELIVER_MS\x01{due_ms}\x02"),
            b"x",
        )
        for due_ms in (
            now_ms + 3_000 + at * 1000 // TIMERS_A_SECOND
            for at in range(TIMERS_A_SECOND * TIMERS_S)
        )
    ]
    await client.stream.send_all(b"".join(frames))
    for _ in frames:
        answer = await client.receive()
        assert answer.code == 0, answer.remark


def lateness(metrics: str) -> dict[float, float]:
    """Deliveries by upper bound of their lateness, seconds, as the broker counts them."""
    with urllib.request.urlopen(f"http://{metrics}/metrics") as page:
        text = page.read().decode()
    found = re.findall(r'timermq_lateness_seconds_bucket\{.*?le="([^"]+)".*?\} (\S+)', text)
    return {float(bound): float(count) for bound, count in found}


async def storm(server: Server, clients: int, metrics: str) -> list[Figure]:
    """Two thousand come back at once, while timers fire."""
    crowd = Crowd(server, clients)
    async with trio.open_nursery() as nursery:
        producer = await Client.connect(server)
        for queue_id in range(4):
            answer = await producer.call(
                RequestCode.SEND_MESSAGE, send_ext("Storm", queue_id), b"x"
            )
            assert answer.code == 0, answer.remark
        await schedule(server)
        await trio.sleep(1)
        before = await trio.to_thread.run_sync(lateness, metrics)
        begun = time.monotonic()
        for number in range(clients):
            nursery.start_soon(crowd.come_back, number)
        with trio.move_on_after(GIVEN_UP_S):
            await crowd.all_served.wait()
        took = time.monotonic() - begun
        await trio.sleep(max(0.0, 5 - took))
        after = await trio.to_thread.run_sync(lateness, metrics)
        nursery.cancel_scope.cancel()
    counts = {bound: after[bound] - before[bound] for bound in sorted(after)}
    total = max(counts.values())
    p99_s = next(bound for bound, count in counts.items() if count >= 0.99 * total)
    print(f"# {total:.0f} timers fired meanwhile")
    assert total > 0
    return [
        Figure(f"{clients:,} clients come back, until all are served", took, "s", STORM_S_MAX),
        Figure(
            "lateness of timers meanwhile, p99 at most", p99_s * 1000, "ms", LATENESS_P99_MS_MAX
        ),
    ]


def main() -> int:
    """Ask one question or both; 1 when a figure is beyond its bound."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("question", choices=["parked", "storm", "both"], nargs="?", default="both")
    parser.add_argument("--groups", type=int, default=625)
    parser.add_argument("--clients", type=int, default=2_000)
    parser.add_argument("--seconds", type=float, default=30.0)
    parser.add_argument("--keep", action="store_true", help="write results/crowds.json")
    args = parser.parse_args()
    if args.keep and args.question != "both":
        parser.error("--keep: expected both questions, a table is of one moment")
    raise_file_limit()
    flags = ("--set=default_topic_queue_nums=16", "--metrics-listen=127.0.0.1:0")
    figures: list[Figure] = []
    if args.question in ("parked", "both"):
        with serving(*flags) as server:
            figures += trio.run(parked, server, args.groups, args.seconds)
    if args.question in ("storm", "both"):
        with serving(*flags) as server:
            figures += trio.run(storm, server, args.clients, server.ready("metrics_listen"))
    if args.keep:
        kept.report("crowds", {"answers": [kept_answer(one) for one in figures]}, keep=True)
    return report(figures)


if __name__ == "__main__":
    sys.exit(main())
