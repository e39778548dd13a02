"""What is done to a store that is served, drawn act by act, and what it answers."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import trio

from timermq.pipeline.quarantine.quarantine_release import Verdict as Release
from timermq.pipeline.timer_message_store import TimerMessageStore

from .notebook import Kind, Letter
from .pounce import Pounce
from .requests import Requests
from .rules import facts_of, slot_of
from .sending import Sending
from .setting import Fault
from .stage import TOPICS, Stage, is_told

PAUSES_MS = (0, 0, 1, 20, 300, 1_100, 3_000, 9_000)


class Acts:
    """Sends, cancels, moves; and the notebook of what was answered."""

    def __init__(self, stage: Stage) -> None:
        self._stage = stage
        self._draw = stage.draw
        self._requests = Requests(stage)
        self._sending = Sending(stage)
        self._pounce = Pounce(stage, self._requests, self._sending)

    @property
    def letters(self) -> list[Letter]:
        """All messages of the store so far, whatever became of them."""
        return self._stage.letters

    def last_ms(self) -> int:
        """The last moment that anything may wait for."""
        return max((moment for one in self.letters for moment in one.moments_ms()), default=0)

    def forget_behind(self, end: int) -> None:
        """The log ends here now; what was answered of what stood behind it is undone."""
        for letter in self.letters:
            letter.forget_behind(end)

    def doubt_behind(self, end: int) -> None:
        """What was answered of what stands behind a position may hold or not."""
        for letter in self.letters:
            letter.doubt_behind(end)

    async def some(self, service: TimerMessageStore) -> None:
        """Do two to twelve acts, with pauses; fewer when the life ends."""
        self._pounce.ends_life = False
        if self._draw.random() < 0.3:
            await self._pounce.at_start(service)
        for _ in range(self._draw.randint(2, 12)):
            if self._pounce.ends_life:
                return
            await self._act(service)
            if not self._pounce.ends_life:
                await trio.sleep(self._draw.choice(PAUSES_MS) / 1000)

    async def _act(self, service: TimerMessageStore) -> None:
        draw, faults = self._draw, self._stage.setting.faults
        acts: list[tuple[int, Callable[[TimerMessageStore], Awaitable[None]]]] = [(40, self._send)]
        if self.letters:
            acts += [(15, self._cancel), (25, self._move), (15, self._wait)]
            acts += [(20, self._recall)] * (Fault.RECALL in faults)
        acts += [(15, self._pounce.now)]
        acts += [(8, self._clean)] * (Fault.CLEAN in faults)
        acts += [(12, self._fill)] * (Fault.FULL in faults)
        acts += [(10, self._set_clock)] * (Fault.CLOCK in faults)
        acts += [(150, self._end_quarantine)] * bool(service.quarantine.active)
        (act,) = draw.choices([one for _, one in acts], [weight for weight, _ in acts])
        await act(service)

    async def _wait(self, service: TimerMessageStore) -> None:
        """Until a moment, or just beside it."""
        del service
        moment_ms = max(self._pick().moments_ms())
        wait_ms = moment_ms + self._draw.randint(-2, 2) - self._stage.clock.look()
        await trio.sleep(max(wait_ms if wait_ms < 20_000 else 0, 0) / 1000)

    async def _clean(self, service: TimerMessageStore) -> None:
        """Clean now, whatever the age: nearly no room is left."""
        disk = self._stage.disk
        is_full = disk.is_full
        if self._draw.random() < 0.5:
            disk.crowd(88)
        self._stage.tell(f"{await service.store.clean()} segments are cleaned")
        if not is_full:
            disk.empty()

    async def _fill(self, service: TimerMessageStore) -> None:
        """Fill the disk now or soon, or give it room again."""
        del service
        disk = self._stage.disk
        if disk.is_full:
            self._stage.tell("the disk has room again")
            disk.empty()
            return
        if self._draw.random() < 0.5:
            spare = self._draw.choice((0, 0, 1, 3))
            disk.fill(spare)
            self._stage.tell(f"the disk is full but for {spare} blocks")
        else:
            disk.fills_at = disk.operations + self._draw.randint(1, 60)
            self._stage.tell(f"the disk will be full at operation {disk.fills_at}")
        await trio.lowlevel.checkpoint()

    async def _set_clock(self, service: TimerMessageStore) -> None:
        """Set the clock, or confirm it."""
        if self._draw.random() < 0.5:
            self._stage.set_clock(self._draw.choice((-90_000, -5_000, -700, 700, 5_000, 90_000)))
            await trio.lowlevel.checkpoint()
            return
        self._stage.set_clock(90_000)
        await trio.sleep(self._draw.choice((0.05, 0.3, 1.5, 4.0)))
        self._stage.set_clock(-90_000)
        await trio.sleep(self._draw.choice((0, 0.3)))
        is_begun = service.rewind()
        self._stage.count("rewinds", is_begun)
        self._stage.tell(f"clock accept: {'begins anew' if is_begun else 'nothing to do'}")

    async def _cancel(self, service: TimerMessageStore) -> None:
        await self._requests.cancel(service, self._pick())

    async def _move(self, service: TimerMessageStore) -> None:
        letter, moment_ms = self._pick(), self._moment_ms()
        if self._draw.random() < 0.3:
            slot = slot_of(max(letter.moments_ms()), self._stage.setting.precision_ms)
            moment_ms = slot + self._draw.randint(1, self._stage.setting.precision_ms)
        await self._requests.move(service, letter, moment_ms)

    async def _recall(self, service: TimerMessageStore) -> None:
        """A delete for the moment that the message waits for, as far as the producer knows."""
        letter = self._pick()
        if not letter.is_shared:
            moment_ms = self._draw.choice(sorted(letter.moments_ms()))
            await self._requests.recall(service, letter, moment_ms)

    async def _end_quarantine(self, service: TimerMessageStore) -> None:
        """Try an entry again, or let it go."""
        kept = self._in_quarantine(service)
        if not kept:
            return
        letter, origin_py = self._draw.choice(kept)
        if self._draw.random() < 0.7:
            await self._retry(service, letter, origin_py)
            return
        letter.note(Kind.ASKED_TO_DROP, 0)
        released = service.release.drop(origin_py, by="the judge")
        self._stage.tell(f"drop {letter.name}: {released.verdict.value}")
        if released.verdict is Release.DROPPED and await is_told(
            self._stage, service, released.end
        ):
            self._stage.count("dropped")
            letter.note(Kind.DROPPED, released.end)

    def _in_quarantine(self, service: TimerMessageStore) -> list[tuple[Letter, int]]:
        """Messages that are in quarantine, each with the position of its record in the log."""
        entries = {one.origin_py for one, _ in service.quarantine.entries()}
        at = {record.position: record.name for record in self._stage.read_log().records}
        named = {at[origin_py]: origin_py for origin_py in entries if origin_py in at}
        return [(one, named[one.name]) for one in self.letters if one.name in named]

    async def retry_all(self, service: TimerMessageStore) -> None:
        """Try again what is in quarantine when nothing waits any more."""
        for letter, origin_py in self._in_quarantine(service):
            await self._retry(service, letter, origin_py)
        await trio.sleep(2)

    async def _retry(self, service: TimerMessageStore, letter: Letter, origin_py: int) -> None:
        """A message whose body is damaged stays; one that only stood beside it goes again."""
        released = service.release.retry(origin_py, by="the judge")
        self._stage.tell(f"retry {letter.name}: {released.verdict.value} {released.text}")
        self._stage.count("retries")
        disk = self._stage.disk
        is_spoilt = letter.spoilt_at == origin_py
        if not disk.is_dead and is_spoilt and released.verdict is not Release.KEPT:
            self._stage.breach(f"{letter.name}: damaged, and {released.verdict.value}")
        is_kept = released.verdict is Release.KEPT
        if is_kept and not (is_spoilt or disk.is_dead or disk.was_full):
            self._stage.breach(f"{letter.name}: sound, and kept: {released.text}")
        if released.verdict is Release.RETRIED and await is_told(
            self._stage, service, released.end
        ):
            self._stage.count("retries that succeed")
            letter.note(Kind.RETRIED, released.end)

    def _pick(self) -> Letter:
        """One of the newer messages, rather."""
        letters = self.letters if self._draw.random() < 0.3 else self.letters[-6:]
        return self._draw.choice(letters)

    def _moment_ms(self) -> int:
        draw, precision_ms = self._draw, self._stage.setting.precision_ms
        ahead_ms = draw.choice(
            (
                draw.randint(-1_000, 3),
                draw.randint(1, 2 * precision_ms),
                draw.randint(1, 8 * precision_ms),
                draw.randint(5 * precision_ms, 60 * precision_ms),
            )
        )
        if self.letters and draw.random() < 0.3:
            return max(self._pick().moments_ms()) + draw.choice((0, 0, 1, -1))
        return self._stage.clock.look() + ahead_ms

    async def _send(self, service: TimerMessageStore) -> None:
        count = self._draw.choice((1, 1, 1, 2, 5))
        await self._sending.send(service, [self._moment_ms() for _ in range(count)])

    async def prove_serving(self, service: TimerMessageStore) -> None:
        """One message more is taken and delivered."""
        (letter,) = await self._sending.send(service, [self._stage.clock.look() + 1_500])
        if not letter.has(Kind.SENT):
            self._stage.breach("a send is refused in the end")
            return
        await trio.sleep(4)
        if not facts_of(self._stage.read_log(), TOPICS).by_name[letter.name].arrivals:
            self._stage.breach("a message that was sent in the end does not arrive")
