"""Held pulls: groups that each keep a pull under way on all 16 queues of a topic.

What do they cost while nothing arrives, what does a renewal cost (a client lets itself be held for
15 seconds, then asks again), and how soon is one of them answered?
"""

from __future__ import annotations

import time

import trio
from crowd_client import QUEUES, Client, pull_ext, send_ext
from served import Figure, Server

from timermq.remoting import RequestCode

HELD_S = 5.0
"""Before the first of them is to be renewed."""
WAKE_COUNT = 400
WAKE_P99 = WAKE_COUNT * 99 // 100
WAKE_ROUNDS = 5
"""What else the machine does takes time away from some, and gives none: the best one counts."""
CPU_PERCENT_MAX = 2.0
WAKE_P99_MS_MAX = 5.0


class HeldPulls:
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


async def hold_pulls(server: Server, groups: int, seconds: float) -> list[Figure]:
    """What held pulls cost, and how soon one is answered."""
    crowd = HeldPulls(server, groups)
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
    return held_pull_figures(held, held_cpu, renewed_cpu, each_us, rounds)


def held_pull_figures(
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
        Figure(
            f"{held:,} held pulls, before one is asked again",
            held_cpu * 100,
            "% of a core",
            CPU_PERCENT_MAX,
        ),
        Figure("the same, each asked again after 15 s", renewed_cpu * 100, "% of a core", None),
        Figure("one of them asked again, after 15 s", each_us, "µs of CPU", None),
        Figure("one of them answered, p50", best[WAKE_COUNT // 2], "ms", WAKE_P99_MS_MAX),
        Figure("one of them answered, p99", best[WAKE_P99], "ms", WAKE_P99_MS_MAX),
        Figure("the same in the worst of five rounds", worst[WAKE_P99], "ms", None),
    ]
