"""The plan that all else is added to: bursts of requests, ends of lives, failing clocks and disks.

The day of a broker is short bursts of requests with long spans between them. Moments that messages
ask for lie close to each other, at the edges of slots and of the roll window. Processes end in the
bursts and at the moments asked for, where something is under way.
"""

from __future__ import annotations

import itertools
from random import Random

import attrs

from timermq.pipeline.state.timer_options import TimerOptions
from timermq.remoting.command import Coding
from timermq.timerstore.store_options import FlushDiskType, StoreOptions

from ..disks.fault_plan import Operation
from ..process_disk import Place
from ..scenario import (
    ClockFault,
    DiskFault,
    EndKind,
    FaultKind,
    Life,
    NetworkPlan,
    Scenario,
    Trigger,
)
from ..steps import (
    QUEUES,
    TOPICS,
    Cancel,
    ClientPlan,
    Commit,
    Disconnect,
    Item,
    Leaving,
    LookUp,
    Move,
    Name,
    Pull,
    Send,
    Step,
    When,
)

DAY_MS = 86_400_000
BURSTS_A_DAY = 5
STEPS_A_BURST = 120
"""Steps of all clients together, on average."""
ROLLS_MAX = 10
"""How many rolls a step of the clock or an outage may cost each message: few, for tiny wheels."""
IDLE_ROLLS_MAX = 20
"""How many rolls it may cost when an idle read pointer is behind the present at a crash."""

_WHEELS = (
    # slots_total, timer_roll_window_slot, timer_precision_ms
    (5, 3, 1000),
    (40, 8, 1000),
    (120, 20, 1000),
    (120, 20, 1000),
    (600, 200, 100),
    (7_200, 900, 1000),
    (90_000, 20_000, 1000),
)
CRASHES = {
    FaultKind.KILL: EndKind.KILL,
    FaultKind.POWER: EndKind.POWER,
    FaultKind.TORN: EndKind.TORN,
}


_FAILING = (Operation.SYNC, Operation.SYNC, Operation.SYNC_DIR, Operation.WRITE)


def draw_base(seed: int, duration_ms: int, faults: frozenset[FaultKind]) -> Scenario:
    """Make the plan of a seed, before anything is added to it."""
    return _Drawing(seed, duration_ms, faults).scenario()


@attrs.frozen
class _Burst:
    """A span in which clients work."""

    start_ms: int
    end_ms: int


class _Drawing:
    """Draws the plan of one seed. The order of the draws is part of what a seed means."""

    def __init__(self, seed: int, duration_ms: int, faults: frozenset[FaultKind]) -> None:
        self._seed = seed
        self._duration_ms = duration_ms
        self._faults = faults
        self._draw = Random(seed)  # noqa: S311 - a plan, not a secret
        self._numbers = itertools.count()
        self._sent: list[tuple[int, int, str]] = []
        """Time of sending, number and topic of every message so far."""
        self._moments: list[int] = []
        """When messages are due, roughly: it is of interest that processes end there."""
        self._timer = self._draw_timer()

    def scenario(self) -> Scenario:
        """Draw all parts of the plan, in their order."""
        store = self._draw_store()
        bursts = self._draw_bursts()
        clients = self._draw_clients(bursts)
        return Scenario(
            seed=self._seed,
            duration_ms=self._duration_ms,
            store=store,
            timer=self._timer,
            network=self._draw_network(),
            clients=clients,
            lives=self._draw_lives(bursts),
            clock_faults=self._draw_clock(bursts),
            disk_faults=self._draw_disk_faults(bursts),
            sync_max_ms=self._draw.choice((0, 2, 20, 20)),
        )

    def _draw_timer(self) -> TimerOptions:
        slots, window, precision_ms = self._draw.choice(_WHEELS)
        # Rolls write units, and the log of many small segments is slow.
        units = self._draw.choice((4, 40) if window >= 900 else (200, 1_000))
        return TimerOptions(
            slots_total=slots,
            timer_roll_window_slot=window,
            timer_precision_ms=precision_ms,
            timer_max_delay_sec=self._draw.choice((3_600, 86_400, 259_200)),
            mapped_file_size_timer_log=52 * units + 16,
            clock_check_interval_ms=min(
                self._draw.choice((60_000, 600_000)), IDLE_ROLLS_MAX * window * precision_ms
            ),
            clock_step_max_ms=self._draw.choice((1_000, 3_600_000)),
            clock_doubt_ms=self._draw.choice((0, 600_000)),
            read_ahead_ms=self._draw.choice((0, 100, 300)),
            enqueue_linger_ms=self._draw.choice((0, 20)),
            enqueue_batch_count_max=self._draw.choice((2, 1_024, 1_024)),
            deliver_batch_count_max=self._draw.choice((1, 3, 256, 256, 256)),
            slot_units_max=self._draw.choice((2, 50, 1 << 20)),
            open_slots_max=self._draw.choice((1, 3, 32)),
        )

    def _draw_store(self) -> StoreOptions:
        is_sync = self._draw.random() < 0.5
        return StoreOptions(
            flush_disk_type=FlushDiskType.SYNC_FLUSH if is_sync else FlushDiskType.ASYNC_FLUSH,
            mapped_file_size_commit_log=self._draw.choice((1 << 12, 1 << 15, 1 << 18)),
            mapped_file_size_consume_queue=20 * self._draw.choice((5, 50, 1_000)),
            max_message_size=2_048,
            max_hash_slot_num=self._draw.choice((16, 200)),
            max_index_num=self._draw.choice((64, 2_000)),
            file_reserved_time_hours=24 * 3_650,
            flush_interval_commit_log_ms=self._draw.choice((100, 500)),
            flush_interval_consume_queue_ms=self._draw.choice((300, 5_000, 5_000)),
            clean_resource_interval_ms=3_600_000,
            # A full disk refuses what is sent. That is no reason to remove what has arrived.
            disk_space_clean_forcibly_ratio=100,
            disk_space_warning_level_ratio=self._draw.choice((90, 100)),
            index_flush_interval_ms=self._draw.choice((500, 30_000)),
            # The machine that this runs on would decide it otherwise.
            physical_memory_size=1 << 30,
        )

    def _draw_network(self) -> NetworkPlan:
        if FaultKind.NETWORK not in self._faults or self._draw.random() < 0.4:
            return NetworkPlan()
        return NetworkPlan(
            delay_max_ms=self._draw.choice((0, 2, 40, 400)),
            pieces_max=self._draw.choice((1, 2, 5)),
        )

    def _draw_bursts(self) -> list[_Burst]:
        count = max(1, round(BURSTS_A_DAY * self._duration_ms / DAY_MS))
        longest = max(self._duration_ms // (2 * count), 2)
        bursts: list[_Burst] = []
        for number in range(count):
            # One of them falls into each part of the time.
            first, end = (self._duration_ms * n // count for n in (number, number + 1))
            length = min(self._draw.choice((300, 1_000, 4_000, 20_000)), longest)
            start = self._draw.randrange(first, max(end - length, first + 1))
            bursts.append(_Burst(start, start + length))
        return bursts

    def _draw_clients(self, bursts: list[_Burst]) -> tuple[ClientPlan, ...]:
        codings = [coding for coding in Coding for _ in range(self._draw.choice((1, 1, 1, 2, 4)))]
        steps: list[list[Step]] = [[] for _ in codings]
        for burst in bursts:
            for number in range(len(codings)):
                share = STEPS_A_BURST // len(codings)
                count = self._draw.randint(0, 2 * share)
                times = sorted(
                    self._draw.randrange(burst.start_ms, burst.end_ms) for _ in range(count)
                )
                steps[number] += [self._draw_step(at_ms) for at_ms in times]
        return tuple(
            ClientPlan(number=number, coding=coding, steps=tuple(steps[number]))
            for number, coding in enumerate(codings)
        )

    def _draw_step(self, at_ms: int) -> Step:
        choice = self._draw.random()
        if choice < 0.42:
            return self._draw_send(at_ms)
        if choice < 0.66:
            return Pull(
                at_ms=at_ms,
                topic=self._draw.choice(TOPICS),
                queue_id=self._draw.randrange(QUEUES),
                hold_ms=self._draw.choice((0, 0, 300, 5_000)),
            )
        if choice < 0.70:
            return Commit(at_ms=at_ms)
        if choice < 0.73 and FaultKind.NETWORK in self._faults:
            return Disconnect(
                at_ms=at_ms,
                leaving=self._draw.choice(list(Leaving)),
                turns=self._draw.choice((0, 1, 3, 8, 20)),
            )
        if not self._sent:
            return self._draw_send(at_ms)
        _, number, topic = self._draw.choice(self._sent[-40:])
        if choice < 0.88:
            return Cancel(
                at_ms=at_ms, number=number, topic=topic, name=self._draw.choice(list(Name))
            )
        if choice < 0.95:
            return Move(at_ms=at_ms, number=number, topic=topic, ahead_ms=self._draw_ahead(at_ms))
        return LookUp(at_ms=at_ms, number=number, topic=topic)

    def _draw_send(self, at_ms: int) -> Send:
        count = self._draw.choice((1, 1, 1, 2, 5))
        return Send(at_ms=at_ms, items=tuple(self._draw_item(at_ms) for _ in range(count)))

    def _draw_item(self, at_ms: int) -> Item:
        number, topic = next(self._numbers), self._draw.choice(TOPICS)
        self._sent.append((at_ms, number, topic))
        when = self._draw.choice((When.NOW, When.AT, When.AT, When.AT, When.DELAY, When.LEVEL))
        ahead_ms = self._draw_ahead(at_ms) if when in (When.AT, When.DELAY) else 0
        return Item(
            number=number,
            topic=topic,
            queue_id=self._draw.randrange(QUEUES),
            when=when,
            ahead_ms=max(ahead_ms, 0) if when is When.DELAY else ahead_ms,
            level=self._draw.randint(1, 4) if when is When.LEVEL else 0,
            body_size=self._draw.choice((8, 8, 8, 40, 600)),
        )

    def _draw_ahead(self, at_ms: int) -> int:
        """How many milliseconds ahead a message asks for its moment."""
        window_ms = self._timer.roll_window_ms
        far_ms = min(4 * window_ms, self._timer.timer_max_delay_sec * 1000)
        choice = self._draw.random()
        if choice < 0.05:
            ahead_ms = self._draw.choice((-5_000, -1, 0, 1))
        elif choice < 0.35:
            ahead_ms = self._draw.randint(0, 3_000)
        elif choice < 0.6 and self._moments:
            # The moment is close to that of another message.
            beside_ms = self._draw.choice((-1, 0, 0, 0, 1))
            ahead_ms = self._draw.choice(self._moments[-20:]) - at_ms + beside_ms
        elif choice < 0.75:
            ahead_ms = window_ms + self._draw.choice((-1_000, -1, 0, 1, 1_000))
        elif choice < 0.98:
            ahead_ms = self._draw.randint(0, far_ms)
        else:
            ahead_ms = self._timer.timer_max_delay_sec * 1000 + self._draw.choice((-1, 0, 1))
            return ahead_ms if far_ms > ahead_ms - 2 else far_ms
        self._moments.append(at_ms + ahead_ms)
        return ahead_ms

    def _draw_lives(self, bursts: list[_Burst]) -> tuple[Life, ...]:
        kinds = [kind for fault, kind in CRASHES.items() if fault in self._faults]
        lives: list[Life] = []
        for burst in bursts:
            for _ in range(self._draw.choice((0, 1, 1, 2, 4))):
                kind = EndKind.STOP
                if kinds and self._draw.random() < 0.9:
                    kind = self._draw.choice(kinds)
                lives.append(self._draw_life(burst, kind))
        lives.sort(key=lambda life: life.end_ms)
        starts = [0, *(life.end_ms + life.down_ms for life in lives)]
        return tuple(
            attrs.evolve(life, saving_ms=self._draw_saving(life.end_ms - start))
            for start, life in zip(starts, lives, strict=False)
        )

    def _draw_saving(self, span_ms: int) -> int:
        """How often a process saves: a short one often, a long one rarely."""
        if span_ms < 60_000:
            return self._draw.choice((50, 300, 1_000))
        return min(self._draw.choice((120_000, 300_000)), ROLLS_MAX * self._timer.roll_window_ms)

    def _draw_life(self, burst: _Burst, kind: EndKind) -> Life:
        end_ms = self._draw.randint(burst.start_ms, burst.end_ms)
        if self._moments and self._draw.random() < 0.4:
            moment = self._draw.choice(self._moments) + self._draw.choice((-100, -1, 0, 0, 1, 5))
            end_ms = min(max(moment, 0), self._duration_ms)
        trigger = Trigger.TIME if kind is EndKind.STOP else self._draw.choice(list(Trigger))
        return Life(
            end_ms=end_ms,
            kind=kind,
            trigger=trigger,
            count=self._draw.choice((1, 2, 5, 30, 200)) + self._draw.randrange(10),
            place=self._draw.choice(list(Place)),
            torn=self._draw.getrandbits(32),
            down_ms=min(
                self._draw.choice((0, 1, 900, 900, 10_000, 600_000)),
                ROLLS_MAX * self._timer.roll_window_ms,
            ),
        )

    def _draw_clock(self, bursts: list[_Burst]) -> tuple[ClockFault, ...]:
        if FaultKind.CLOCK not in self._faults or self._draw.random() < 0.4:
            return ()
        faults: list[ClockFault] = []
        for _ in range(self._draw.randint(1, 4)):
            burst = self._draw.choice(bursts)
            at_ms = self._draw.randint(burst.start_ms, burst.end_ms)
            choice = self._draw.random()
            if choice < 0.5:
                faults.append(ClockFault(at_ms=at_ms, step_ms=self._draw_clock_step()))
            elif choice < 0.75:
                # The clock steps away and back again.
                step_ms = self._draw_clock_step()
                until_ms = at_ms + self._draw.choice((1, 50, 3_000, 600_000))
                faults.append(ClockFault(at_ms=at_ms, step_ms=step_ms))
                faults.append(ClockFault(at_ms=until_ms, step_ms=-step_ms))
            else:
                rate = self._draw.choice((0.0, 0.5, 0.999, 1.001, 2.0))
                until_ms = at_ms + self._draw.choice((500, 20_000, 600_000))
                faults.append(ClockFault(at_ms=at_ms, rate=rate))
                faults.append(ClockFault(at_ms=until_ms, rate=1.0))
        return tuple(sorted(faults, key=lambda fault: fault.at_ms))

    def _draw_disk_faults(self, bursts: list[_Burst]) -> tuple[DiskFault, ...]:
        if FaultKind.EIO not in self._faults or self._draw.random() < 0.6:
            return ()
        faults: list[DiskFault] = []
        for _ in range(self._draw.randint(1, 3)):
            burst = self._draw.choice(bursts)
            faults.append(
                DiskFault(
                    at_ms=self._draw.randint(burst.start_ms, burst.end_ms),
                    operation=self._draw.choice(_FAILING),
                    skip=self._draw.choice((0, 1, 5, 20)),
                    written=self._draw.choice((0, 0, 52, 100, 600)),
                )
            )
        return tuple(sorted(faults, key=lambda fault: fault.at_ms))

    def _draw_clock_step(self) -> int:
        """From a millisecond to an hour, and at most so far that what waits does not roll for ever.

        A message for a moment of a clock that was wrong by days is taken, and rolls through them.
        Steps longer than any delay are drawn in ``clock_steps``.
        """
        largest_ms = ROLLS_MAX * self._timer.roll_window_ms
        sizes = (1, 10, 999, 1_000, 7_000, 60_000, 3_600_000)
        size_ms = self._draw.choice([one for one in sizes if one <= largest_ms])
        return self._draw.choice((-1, 1)) * size_ms
