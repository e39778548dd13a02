"""Carries out a plan for replicas: brokers of one name, lines between them, clients and losses.

Behind the plan the lines are whole, one broker leads and the others follow it. When all that waits
has arrived, the logs of all must be equal, and a reader pulls the queues of the one that leads.
"""

from __future__ import annotations

from collections import Counter
from itertools import filterfalse
from random import Random

import attrs
import trio

from timermq.client.history import ClockStep, Event, Fault, Start
from timermq.remoting.command import Coding

from ..final_check import SETTLE_MAX, is_drained, last_moment_ms
from ..outcome import Outcome, in_words
from ..process import ROOT
from ..rules.broken import Broken
from ..rules.check import check
from ..seen_messages import SeenMessages
from ..staged.staged_bulk import BulkLedger
from ..staged.staged_client import StagedClient
from ..staged.staged_clock import StagedClock
from ..steps import ClientPlan
from .lease_rule import LeaseRule
from .operator import Operator
from .replica_lines import ReplicaLines, ReplicaRoute
from .replica_log import NAMES, log_of
from .replica_process import ReplicaNode, ReplicaProcess, is_over_here, new_disk
from .replica_scenario import Blow, LeasePlan, ReplicaFault, ReplicaScenario
from .shown_records import ShownRecords
from .staged_etcd import StagedEtcd

WHO = "world"
TOLD_OF_RIVALS = frozenset({"fenced: another replica leads", "another master leads"})
"""Errors that a broker logs when it learns who leads."""
RESTART_SECONDS = 1.0
"""From the end of a process that nothing has asked for to the next one."""
LOOK_SECONDS = 1.0
LOOKS_MAX = 900
"""Looks until one broker leads and all others are in sync with it."""
LATE_SECONDS = 60.0
"""What waits longer than messages ask for: clocks differ, and brokers have just begun."""
SUCCESSION_SECONDS = 40.0
"""Until a broker has taken the lease of one that is gone, if any may."""
HOLDER_LOOK_SECONDS = 0.05
DRAIN_SECONDS = 30.0
"""Between two looks whether anything waits."""


class ReplicaWorld:
    """One simulation of replicas.

    Args:
        scenario: The plan.
    """

    def __init__(self, scenario: ReplicaScenario) -> None:
        self.faults: list[str] = []
        """The broken promises so far."""
        self.counts = Counter[str]()
        """The events by name, and their counts."""
        self._is_ending = False
        self._scenario = scenario
        self._events: list[Event] = []
        self._clock = StagedClock()
        self._seen = SeenMessages(is_sync=True)
        self._lines = ReplicaLines(
            scenario.brokers,
            Random(scenario.seed),  # noqa: S311 - a plan, not a secret
            scenario.network,
            self.counts,
        )
        self._etcd = None if scenario.lease is None else self._new_etcd(scenario.lease)
        self._nodes = [self._node(number) for number in range(scenario.brokers)]
        self._operator = Operator(self._nodes)
        self._shown = ShownRecords(
            self._nodes, self._operator.in_sync, scenario.store.mapped_file_size_commit_log
        )
        self._lease_rule = LeaseRule(self._nodes)
        for node in self._nodes:
            node.on_put = self._lease_rule.wrote
        if scenario.is_confirmed:
            for node in self._nodes:
                node.on_get, node.before_loss = self._shown.look, self._shown.note_before_loss
        self._lost: set[str] = set()
        """Names of the messages of which a record was lost."""
        self._ledger = BulkLedger(self._tell, self.complain, self.counts)
        self._clients: list[StagedClient] = []
        self._crashes = 0

    def _node(self, number: int) -> ReplicaNode:
        scenario, ports = self._scenario, self._lines.ports[number]
        clock = StagedClock()
        clock.step(scenario.skews_ms[number])
        return ReplicaNode(
            scenario=scenario,
            ports=ports,
            lines=self._lines,
            clock=clock,
            disk=new_disk(scenario, clock, str(number)),
            tell=self._tell,
            complain=self.complain,
            follow=self._lines.ports[0].address if number else None,
            etcd=self._etcd,
        )

    def _new_etcd(self, plan: LeasePlan) -> StagedEtcd:
        draw = Random(f"etcd of {self._scenario.seed}")  # noqa: S311 - a plan, not a secret
        return StagedEtcd(draw, plan, self._scenario.network, self.counts)

    def complain(self, fault: str) -> None:
        """Take note of something that must not happen."""
        self.faults.append(f"at {trio.current_time():.3f} s: {fault}")

    @property
    def is_dying(self) -> bool:
        """Whether the process whose task runs now is over, or all is."""
        return self._is_ending or is_over_here()

    def expects_error(self, event: str) -> bool:
        """Whether a broker rightly logs an error: that another one leads."""
        return event in TOLD_OF_RIVALS

    def tell_skip(self, topic: str, queue_id: int, offset: int) -> None:
        """Take note of where a queue goes on whose files were damaged: none are."""
        self.complain(f"queue {topic}/{queue_id} goes on at {offset}")

    def _tell(self, event: Event) -> None:
        self._events.append(event)
        self._seen.hear(event)

    async def run(self) -> None:
        """Carry out the plan, until all has arrived."""
        self._begin()
        self._clients = [self._client(plan) for plan in self._scenario.clients]
        async with trio.open_nursery() as brokers:
            if self._etcd is not None:
                brokers.start_soon(self._etcd.serve)
            for node in self._nodes:
                node.may_run.set()
                brokers.start_soon(self._keep, node)
            async with trio.open_nursery() as nursery:
                nursery.start_soon(self._befall_all)
                for client in self._clients:
                    nursery.start_soon(client.run)
            await trio.sleep_until(self._scenario.duration_ms / 1000)
            await self._finish()
            self._is_ending = True
            brokers.cancel_scope.cancel()

    def _begin(self) -> None:
        scenario = self._scenario
        self._tell(
            Start(
                at_ms=self._clock.now_ms(),
                who=WHO,
                # What a power cut takes another broker has, or it is known to be lost.
                flush="SYNC_FLUSH",
                settings={"seed": scenario.seed},
            )
        )
        skew_ms = max(0, *scenario.skews_ms) - min(0, *scenario.skews_ms)
        if skew_ms:
            self._tell(ClockStep(at_ms=self._clock.now_ms(), who=WHO, by_ms=2 * skew_ms))

    # -- brokers ------------------------------------------------------------------------------

    async def _keep(self, node: ReplicaNode) -> None:
        """One process after the other, as long as the broker may run."""
        while True:
            await node.may_run.wait()
            process = node.process = ReplicaProcess(node)
            await process.live()
            self._crashes += 1
            if node.may_run.is_set():
                await trio.sleep(RESTART_SECONDS)

    async def _befall_all(self) -> None:
        async with trio.open_nursery() as nursery:
            for fault in self._scenario.faults:
                await trio.sleep_until(fault.at_ms / 1000)
                await self._befall(fault, nursery)

    async def _befall(self, fault: ReplicaFault, nursery: trio.Nursery) -> None:
        leader = self._operator.leader()
        if fault.blow is Blow.CUT:
            nursery.start_soon(self._cut_lines, fault.down_ms)
        elif fault.blow is Blow.SILENCE:
            self._count("silences")
            self._lines.fall_silent(fault.down_ms / 1000)
        elif fault.blow is Blow.AWAY:
            nursery.start_soon(self._leave_etcd, fault.down_ms)
        elif leader is None:
            self._count("none leads")
        elif fault.blow is Blow.PARTED:
            nursery.start_soon(self._part, fault, leader)
        elif fault.blow is Blow.DEMOTE:
            for follower in self._operator.in_sync(leader)[:1]:
                self._count("handovers")
                await self._operator.demote(leader, follower)
                await self._point_to(self._operator.leader())
        elif fault.blow is Blow.SPLIT:
            await self._split(fault, leader, nursery)
        elif fault.hits_master:
            await self._strike_master(fault, leader)
        else:
            await self._strike_follower(fault, leader)

    async def _cut_lines(self, down_ms: int) -> None:
        self._count("cuts")
        self._lines.cut()
        await trio.sleep(down_ms / 1000)
        self._lines.heal()

    async def _leave_etcd(self, down_ms: int) -> None:
        assert self._etcd is not None
        self._count("etcd away")
        self._etcd.go_away()
        await trio.sleep(down_ms / 1000)
        self._etcd.is_away = False

    async def _part(self, fault: ReplicaFault, leader: ReplicaNode) -> None:
        """Let the master or a follower not reach the engine of the lease."""
        assert self._etcd is not None
        others = [one for one in self._nodes if one is not leader]
        node = leader if fault.hits_master else others[fault.count % len(others)]
        self._count(f"parted from etcd: {'master' if node is leader else 'follower'}")
        self._etcd.part(node.ports.number)
        await trio.sleep(fault.down_ms / 1000)
        self._etcd.parted.discard(node.ports.number)

    async def _split(self, fault: ReplicaFault, leader: ReplicaNode, nursery: trio.Nursery) -> None:
        """Two lead for a while."""
        if not self._operator.in_sync(leader):
            return
        self._count("splits")
        nursery.start_soon(self._cut_lines, fault.down_ms)
        await trio.lowlevel.checkpoint()
        if self._etcd is not None:
            nursery.start_soon(self._part, attrs.evolve(fault, hits_master=True), leader)
            return
        await self._promote(fault, [one for one in self._nodes if one is not leader], nursery)

    async def _strike_master(self, fault: ReplicaFault, leader: ReplicaNode) -> None:
        blow = fault.blow
        promotes = fault.promotes or blow in (Blow.POWER, Blow.DISK) or self._etcd is not None
        if promotes and not self._operator.in_sync(leader):
            # The only one that has all, for certain.
            blow, promotes = Blow.KILL, False
        self._count(f"master: {blow.value}" + (", promoted" if promotes else ""))
        await self._end(fault, leader, blow)
        if self._etcd is not None:
            await self._strike_successor(fault)
            promotes = False
        if not promotes:
            await trio.sleep(fault.down_ms / 1000)
            leader.may_run.set()
            return
        async with trio.open_nursery() as nursery:
            rest = [one for one in self._nodes if one is not leader]
            promoted = await self._promote(fault, rest, nursery)
            nursery.cancel_scope.cancel()
        if promoted is not None:
            leader.lost.append(leader.last_log.behind(self._operator.lead_began(promoted)))
        await trio.sleep(fault.down_ms / 1000)
        if promoted is not None and (blow is Blow.DISK or fault.count % 2):
            leader.follow = promoted.ports.address
        leader.may_run.set()

    async def _strike_successor(self, fault: ReplicaFault) -> None:
        """Kill the broker that takes the lease, while it begins to lead."""
        if not fault.kills_promoted:
            return
        with trio.move_on_after(SUCCESSION_SECONDS):
            holders: list[ReplicaNode] = []
            while not holders:
                await trio.sleep(HOLDER_LOOK_SECONDS)
                holders = [one for one in self._nodes if _holds_lease(one)]
            for node in holders:
                if node.process is not None:
                    self._count("successors struck")
                    await node.process.kill_after(fault.kills_promoted)

    async def _strike_follower(self, fault: ReplicaFault, leader: ReplicaNode) -> None:
        followers = [one for one in self._nodes if one is not leader]
        node = followers[fault.count % len(followers)]
        if node.broker is None or node.broker.role.is_master:
            return
        self._count(f"follower: {fault.blow.value}")
        await self._end(fault, node, fault.blow)
        await trio.sleep(fault.down_ms / 1000)
        if fault.blow is Blow.DISK:
            node.follow = leader.ports.address
        node.may_run.set()

    async def _end(self, fault: ReplicaFault, node: ReplicaNode, blow: Blow) -> None:
        kind = blow.end
        assert kind is not None
        assert node.process is not None
        node.may_run = trio.Event()
        await node.process.end(fault, kind)
        if blow is Blow.DISK:
            node.lose_disk()

    async def _promote(
        self, fault: ReplicaFault, nodes: list[ReplicaNode], nursery: trio.Nursery
    ) -> ReplicaNode | None:
        """Promote one of these, which may be killed meanwhile, and let the others follow it."""
        for node in nodes:
            if fault.kills_promoted and node.process is not None:
                nursery.start_soon(node.process.kill_after, fault.kills_promoted)
        promoted = await self._operator.promote(nodes)
        if promoted is None:
            self.complain("no follower can be promoted")
            return None
        self._count("promotions")
        await self._point_to(promoted)
        return promoted

    async def _point_to(self, leader: ReplicaNode | None) -> None:
        """Restart followers of a master that is gone: they cannot know where the new one is."""
        for node in self._nodes:
            broker = node.broker
            if leader is None or node is leader or broker is None or len(self._nodes) < 3:
                continue
            if not broker.role.is_master and node.process is not None:
                node.follow = leader.ports.address
                broker.request_stop()

    def _count(self, name: str) -> None:
        self.counts[f"replicas: {name}"] += 1
        self._tell(Fault(at_ms=self._clock.now_ms(), who=WHO, kind=name))

    # -- the end ------------------------------------------------------------------------------

    async def _finish(self) -> None:
        self._lines.calm()
        if self._etcd is not None:
            self._etcd.calm()
        for node in self._nodes:
            node.may_run.set()
        if await self._settled() is None:
            self.complain(f"no master with followers in sync: {self._stand()}")
            return
        left_ms = max(last_moment_ms(self._events) - self._clock.now_ms(), 0)
        await trio.sleep(left_ms / 1000 + LATE_SECONDS)
        await self._drain()
        leader = self._operator.leader()
        if leader is not None:
            # What a follower believes shows when it leads.
            await self._hand_over(leader)
            await self._drain()
        self._compare_logs()
        await self._client(
            ClientPlan(number=len(self._scenario.clients), coding=Coding.CBOR, steps=()), strays=0
        ).read_all()

    async def _hand_over(self, leader: ReplicaNode) -> None:
        """Let another broker lead: by a lease as soon as this one stops."""
        if self._etcd is None:
            await self._operator.demote(leader, self._operator.in_sync(leader)[0])
            await self._point_to(self._operator.leader())
        elif leader.broker is not None:
            leader.broker.request_stop()

    async def _drain(self) -> None:
        """Wait until nothing waits any more on the one that leads; not for ever."""
        for _ in range(SETTLE_MAX):
            leader = await self._settled()
            if leader is not None and leader.broker is not None and is_drained(leader.broker):
                return
            await trio.sleep(DRAIN_SECONDS)
        self.complain(f"timers still wait: {self._stand()}")

    async def _settled(self) -> ReplicaNode | None:
        """The one that leads, once all others are in sync with it; None: it takes too long."""
        for number in range(LOOKS_MAX):
            await trio.sleep(LOOK_SECONDS)
            leaders = self._operator.leaders()
            if not leaders and number > LOOKS_MAX // 2 and self._etcd is None:
                await self._operator.promote(self._nodes)
            if len(leaders) == 1:
                others = self._operator.in_sync(leaders[0])
                if len(others) == len(self._nodes) - 1 and self._are_level():
                    return leaders[0]
        return None

    def _are_level(self) -> bool:
        ends = {
            None if one.broker is None else one.broker.store.commit_log.max_offset
            for one in self._nodes
        }
        return len(ends) == 1 and None not in ends

    def _stand(self) -> str:
        """The state of each broker in words."""
        found: list[str] = []
        for node in self._nodes:
            broker = node.broker
            if broker is None:
                found.append(f"{node.name} is down")
                continue
            error = broker.tables.follow_state.error
            found.append(
                f"{node.name} {broker.role.role.value} to {broker.store.commit_log.max_offset}, "
                f"epoch {broker.succession.epochs.epochs.last_number}, follows "
                f"{broker.role.master_address}, {broker.timer_store.statistics().pending} wait, "
                f"{error}"
            )
        return "; ".join(found)

    def _compare_logs(self) -> None:
        """All replicas have the same log."""
        logs = [log_of(node.disk, ROOT) for node in self._nodes]
        start = max(one.start for one in logs)
        if len({one.behind(start).data for one in logs}) != 1:
            self.complain(f"logs differ: they end at {[one.end for one in logs]}")

    def judge(self, virtual_ms: int) -> Outcome:
        """Hold the history against the promises."""
        for node in self._nodes:
            for copy in node.lost:
                self._lost |= copy.names()
        self.counts["replicas: messages with lost records"] += len(self._lost)
        self.counts["replicas: records shown, replicated"] += self._shown.judged
        self.counts["replicas: batches judged by the lease"] += self._lease_rule.judged
        report = check({"history": enumerate(self._events, start=2)})
        return Outcome(
            scenario=self._scenario,
            judged=report.judged,
            events=tuple(self._events),
            faults=(*self.faults, *map(in_words, filterfalse(self._may_break, report.broken))),
            crashes=self._crashes,
            requests=sum(client.requests for client in self._clients),
            virtual_ms=virtual_ms,
            counts=dict(sorted(self.counts.items())),
        )

    def _may_break(self, broken: Broken) -> bool:
        """Whether records of a message that a promise is about were lost, as they may be."""
        if self._scenario.is_confirmed:
            return False
        text = f"{broken.message_id} {broken.expected} {broken.found}"
        return not self._lost.isdisjoint(NAMES.findall(text))

    def _client(self, plan: ClientPlan, strays: float = 0.15) -> StagedClient:
        draw = Random(f"way of {plan.number} {self._scenario.seed}")  # noqa: S311
        return StagedClient(
            plan,
            network=ReplicaRoute(self._lines, self._leading, draw, strays),
            clock=self._clock,
            tell=self._tell,
            complain=self.complain,
            seen=self._seen,
            put=lambda _message: False,
            ledger=self._ledger,
        )

    def _leading(self) -> list[int]:
        return [one.ports.number for one in self._operator.leaders()]


def _holds_lease(node: ReplicaNode) -> bool:
    return node.broker is not None and node.broker.lease is not None and node.broker.lease.leads
