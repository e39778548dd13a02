"""Carries out a plan: processes one after the other, clients and a clock beside them.

Behind the last planned process the clock is set right, and one more runs until everything that
waits has arrived. Then a reader pulls all queues from their first message, and the store is looked
at from inside.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Mapping
from itertools import filterfalse
from random import Random

import attrs
import msgspec
import trio

from timermq.client.history import ClockStep, Deliver, Event, Fault, Send, Skip, Start
from timermq.pipeline.quarantine.quarantine_record import Entry
from timermq.remoting.command import Coding
from timermq.timerstore.message import Message

from .damage_at_rest import DamageAtRest
from .disks.fault_plan import Fault as DiskError
from .disks.fault_plan import FaultRule, FaultRules, Operation
from .disks.memory_disk import MemoryDisk
from .final_check import SETTLE_MAX, SETTLE_SECONDS, faults_in, is_drained, last_moment_ms
from .process import DISK_SIZE, ROOT, Process, Surroundings
from .recovery_rows import ROWS
from .removed_segments import RemovedSegments
from .rocketmq_store import begin, hand_back, lose
from .rules.broken import Broken, Rule
from .rules.check import check
from .scenario import DiskFault, FullDisk, Life, Rot, Scenario
from .seen_messages import SeenMessages
from .staged.staged_bulk import BulkLedger
from .staged.staged_client import StagedClient
from .staged.staged_clock import START_MS, StagedClock
from .staged.staged_message import name_in
from .staged.staged_network import StagedNetwork
from .steps import ClientPlan

WHO = "world"
FAILED_END_MS = 6_000
"""A broker whose sync has failed answers what is under way for five seconds, and ends then."""
SYNCS_MAX = 10
"""Syncs, of files and of their names, from the one under way to the one that has a record on the
disk."""
WAIT_WINDOWS = 10
"""Roll windows that are waited for messages of a clock that was far ahead."""
RESTART_SECONDS = 1.0
"""From the end of a process that the disk has brought to the next one; doubled with each that does
not come to take requests."""
RESTART_SECONDS_MAX = 64.0


@attrs.frozen(kw_only=True)
class Outcome:
    """What a simulation has done, and which promises were broken."""

    scenario: Scenario
    judged: Mapping[Rule, int]
    """How many messages, arrivals or queues each rule was held against."""
    events: tuple[Event, ...]
    faults: tuple[str, ...]
    """The broken promises; empty: all were kept."""
    crashes: int
    requests: int
    """How many requests the clients have sent."""
    virtual_ms: int
    counts: Mapping[str, int]
    """The counts of events, which show the parts that the plan has reached."""

    @property
    def operations(self) -> int:
        """Requests, and messages that were sent or received."""
        return self.requests + sum(isinstance(event, Send | Deliver) for event in self.events)

    @property
    def digest(self) -> str:
        """A hash of the history: the same for the same seed, byte for byte."""
        return hashlib.sha256(msgspec.json.Encoder().encode_lines(self.events)).hexdigest()


class World:
    """One simulation.

    Args:
        scenario: The plan.
    """

    def __init__(self, scenario: Scenario) -> None:
        self.faults: list[str] = []
        """The broken promises so far."""
        self.counts = Counter(dict.fromkeys(ROWS, 0))
        """The events by name, and their counts."""
        self._scenario = scenario
        self._clock = StagedClock()
        self._disk = MemoryDisk(now_ms=self._clock.now_ms, total=DISK_SIZE)
        draw = Random(f"syncs of {scenario.seed}")  # noqa: S311 - a plan, not a secret
        self._disk.sync_seconds = lambda: draw.uniform(0, scenario.sync_max_ms) / 1000
        self._disk_faults = FaultRules()
        self._events: list[Event] = []
        self._seen = SeenMessages(scenario.is_sync_flush)
        self._network = StagedNetwork(
            Random(scenario.seed),  # noqa: S311 - a plan, not a secret
            scenario.network,
            self.counts,
        )
        self.damage = DamageAtRest(
            root=ROOT,
            disk=self._disk,
            now_ms=self._clock.now_ms,
            tell=self._tell,
            seen=self._seen,
            counts=self.counts,
        )
        """The damage that the disk does to the files between processes."""
        self._is_damaging = scenario.is_damaged
        self._quarantined: list[Entry] = []
        """The messages in quarantine in the end."""
        self._around = Surroundings(
            scenario=scenario,
            clock=self._clock,
            disk=self._disk,
            disk_faults=self._disk_faults if scenario.disk_faults else None,
            network=self._network,
            tell=self._tell,
            complain=self.complain,
            damage=self.damage,
            removed=RemovedSegments(
                root=ROOT,
                now_ms=self._clock.now_ms,
                tell=self._tell,
                seen=self._seen,
                counts=self.counts,
                damaged=self.damage.positions,
            ),
        )
        self._disk.reserves_blocks = scenario.reserves_blocks
        self._ledger = BulkLedger(self._tell, self.complain, self.counts)
        self._full: list[int] = []
        """Sizes that the disk has for a while."""
        self._pause = RESTART_SECONDS / 2
        self._process: Process | None = None
        self._last = trio.Event()
        """Whether the last process has begun."""
        self._crashes = 0
        self._clients: list[StagedClient] = []

    def complain(self, fault: str) -> None:
        """Take note of something that must not happen."""
        self.faults.append(f"at {trio.current_time():.3f} s: {fault}")

    def tell_skip(self, topic: str, queue_id: int, offset: int) -> None:
        """Take note of where a queue goes on whose files were damaged."""
        at_ms = self._clock.now_ms()
        self._tell(Skip(at_ms=at_ms, who=WHO, topic=topic, queue=queue_id, offset=offset))
        self.counts["offsets of a queue skipped"] += 1

    def _tell(self, event: Event) -> None:
        self._events.append(event)
        self._seen.hear(event)

    @property
    def is_dying(self) -> bool:
        """Whether a process has ended, or is about to since its disk has failed."""
        process = self._process
        return process is not None and (process.is_over or process.has_met_fault)

    async def run(self) -> None:
        """Carry out the plan, from the first process to the end of the last one."""
        scenario, store = self._scenario, self._scenario.store
        # The history is written by the clock that is disturbed; syncs follow trio's.
        fastest = max([1.0, *(one.rate or 0 for one in scenario.clock_faults)])
        unsynced_ms = store.flush_interval_commit_log_ms + SYNCS_MAX * scenario.sync_max_ms
        if any(one.operation is not Operation.READ for one in scenario.disk_faults):
            unsynced_ms += FAILED_END_MS
        self._events.append(
            Start(
                at_ms=self._clock.now_ms(),
                who=WHO,
                flush="SYNC_FLUSH" if scenario.is_sync_flush else "ASYNC_FLUSH",
                unsynced_ms=int(unsynced_ms * fastest),
                settings={"seed": scenario.seed},
            )
        )
        if scenario.begun is not None:
            begin(self._disk, ROOT, scenario.begun, store, self._tell)
        clients = [self._client(plan) for plan in scenario.clients]
        self._clients = clients
        async with trio.open_nursery() as processes:
            processes.start_soon(self._live_all)
            async with trio.open_nursery() as nursery:
                nursery.start_soon(self._disturb_clock)
                for disk_fault in scenario.disk_faults:
                    nursery.start_soon(self._fail_disk, disk_fault)
                for full_disk in scenario.full_disks:
                    nursery.start_soon(self._fill_disk, full_disk)
                for rot in scenario.rots:
                    nursery.start_soon(self._rot, rot)
                for client in clients:
                    nursery.start_soon(client.run)
            await trio.sleep_until(scenario.duration_ms / 1000)
            await self._last.wait()
            await self._finish()

    def judge(self, virtual_ms: int) -> Outcome:
        """Hold the history against the promises."""
        report = check({"history": enumerate(self._events, start=2)})
        return Outcome(
            scenario=self._scenario,
            judged=report.judged,
            events=tuple(self._events),
            faults=(*self.faults, *map(_in_words, filterfalse(self._is_damage, report.broken))),
            crashes=self._crashes,
            requests=sum(client.requests for client in self._clients),
            virtual_ms=virtual_ms,
            counts=dict(sorted(self.counts.items())),
        )

    def _is_damage(self, broken: Broken) -> bool:
        """Whether the disk has done it."""
        quarantined = Counter(name_in(one.unique_id, one.keys) for one in self._quarantined)
        quarantined.update(self.damage.names_at(one.origin_py for one in self._quarantined))
        in_doubt = Counter(
            name_in(one.unique_id, one.keys)
            for one in self._quarantined
            if one.reason == "in_doubt"
        )
        return self.damage.explains(broken, quarantined, in_doubt)

    async def _live_all(self) -> None:
        """One process after the other; the last one until it is asked to stop."""
        for life in self._scenario.lives:
            await self._live(life)
            while trio.current_time() < life.end_ms / 1000:
                # Its disk has failed before the planned end.
                await self._live_again(life)
            self._rest(life)
            await trio.sleep(life.down_ms / 1000)
        self._last.set()
        for _ in range(2 if self._scenario.rots else 1):
            await self._live(None)
            while self._process is not None and self._process.crashes:
                await self._live_again(None)

    def _rest(self, life: Life) -> None:
        """The events for the files behind a process, before the next one."""
        if life.rest is None:
            if self._is_damaging:
                self.damage.remember()
            return
        for damage in life.rest.damages:
            self.damage.do(damage)
        if life.rest.is_rocketmq and hand_back(self._disk, ROOT):
            self.counts["stores that RocketMQ had"] += 1
        for loss in life.rest.losses:
            self.counts[f"lost: {loss.value}"] += lose(self._disk, ROOT, loss)

    async def _live_again(self, life: Life | None) -> None:
        """One more process behind one that the disk has brought to its end."""
        has_begun = self._process is not None and self._process.has_begun
        self._pause = RESTART_SECONDS if has_begun else min(2 * self._pause, RESTART_SECONDS_MAX)
        await trio.sleep(self._pause)
        await self._live(life)

    async def _live(self, life: Life | None) -> None:
        """Run one process to its end, and count its crashes."""
        last = self._process
        saved, waiting_count = (
            (None, 0) if last is None else (last.saved_offsets, last.waiting_count)
        )
        self._process = process = Process(self._around, saved, waiting_count)
        await process.live(life)
        self._crashes += process.crashes

    async def _fail_disk(self, fault: DiskFault) -> None:
        await trio.sleep_until(fault.at_ms / 1000)
        self._disk_faults.rules.append(
            FaultRule(
                operations=(fault.operation,),
                skip=fault.skip,
                fault=DiskError(written=fault.written),
            )
        )

    async def _rot(self, rot: Rot) -> None:
        await trio.sleep_until(rot.at_ms / 1000)
        if self._process is not None and self._process.has_begun and not self._process.is_over:
            await self._process.rot(rot)

    async def _fill_disk(self, full: FullDisk) -> None:
        await trio.sleep_until(full.at_ms / 1000)
        total = full.total(self._disk.usage("/").used)
        self._full.append(total)
        self._disk.total = min(self._full)
        self._events.append(Fault(at_ms=self._clock.now_ms(), who=WHO, kind="disk full"))
        await trio.sleep_until(full.until_ms / 1000)
        self._full.remove(total)
        self._disk.total = min(self._full, default=DISK_SIZE)
        self._events.append(Fault(at_ms=self._clock.now_ms(), who=WHO, kind="disk has room"))

    async def _disturb_clock(self) -> None:
        for fault in self._scenario.clock_faults:
            await trio.sleep_until(fault.at_ms / 1000)
            if fault.rate is not None:
                self._clock.run_at(fault.rate)
            self._step_clock(fault.step_ms)

    def _step_clock(self, by_ms: int) -> None:
        if by_ms:
            self._events.append(ClockStep(at_ms=self._clock.now_ms(), who=WHO, by_ms=by_ms))
            self._clock.step(by_ms)

    async def _finish(self) -> None:
        """Wait until everything has arrived, read it all, look into the store, and stop."""
        self._disk_faults.heal()
        self._network.calm()
        process = await self._process_ready()
        self._clock.run_at(1.0)
        self._step_clock(START_MS + int(trio.current_time() * 1000) - self._clock.now_ms())
        await self._last_client().bulk.settle(self._scenario.schedules)
        left_ms = max(last_moment_ms(self._events) - self._clock.now_ms(), 0)
        await trio.sleep(min(left_ms, self._wait_max_ms()) / 1000)
        self._step_clock(max(last_moment_ms(self._events) - self._clock.now_ms(), 0))
        await self._settle(process)
        if self._scenario.rots and process.broker is not None:
            # What is damaged is found at the next start, if no scrub has found it.
            process.broker.request_stop()
            await process.wait_over()
            process = await self._process_ready()
            await self._settle(process)
        await self._last_client().read_all()
        if process.broker is not None:
            kept = {name for client in self._clients for name in client.quarantine.kept}
            quarantine = process.broker.timer_store.quarantine
            self._quarantined = [entry for entry, _ in quarantine.entries()]
            kept = set[str]() if self._seen.power_cuts else kept - self.damage.names
            for fault in faults_in(process.broker, kept, self.damage.is_expected_quarantined):
                self.complain(fault)
            process.broker.request_stop()

    async def _settle(self, process: Process) -> None:
        """Wait until nothing waits any more; not for ever."""
        for _ in range(SETTLE_MAX):
            await trio.sleep(SETTLE_SECONDS)
            if process.broker is None or is_drained(process.broker):
                break

    async def _process_ready(self) -> Process:
        """The last process, once it takes requests; the disk may have ended some before it."""
        while True:
            process = self._process
            assert process is not None
            await process.wait_ready()
            if not process.is_over:
                return process
            await trio.sleep(RESTART_SECONDS)

    def _wait_max_ms(self) -> int:
        """How long is waited for what comes late; then the clock is set forward to it."""
        return WAIT_WINDOWS * self._scenario.timer.roll_window_ms

    def _put(self, message: Message) -> bool:
        return self._process is not None and self._process.put(message)

    def _last_client(self) -> StagedClient:
        """One that does what is left to do when the plan is over."""
        number = len(self._scenario.clients)
        return self._client(ClientPlan(number=number, coding=Coding.CBOR, steps=()))

    def _client(self, plan: ClientPlan) -> StagedClient:
        return StagedClient(
            plan,
            network=self._network,
            clock=self._clock,
            tell=self._tell,
            complain=self.complain,
            seen=self._seen,
            put=self._put,
            ledger=self._ledger,
        )


def _in_words(broken: Broken) -> str:
    places = ", ".join(line.rpartition(":")[2] for line in broken.lines)
    return (
        f"{broken.rule.name} {broken.message_id}: expected {broken.expected}, "
        f"found {broken.found} (lines {places})"
    )
