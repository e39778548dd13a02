"""Acts within the milliseconds in which a message leaves, which chance alone hardly meets.

A message that is due goes from the wheel through three tasks to its topic. What happens between two
of their steps decides whether cancels, clocks that are set and ends of the process are heeded.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import trio

from timermq.pipeline.timer_message_store import TimerMessageStore

from .notebook import Letter
from .requests import Requests
from .sending import Sending
from .setting import Fault
from .stage import Stage

STEPS = (0, 0, 1, 2, 3, 5, 8, 13, 21, 34)
"""Turns of the event loop between two acts."""
AHEAD_MS = 3_000
"""So far ahead the moment may be that is waited for."""
BEHIND_MS = 60_000
"""So long ago it may have been: after an outage it leaves now."""


class Pounce:
    """Waits for the moment of a message, and does something at once."""

    def __init__(self, stage: Stage, requests: Requests, sending: Sending) -> None:
        self.ends_life = False
        """The process is to be stopped, or to end, now."""
        self._stage = stage
        self._draw = stage.draw
        self._requests = requests
        self._sending = sending

    async def at_start(self, service: TimerMessageStore) -> None:
        """Do it as soon as a process serves, if something is overdue."""
        now_ms = self._stage.clock.look()
        overdue = [
            one
            for one in self._stage.letters
            if now_ms - BEHIND_MS < max(one.moments_ms()) <= now_ms
        ]
        if overdue:
            await self._do(service, self._draw.choice(overdue))

    async def now(self, service: TimerMessageStore) -> None:
        """Do it at a moment that comes soon: of a pending message, or of new ones."""
        draw, now_ms = self._draw, self._stage.clock.look()
        soon = [
            one
            for one in self._stage.letters
            if now_ms < max(one.moments_ms()) <= now_ms + AHEAD_MS
        ]
        if soon and draw.random() < 0.6:
            letter = draw.choice(soon)
        else:
            moment_ms = now_ms + draw.choice((2, 30, 400, 1_500))
            count = draw.choice((1, 2, 3, 6))
            sent = await self._sending.send(
                service, [moment_ms + draw.choice((0, 0, 0, 1, -1)) for _ in range(count)]
            )
            letter = draw.choice(sent)
        wait_ms = max(letter.moments_ms()) - self._stage.clock.look()
        await trio.sleep(max(wait_ms, 0) / 1000)
        await self._do(service, letter)

    async def _do(self, service: TimerMessageStore, letter: Letter) -> None:
        self._stage.tell(f"as {letter.name} leaves")
        self._stage.count("pounces")
        for _ in range(self._draw.choice((1, 1, 2, 3))):
            for _ in range(self._draw.choice(STEPS)):
                await trio.lowlevel.checkpoint()
            if self.ends_life or self._stage.disk.is_dead:
                return
            await self._one(service, letter)

    async def _one(self, service: TimerMessageStore, letter: Letter) -> None:
        draw, faults = self._draw, self._stage.setting.faults
        acts: list[tuple[int, Callable[[TimerMessageStore, Letter], Awaitable[None]]]] = [
            (4, self._requests.cancel),
            (3, self._move),
            (2, self._join),
            (2, self._stop),
        ]
        acts += [(4, self._set_back)] * (Fault.CLOCK in faults)
        acts += [(3, self._fill)] * (Fault.FULL in faults)
        acts += [(4, self._end)] * bool({Fault.KILL, Fault.POWER} & faults)
        (act,) = draw.choices([one for _, one in acts], [weight for weight, _ in acts])
        await act(service, letter)

    async def _move(self, service: TimerMessageStore, letter: Letter) -> None:
        by_ms = self._draw.choice((-500, 1, 300, self._stage.setting.precision_ms, 9_000))
        await self._requests.move(service, letter, max(letter.moments_ms()) + by_ms)

    async def _join(self, service: TimerMessageStore, letter: Letter) -> None:
        """More for the slot that is open."""
        moment_ms = max(letter.moments_ms())
        by_ms = self._draw.choice((-5_000, 0, 1, 100))
        await self._sending.send(service, [moment_ms + by_ms] * self._draw.choice((1, 4)))

    async def _set_back(self, service: TimerMessageStore, letter: Letter) -> None:
        """What is on its way steps aside; then time passes, or the process ends."""
        del service, letter
        self._stage.set_clock(self._draw.choice((-1, -700, -5_000, -90_000)))
        await trio.sleep(self._draw.choice((0, 0.001, 0.3, 1.2, 3.5)))
        if self._draw.random() < 0.5 and self._stage.setting.faults & {Fault.KILL, Fault.POWER}:
            self._stage.end_within(1)

    async def _fill(self, service: TimerMessageStore, letter: Letter) -> None:
        del service, letter
        self._stage.disk.fill()
        self._stage.tell("the disk is full")
        await trio.lowlevel.checkpoint()

    async def _stop(self, service: TimerMessageStore, letter: Letter) -> None:
        del service, letter
        self.ends_life = True
        await trio.lowlevel.checkpoint()

    async def _end(self, service: TimerMessageStore, letter: Letter) -> None:
        """End within some steps, now or when the next checkpoint is written."""
        del service, letter
        await trio.sleep(self._draw.choice((0, 0, 0.001, 0.25, 1.1)))
        self._stage.end_within(self._draw.randint(1, 120))
        await trio.sleep(0.05)
