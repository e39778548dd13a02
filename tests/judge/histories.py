"""Leads the lives of one store, as a seed decides, and judges each.

A life is one process: it opens the store, serves it while messages are sent, cancelled and moved,
and ends somehow. Between two lives anything may happen to the files that is allowed. In the last
life nothing happens: it goes on until everything is due, and then nothing may be left.
"""

from __future__ import annotations

from collections import Counter
from random import Random

import trio

from fakes import START_MS, VirtualClock
from timermq.pipeline.timer_message_store import TimerMessageStore
from timermq.remoting.causes import causes
from timermq.simulator.disks.memory_disk import MemoryDisk
from timermq.timerstore.disk import is_full
from timermq.timerstore.message import pack_host
from timermq.timerstore.message_store import MessageStore

from .acts import Acts
from .between import DERIVED, Between
from .judging import Judging
from .log_times import LogTimes
from .mortal_disk import PLENTY, MortalDisk, Steps, WallClock
from .notebook import Letter
from .reader import Log, LogReader, read_queue
from .rules import LogFacts, facts_of, queue_breaches
from .setting import Fault, Setting
from .stage import TOPICS, serve

ROOT = "/store"
LOG = f"{ROOT}/commitlog"
HOST = pack_host("127.0.0.1", 10911)
STOP_SECONDS = 60.0
"""A graceful stop takes no longer."""
OVER_SECONDS = 120
"""So long after the last moment nothing may wait any more."""


class BreachError(Exception):
    """A rule is broken: nothing that follows would tell more."""


class Lives:
    """All lives of one store.

    Args:
        seed: Decides everything.
        faults: Faults that may come.
        steps: Counts the steps of tasks, as an instrument of trio's.
    """

    def __init__(self, seed: int, faults: frozenset[Fault], steps: Steps) -> None:
        self.breaches: list[str] = []
        self.history: list[str] = []
        self.coverage: Counter[str] = Counter()
        self._draw = draw = Random(seed)
        self._steps = steps
        self._setting = setting = Setting.draw(draw, faults)
        self._virtual = VirtualClock()
        self._clock = WallClock(self._virtual.now_ms)
        self._memory = MemoryDisk(now_ms=self._virtual.now_ms)
        self._memory.sync_seconds = lambda: setting.sync_seconds
        self._reader = LogReader(self._memory, LOG)
        self._disk = MortalDisk(self._memory, self._reader, LOG, self._clock)
        self._times = LogTimes()
        self._log = Log([], 0, 0)
        """As the last process left it."""
        self._must_have = 0
        """Where the log has to reach when it is opened again."""
        self._was_graceful = False
        """The last process was stopped in order."""
        self._is_compared = False
        """The present process has recovered the log, and it is as it had to be."""
        self._has_holes = False
        """A repair has kept what stood behind a hole, which a power cut had left."""
        self._owed_end = 0
        """What stands in the log before it survives everything."""
        self.letters: list[Letter] = []
        """All messages so far."""
        self._acts = Acts(self)

    # -- for the acts -------------------------------------------------------------------------

    @property
    def draw(self) -> Random:
        """The random numbers that decide all that happens."""
        return self._draw

    @property
    def setting(self) -> Setting:
        """What holds in all lives."""
        return self._setting

    @property
    def disk(self) -> MortalDisk:
        """That of the present process."""
        return self._disk

    @property
    def clock(self) -> WallClock:
        """The wall clock of all processes, which may be set."""
        return self._clock

    def owe(self, end: int) -> None:
        """What stands in the log before a position was said to be on the disk."""
        self._owed_end = max(self._owed_end, end)

    def read_log(self) -> Log:
        """The log as it is now."""
        return self._reader.read()

    def tell(self, text: str) -> None:
        """A line of the history."""
        self.history.append(f"{(self._clock.look() - START_MS) / 1000:10.3f}  {text}")

    def count(self, what: str, count: int = 1) -> None:
        """Something happened that the judge is there for."""
        self.coverage[what] += count

    def breach(self, text: str) -> None:
        """Note that a rule is broken, and go on."""
        self.breaches.append(text)
        self.tell(f"BREACH: {text}")

    def complain(self, text: str) -> None:
        """A rule is broken, and the lives end here.

        Raises:
            BreachError: Always.
        """
        self.breach(text)
        raise BreachError

    def set_clock(self, by_ms: int) -> None:
        """Set the wall clock ahead or back."""
        self._virtual.step(by_ms)
        self.count("clock set back" if by_ms < 0 else "clock set ahead")
        self.tell(f"the clock is set by {by_ms} ms")

    def end_within(self, steps: int) -> None:
        """Have the present process end at the so many-th step of any task from now on."""
        self._steps.left = steps

    # -- living -------------------------------------------------------------------------------

    async def run(self) -> None:
        """Live one life after the other; an error that escapes is a breach."""
        self.tell(self._setting.in_words())
        try:
            for number in range(self._draw.randint(1, 4)):
                self.tell(f"life {number + 1}")
                await self._live(is_last=False)
                await self._pass_between()
            self.tell("last life")
            await self._live(is_last=True)
        except BreachError:
            pass
        except Exception as error:
            self.breach(f"{'; '.join(f'{type(one).__name__}: {one}' for one in causes(error))}")

    async def _live(self, *, is_last: bool) -> None:
        self._disk = disk = MortalDisk(self._memory, self._reader, LOG, self._clock)
        self._steps.disk, self._steps.left = disk, None
        self._is_compared = False
        if is_last:
            disk.empty()
        else:
            self._draw_end(disk)
        is_graceful = False
        try:
            with trio.CancelScope() as scope:
                disk.on_death = scope.cancel
                is_graceful = await self._process(disk, is_last=is_last)
        except BreachError:
            raise
        except Exception as error:
            if not disk.is_dead:
                self._judge_end(error, is_last=is_last)
        self.count("refused for want of room", disk.refused_count)
        self._end(is_graceful=is_graceful and not disk.is_dead)
        if self.breaches:
            raise BreachError

    def _draw_end(self, disk: MortalDisk) -> None:
        """Where the process ends, if not in order."""
        if not {Fault.KILL, Fault.POWER} & self._setting.faults or self._draw.random() < 0.3:
            return
        at = int(2 ** self._draw.uniform(0, 10))
        if self._draw.random() < 0.5:
            part = self._draw.choice((0.0, self._draw.random(), 1.0))
            disk.die_at(at, part)
            self.tell(f"it is to end at operation {at}, {part:.2f} of it done")
        else:
            self._steps.left = 8 * at
            self.tell(f"it is to end at step {8 * at}")

    async def _process(self, disk: MortalDisk, *, is_last: bool) -> bool:
        """One process, from its start to its end; whether that came in order."""
        store_options = self._setting.store_options(self._draw)
        timer_options = self._setting.timer_options(self._draw)
        self.tell(
            f"{store_options.flush_disk_type.value}, roll window "
            f"{timer_options.timer_roll_window_slot}, "
            f"checkpoint every {timer_options.timer_flush_interval_ms} ms"
        )
        store = MessageStore.open(
            disk, ROOT, store_options, now_ms=self._virtual.now_ms, store_host=HOST
        )
        service = TimerMessageStore(store, timer_options, self._virtual)
        self._compare(store)
        self._times.served_from = trio.current_time()
        is_graceful = is_last or self._draw.random() < 0.5
        async with trio.open_nursery() as nursery:
            await nursery.start(serve, store)
            async with trio.open_nursery() as stages:
                await stages.start(serve, service)
                if is_last:
                    await self._wait_until_over(service)
                else:
                    await self._acts.some(service)
                if not is_graceful:
                    self.tell("it ends without a stop")
                    disk.die()
                    await trio.lowlevel.checkpoint()
                self.tell("it is stopped")
                if self._draw.random() < 0.8:
                    disk.fills_at = None
                    disk.empty()
                service.request_stop()
                stages.cancel_scope.deadline = trio.current_time() + STOP_SECONDS
            if stages.cancel_scope.cancelled_caught:
                if not disk.is_full:
                    self.complain("it does not stop, and there is room")
                disk.die()
            else:
                await store.aclose()
                self.count("stopped in order")
            nursery.cancel_scope.cancel()
        return not disk.is_dead

    def _judge_end(self, error: Exception, *, is_last: bool) -> None:
        """An end that was not asked for: only a full disk may refuse a start."""
        found = list(causes(error))
        is_room = all(isinstance(one, OSError) and is_full(one) for one in found)
        text = "; ".join(f"{type(one).__name__}: {one}" for one in found)
        if is_last or not is_room or self._memory.total == PLENTY:
            self.complain(f"the process ended by itself: {text}")
        self.tell(f"no room to start: {text}")
        self.count("starts without room")
        self._memory.total = PLENTY

    async def _wait_until_over(self, service: TimerMessageStore) -> None:
        """Let time pass until everything is due and nothing waits."""
        left_ms = self._acts.last_ms() - self._clock.look()
        await trio.sleep(max(left_ms, 0) / 1000 + 2)
        for _ in range(OVER_SECONDS):
            if not service.statistics().pending and not len(service.live()):
                break
            await trio.sleep(1)
        else:  # what has left counts until its slot is over: a clock set back puts that off
            self._judge(self.read_log(), over=True)
            await trio.sleep(self._clock.seconds_behind() + 2)
        statistics = service.statistics()
        if statistics.pending or len(service.live()):
            self.breach(f"{statistics.pending} units wait for ever in slots {service.live()}")
        if statistics.commit_queue_offset != statistics.queue_offset_max:
            self.breach(
                f"enqueued up to {statistics.commit_queue_offset} of {statistics.queue_offset_max}"
            )
        await self._acts.retry_all(service)
        await self._acts.prove_serving(service)

    # -- looking ------------------------------------------------------------------------------

    def _end(self, *, is_graceful: bool) -> None:
        """The process has ended: note what it left, and cut the power perhaps."""
        self._count_process()
        self._was_graceful = False
        if not self._is_compared:
            # It has ended before it had recovered the log: what the one before it left still holds.
            self._end_process(cuts_power=self._cuts_power())
            return
        log = self.read_log()
        self._times.learn(log, self._disk.written)
        self._judge(log, over=False)
        self._was_graceful = is_graceful
        if is_graceful:
            self._owed_end = log.end
            self._memory.process_kill()
        else:
            self._owed_end = max(
                self._owed_end, self._times.settled_end(log, self._setting.sync_seconds)
            )
        self._log, self._must_have = log, log.end
        if not is_graceful:
            self._end_process(cuts_power=self._cuts_power())

    def _cuts_power(self) -> bool:
        faults = self._setting.faults
        return Fault.POWER in faults and (Fault.KILL not in faults or self._draw.random() < 0.5)

    def _end_process(self, *, cuts_power: bool) -> None:
        if not cuts_power:
            self.count("kills")
            self._memory.process_kill()
            return
        is_torn = self._draw.random() < 0.7
        self.tell(f"the power is cut{', torn' if is_torn else ''}; owed to {self._owed_end}")
        self.count("power cuts, torn" if is_torn else "power cuts")
        self._memory.power_cut(self._draw if is_torn else None)
        self._must_have = min(self._must_have, self._owed_end)

    def _compare(self, store: MessageStore) -> None:
        """A process has recovered the store: nothing is missing that must be there."""
        log = self.read_log()
        if log.end < self._must_have:
            self.complain(f"the log ends at {log.end}, and had to reach {self._must_have}")
        if log.end != store.commit_log.max_offset:
            self.complain(
                f"whole records end at {log.end}, the store says {store.commit_log.max_offset}"
            )
        now = {record.position: record.digest for record in log.records}
        for record in self._log.records:
            # Behind it a power cut may have left a hole, which a repair has filled.
            is_kept = record.end <= min(log.end, self._must_have)
            if is_kept and now.get(record.position) != record.digest:
                self.complain(f"the record at {record.position} is not the one that was there")
        if log.end < self._log.end:
            self.tell(f"records from {log.end} to {self._log.end} are gone")
            self.count("lost at the end of the log")
            self._times.forget(log.end)
            before = facts_of(self._log, TOPICS).by_name
            after = facts_of(log, TOPICS).by_name
            for name, facts in before.items():
                self.count("deliveries undone", len(facts.arrivals) > len(after[name].arrivals))
        self._acts.forget_behind(log.end)
        if self._has_holes:
            self._acts.doubt_behind(self._must_have)
            self._has_holes = False
        # Recovery has written again what it trusts: that is not when it was stored.
        self._disk.written.clear()
        self._is_compared = True
        self._judge(log, over=False)
        if self.breaches:
            raise BreachError

    def _judge(self, log: Log, *, over: bool) -> LogFacts:
        """Hold every message against the rules."""
        found = facts_of(log, TOPICS)
        judging = Judging(letters=self.letters, times=self._times, setting=self._setting)
        for text in judging.breaches(log, found, over=over):
            self.breach(text)
        return found

    def judge_end(self) -> None:
        """Judge what is there when everything is over."""
        log = self.read_log()
        self._times.learn(log, self._disk.written)
        found = self._judge(log, over=True)
        for topic in TOPICS:
            shown = read_queue(self._memory, f"{ROOT}/consumequeue/{topic}/0")
            for text in queue_breaches(topic, shown, log):
                self.breach(text)
        every = found.by_name.values()
        self.count("seeds")
        self.count("messages", len(self.letters))
        self.count("arrived", sum(len(one.arrivals) for one in every))
        self.count("rolls", sum(one.roll_count for one in every))
        self.count("torn moves", found.torn_moves)
        self.count("left out with a mark", len(found.left_out))
        self.count("quarantined", len(found.entries))

    def _count_process(self) -> None:
        self.count("lives")
        self.count("segments cleaned", self._reader.removed_count)
        self.count("lives that cleaned", self._reader.removed_count > 0)
        self._reader.removed_count = 0

    async def _pass_between(self) -> None:
        """What happens between two lives."""
        ring_ms = self._setting.slots_total * self._setting.precision_ms
        down_ms = self._draw.choice((0, 0, 700, 3_000, 30_000, ring_ms * 2))
        self._virtual.step(down_ms)
        self.tell(f"{down_ms} ms pass")
        between = Between(self, self._memory, self._reader, ROOT)
        faults = self._setting.faults
        if Fault.CLOCK in faults and self._draw.random() < 0.3:
            self.set_clock(self._draw.choice((-90_000, -5_000, -700, 5_000, 90_000)))
        # Behind a stop on a full disk, queues may be incomplete, and the end of the log a guess.
        may_be_damaged = self._was_graceful and not self._disk.was_full
        if Fault.DAMAGE in faults and may_be_damaged and self._draw.random() < 0.8:
            self._log = between.damage(self.letters, self._log)
        lost = [one for one in DERIVED if one in faults and self._draw.random() < 0.4]
        between.lose(lost)
        if Fault.REPAIR in faults and not self._reader.damaged and self._draw.random() < 0.5:
            self._has_holes |= await between.repair(self._setting, self._virtual.now_ms())
