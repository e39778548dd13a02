"""Storm: clients come back at once, as after a network failure, while timers fire.

Each connects, asks for its route, says who it is, asks for the members of its group and for four
offsets, and pulls four queues. A client that is told that its group has changed rebalances, as
Java's clients do: once a second at most, however many notices came. It asks for the members, and
when its share of the queues is another one, it says so, asks for the offsets of the new ones and
pulls them.
"""

from __future__ import annotations

import re
import time
import urllib.request
from collections.abc import Iterable, Mapping

import attrs
import trio
from crowd_client import Client, heartbeat, pull_ext, send_ext
from served import Figure, Server

from timermq.remoting import RequestCode
from timermq.remoting.bodies import decode_consumer_list

TOPIC = "Storm"
QUEUES = 4
GROUPS = 200
REBALANCE_S = 1.0
"""Java's clients leave so long between two rebalances."""
TIMERS_A_SECOND = 200
TIMERS_S = 12
STORM_S_MAX = 10.0
LATENESS_P99_MS_MAX = 250.0
GIVEN_UP_S = 60.0


@attrs.define(eq=False)
class Member:
    """One of a group: its share of the queues, and when it last looked who else is there."""

    client: Client
    number: int
    group: str
    share: tuple[int, ...] = tuple(range(QUEUES))
    """All queues at first: what a group without other members would have."""
    seen: int = 0
    """Notices that its rebalances have answered."""
    rebalanced_at: float = attrs.Factory(trio.current_time)

    @property
    def client_id(self) -> str:
        """The client id that it tells the broker."""
        return f"client@{self.number:05}"

    async def say_who(self, version: int) -> None:
        """A heartbeat, with a newer subscription whenever the share has changed."""
        body = heartbeat(self.client_id, self.group, TOPIC, version)
        assert (await self.client.call(RequestCode.HEART_BEAT, {}, body)).code == 0

    async def members(self) -> list[str]:
        """Who is in the group."""
        ext = {"consumerGroup": self.group}
        answer = await self.client.call(RequestCode.GET_CONSUMER_LIST_BY_GROUP, ext)
        assert answer.code == 0, answer.remark
        return decode_consumer_list(answer.body)

    async def take(self, queues: Iterable[int]) -> None:
        """Ask how far the group is on some queues, and pull them; there is a message on each."""
        queues = list(queues)
        for queue_id in queues:
            ext = {
                "consumerGroup": self.group, "topic": TOPIC, "queueId": str(queue_id)
            }  # fmt: skip
            await self.client.call(RequestCode.QUERY_CONSUMER_OFFSET, ext)
        pulls = [pull_ext(TOPIC, queue_id, self.group, 0) for queue_id in queues]
        frames = [self.client.frame(RequestCode.PULL_MESSAGE, ext) for ext in pulls]
        await self.client.stream.send_all(b"".join(frames))
        for _ in pulls:
            await self.client.receive()

    async def rebalance(self) -> None:
        """What a notice makes a client do; all that have come by now are one."""
        self.seen, self.rebalanced_at = self.client.notices, trio.current_time()
        members = sorted(await self.members())
        share = allocated(members.index(self.client_id), len(members))
        added = set(share) - set(self.share)
        if share != self.share:
            self.share = share
            await self.say_who(version=2 + self.seen)
            await self.take(sorted(added))


def allocated(place: int, members: int) -> tuple[int, ...]:
    """The queues of one of several members: Java's ``AllocateMessageQueueAveragely``."""
    each, more = divmod(QUEUES, members)
    begin = place * each + min(place, more)
    return tuple(range(begin, begin + each + (place < more)))


@attrs.define(eq=False)
class Crowd:
    """Clients that connect again at the same time, and how far they are."""

    server: Server
    clients: int
    groups: int
    members: list[Member] = attrs.Factory(list[Member])
    served: int = 0
    rebalances: int = 0
    rebalanced_at: float = 0.0
    """When the last of them was done; `time.monotonic`."""
    all_served: trio.Event = attrs.Factory(trio.Event)

    @property
    def notices(self) -> int:
        """All that came so far."""
        return sum(member.client.notices for member in self.members)

    async def come_back(self, number: int) -> None:
        """One of them, from its connection to its held pulls, and on."""
        client = await Client.connect(self.server)
        route = await client.call(RequestCode.GET_ROUTEINFO_BY_TOPIC, {"topic": TOPIC})
        assert route.code == 0, route.remark
        member = Member(client, number, f"G{number % self.groups}")
        self.members.append(member)
        await member.say_who(version=1)
        await member.members()
        await member.take(member.share)
        self.served += 1
        if self.served == self.clients:
            self.all_served.set()
        while True:
            await client.notice(member.seen)
            await trio.sleep_until(member.rebalanced_at + REBALANCE_S)
            await member.rebalance()
            self.rebalances, self.rebalanced_at = self.rebalances + 1, time.monotonic()

    async def settled(self) -> None:
        """Wait until all are served and no notice is unanswered for as long as one may take."""
        await self.all_served.wait()
        before = -1
        while self.notices != before:
            before = self.notices
            await trio.sleep(2 * REBALANCE_S)


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
    crowd = Crowd(server, clients, GROUPS)
    settled_s: float | None = None
    async with trio.open_nursery() as nursery:
        producer = await Client.connect(server)
        for queue_id in range(QUEUES):
            answer = await producer.call(RequestCode.SEND_MESSAGE, send_ext(TOPIC, queue_id), b"x")
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
        with trio.move_on_after(GIVEN_UP_S):
            await crowd.settled()
            settled_s = crowd.rebalanced_at - begun
        await trio.sleep(max(0.0, begun + 5 - time.monotonic()))
        after = await trio.to_thread.run_sync(lateness, metrics)
        nursery.cancel_scope.cancel()
    counts = {bound: after[bound] - before[bound] for bound in sorted(after)}
    print(f"# {max(counts.values()):.0f} timers fired meanwhile")
    print(f"# {crowd.notices} notices, {crowd.rebalances} rebalances")
    return storm_figures(crowd, took, settled_s, counts)


def storm_figures(
    crowd: Crowd, took: float, settled_s: float | None, counts: Mapping[float, float]
) -> list[Figure]:
    """What is told of a storm.

    Args:
        crowd: Who came.
        took: Seconds until all were served.
        settled_s: Seconds until no notice came any more; None: they did not end.
        counts: Deliveries meanwhile by upper bound of their lateness, seconds.
    """
    total = max(counts.values())
    assert total > 0
    p99_s = next(bound for bound, count in counts.items() if count >= 0.99 * total)
    settled_s = GIVEN_UP_S if settled_s is None else settled_s
    each = crowd.notices / crowd.clients
    return [
        Figure(
            f"{crowd.clients:,} clients come back, until all are served", took, "s", STORM_S_MAX
        ),
        Figure("the same, until the last has rebalanced", settled_s, "s", STORM_S_MAX),
        Figure("notices that each of them got", each, "", None),
        Figure(
            "lateness of timers meanwhile, p99 at most", p99_s * 1000, "ms", LATENESS_P99_MS_MAX
        ),
    ]
