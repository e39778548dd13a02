"""What is done to a store that is served, drawn act by act, and what it answers."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from random import Random
from typing import Protocol

import trio

from timermq.pipeline import TimerMessageStore
from timermq.pipeline.cancel_verdict import CancelError, Verdict, Wanted
from timermq.pipeline.quarantine_release import Verdict as Release
from timermq.timerstore.message import Message
from timermq.timerstore.put_status import PutStatus

from .mortal_disk import MortalDisk, WallClock
from .notebook import Kind, Letter
from .reader import TIMERS, Log
from .rules import NEVER, facts_of, slot_of
from .setting import Fault, Setting

TOPICS = ("T0", "T1")
PAUSES_MS = (0, 0, 1, 20, 300, 1_100, 3_000, 9_000)


class Stage(Protocol):
    """Where the acts take place."""

    @property
    def draw(self) -> Random: ...
    @property
    def setting(self) -> Setting: ...
    @property
    def disk(self) -> MortalDisk: ...
    @property
    def clock(self) -> WallClock: ...
    def owe(self, end: int) -> None: ...
    def read_log(self) -> Log: ...
    def tell(self, text: str) -> None: ...
    def count(self, what: str, count: int = 1) -> None: ...
    def breach(self, text: str) -> None: ...
    def set_clock(self, by_ms: int) -> None: ...


class Acts:
    """Sends, cancels, moves; and the notebook of what was answered."""

    def __init__(self, stage: Stage) -> None:
        self.letters: list[Letter] = []
        self._stage = stage
        self._draw = stage.draw

    def last_ms(self) -> int:
        """The last moment that anything may wait for."""
        return max((moment for one in self.letters for moment in one.moments_ms()), default=0)

    def forget_behind(self, end: int) -> None:
        """The log ends here now; what was answered of what stood behind it is undone."""
        for letter in self.letters:
            letter.forget_behind(end)

    async def some(self, service: TimerMessageStore) -> None:
        """One life's acts."""
        for _ in range(self._draw.randint(2, 12)):
            await self._act(service)
            await trio.sleep(self._draw.choice(PAUSES_MS) / 1000)

    async def _act(self, service: TimerMessageStore) -> None:
        draw, faults = self._draw, self._stage.setting.faults
        acts: list[tuple[int, Callable[[TimerMessageStore], Awaitable[None]]]] = [(40, self._send)]
        if self.letters:
            acts += [(15, self._cancel), (25, self._move), (15, self._wait)]
            acts += [(10, self._recall)] * (Fault.RECALL in faults)
        acts += [(8, self._clean)] * (Fault.CLEAN in faults)
        acts += [(12, self._fill)] * (Fault.FULL in faults)
        acts += [(10, self._set_clock)] * (Fault.CLOCK in faults)
        acts += [(30, self._end_quarantine)] * bool(service.quarantine.active)
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

    async def _recall(self, service: TimerMessageStore) -> None:
        """A delete for the moment that the message waits for, as far as the producer knows."""
        letter = self._pick()
        moment_ms = self._draw.choice(sorted(letter.moments_ms()))
        self._stage.tell(f"recall {letter.name} at {moment_ms % 10**8}")
        letter.is_recalled = True
        text = (
            f"TIMER_DEL_UNIQKEY\x01{letter.topic}+{letter.name}\x02"
            f"TIMER_DELIVER_MS\x01{moment_ms}\x02"
        )
        (one,) = service.put([Message(letter.topic, 0, b"0", text.encode())])
        self._stage.count("recalls", one.result.status is PutStatus.PUT_OK)
        await self._is_told(service, one.result.end)

    async def _end_quarantine(self, service: TimerMessageStore) -> None:
        """Try an entry again, which cannot succeed: its body is damaged; or let it go."""
        entries = {one.origin_py for one, _ in service.quarantine.entries()}
        spoilt = [one for one in self.letters if one.spoilt_at in entries]
        if not spoilt:
            return
        letter = self._draw.choice(spoilt)
        origin_py = letter.spoilt_at or 0
        if self._draw.random() < 0.5:
            released = service.release.retry(origin_py, by="the judge")
            self._stage.tell(f"retry {letter.name}: {released.verdict.value}")
            self._stage.count("retries")
            if released.verdict is not Release.KEPT and not self._stage.disk.is_dead:
                self._stage.breach(f"{letter.name}: damaged, and {released.verdict.value}")
            return
        released = service.release.drop(origin_py, by="the judge")
        self._stage.tell(f"drop {letter.name}: {released.verdict.value}")
        if released.verdict is Release.DROPPED and await self._is_told(service, released.end):
            self._stage.count("dropped")
            letter.note(Kind.DROPPED, released.end)

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
        draw, sent = self._draw, list[Letter]()
        for _ in range(draw.choice((1, 1, 1, 2, 5))):
            name = f"m{len(self.letters)}"
            body = f"{name}:".encode() + b"x" * draw.choice((0, 10, 300))
            letter = Letter(name, draw.choice(TOPICS), body, self._moment_ms())
            self.letters.append(letter)
            sent.append(letter)
        self._stage.tell(
            "send " + ", ".join(f"{one.name} for {one.asked_ms % 10**8}" for one in sent)
        )
        results = service.put([_message(one) for one in sent])
        for letter, one in zip(sent, results, strict=True):
            if one.result.status is not PutStatus.PUT_OK:
                self._stage.tell(f"{letter.name} refused: {one.result.remark}")
                self._stage.count("sends refused")
        end = max(one.result.end for one in results)
        if await self._is_told(service, end):
            for letter, one in zip(sent, results, strict=True):
                if one.result.status is PutStatus.PUT_OK:
                    letter.note(Kind.SENT, one.result.end)

    async def _is_told(self, service: TimerMessageStore, end: int) -> bool:
        """Wait until an answer may be given; whether the process lives to give it."""
        if self._stage.disk.is_dead:
            return False
        if service.store.options.is_sync_flush:
            if not await service.store.wait_flushed(end) or self._stage.disk.is_dead:
                return False
            self._stage.owe(end)
        return True

    async def _cancel(self, service: TimerMessageStore) -> None:
        letter = self._pick()
        self._stage.tell(f"cancel {letter.name}")
        letter.note(Kind.ASKED_TO_CANCEL, 0)
        try:
            result = service.cancellation.cancel(Wanted(letter.topic, letter.name))
        except CancelError as error:
            self._refused(letter, error)
            return
        if await self._is_told(service, result.end):
            self._stage.tell(f"{letter.name}: {result.verdict.value}")
            self._note_verdict(letter, result.verdict, result.end)

    async def _move(self, service: TimerMessageStore) -> None:
        letter = self._pick()
        moment_ms = self._moment_ms()
        if self._draw.random() < 0.3:
            slot = slot_of(max(letter.moments_ms()), self._stage.setting.precision_ms)
            moment_ms = slot + self._draw.randint(1, self._stage.setting.precision_ms)
        moment_ms = max(moment_ms, self._stage.clock.look() + 1)
        self._stage.tell(f"move {letter.name} to {moment_ms % 10**8}")
        before = service.store.commit_log.max_offset
        letter.note(Kind.ASKED_TO_MOVE, before, moment_ms)
        try:
            result = service.cancellation.reschedule(Wanted(letter.topic, letter.name), moment_ms)
        except CancelError as error:
            if not self._stage.disk.is_dead:
                letter.notes.pop()
            self._refused(letter, error)
            return
        if result.deliver_ms is None and not self._stage.disk.is_dead:
            letter.notes.pop()
        if not await self._is_told(service, result.end):
            return
        if result.deliver_ms is None:
            self._stage.tell(f"{letter.name}: {result.verdict.value}, not moved")
            if result.verdict is Verdict.CANCELLED and not self._may_be_cancelled(letter):
                self._stage.breach(f"{letter.name}: not moved as cancelled, and nobody had")
            self._note_verdict(letter, result.verdict, result.end)
            return
        self._stage.tell(f"{letter.name}: moved to {result.deliver_ms % 10**8}")
        if any(note.kind in NEVER for note in letter.notes):
            self._stage.breach(f"{letter.name}: moved, though it was cancelled")
        self._stage.count("moved")
        letter.note(Kind.MOVED, result.end, result.deliver_ms)

    def _may_be_cancelled(self, letter: Letter) -> bool:
        return letter.is_recalled or letter.has(Kind.ASKED_TO_CANCEL, *NEVER)

    def _note_verdict(self, letter: Letter, verdict: Verdict, end: int) -> None:
        self._stage.count(f"verdict {verdict.value}")
        if verdict is Verdict.CANCELLED:
            letter.note(Kind.CANCELLED, end)
        elif verdict is Verdict.TOO_LATE:
            letter.note(Kind.TOO_LATE, end)
        elif letter.has(Kind.SENT) and self._is_known(letter):
            self._stage.breach(f"{letter.name}: not found, and its records are in the log")

    def _is_known(self, letter: Letter) -> bool:
        """Whether the log has records of its newest version, or its arrival."""
        log = self._stage.read_log()
        facts = facts_of(log, TOPICS).by_name[letter.name]
        if any(one.position >= log.start for one in facts.arrivals):
            return True
        if not facts.versions:
            return False
        first = facts.versions[-1].position
        return any(
            one.name == letter.name and not one.is_delete
            for one in log.present()
            if one.topic == TIMERS and first in (one.position, one.number("TIMER_ORDER"))
        )

    def _refused(self, letter: Letter, error: CancelError) -> None:
        self._stage.tell(f"{letter.name}: {error}")
        is_known = (
            self._stage.disk.is_dead
            or (error.rule == "CANCEL_NOT_STORED" and self._stage.disk.was_full)
            or (error.rule in ("CANCEL_QUARANTINED", "CANCEL_DAMAGED") and letter.is_damaged)
        )
        self._stage.count("requests refused")
        if not is_known:
            self._stage.breach(f"{letter.name}: refused without a reason: {error}")

    async def prove_serving(self, service: TimerMessageStore) -> None:
        """One message more is taken and delivered."""
        letter = Letter("last", "T0", b"last", self._stage.clock.look() + 1_500)
        self.letters.append(letter)
        (one,) = service.put([_message(letter)])
        if one.result.status is not PutStatus.PUT_OK:
            self._stage.breach(f"a send is refused in the end: {one.result.remark}")
            return
        letter.note(Kind.SENT, one.result.end)
        await trio.sleep(4)
        if not facts_of(self._stage.read_log(), TOPICS).by_name["last"].arrivals:
            self._stage.breach("a message that was sent in the end does not arrive")


def _message(letter: Letter) -> Message:
    properties = f"UNIQ_KEY\x01{letter.name}\x02TIMER_DELIVER_MS\x01{letter.asked_ms}\x02"
    return Message(letter.topic, 0, letter.body, properties.encode())
