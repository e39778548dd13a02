"""Cancels, moves and recalls, and whether the answers can be true."""

from __future__ import annotations

from timermq.pipeline.records.cancel_verdict import CancelError, Verdict, Wanted
from timermq.pipeline.timer_message_store import TimerMessageStore
from timermq.timerstore.message import Message
from timermq.timerstore.put_status import PutStatus

from .notebook import Kind, Letter
from .reader import TIMERS
from .rules import NEVER, facts_of
from .stage import TOPICS, Stage, is_told


class Requests:
    """Asks a served store, and writes down what it answers."""

    def __init__(self, stage: Stage) -> None:
        self._stage = stage

    async def cancel(self, service: TimerMessageStore, letter: Letter) -> None:
        """Cancel a message, and those that have its unique key too."""
        self._stage.tell(f"cancel {letter.name}")
        for one in self._of_key(letter):
            one.note(Kind.ASKED_TO_CANCEL, 0)
        try:
            result = service.cancellation.cancel(Wanted(letter.topic, letter.key))
        except CancelError as error:
            self._refused(letter, error)
            return
        if await is_told(self._stage, service, result.end):
            self._stage.tell(f"{letter.name}: {result.verdict.value}")
            self._note_verdict(letter, result.verdict, result.end)

    async def move(self, service: TimerMessageStore, letter: Letter, moment_ms: int) -> None:
        """Give a message another moment."""
        moment_ms = max(moment_ms, self._stage.clock.look() + 1)
        self._stage.tell(f"move {letter.name} to {moment_ms % 10**8}")
        before = service.store.commit_log.max_offset
        letters = self._of_key(letter)
        for one in letters:
            one.note(Kind.ASKED_TO_MOVE, before, moment_ms)
        try:
            result = service.cancellation.reschedule(Wanted(letter.topic, letter.key), moment_ms)
        except CancelError as error:
            if not self._stage.disk.is_dead:
                for one in letters:
                    one.notes.pop()
            self._refused(letter, error)
            return
        if not self._stage.disk.is_dead:
            letter = self._moved_of(letters, result.deliver_ms) or letter
            for one in letters:
                if one is not letter or result.deliver_ms is None:
                    one.notes.pop()
        if not await is_told(self._stage, service, result.end):
            return
        if result.deliver_ms is None:
            self._stage.tell(f"{letter.name}: {result.verdict.value}, not moved")
            if result.verdict is Verdict.CANCELLED and not any(map(_may_be_cancelled, letters)):
                self._stage.breach(f"{letter.name}: not moved as cancelled, and no request had")
            self._note_verdict(letter, result.verdict, result.end)
            return
        self._stage.tell(f"{letter.name}: moved to {result.deliver_ms % 10**8}")
        if any(note.kind in NEVER for note in letter.notes):
            self._stage.breach(f"{letter.name}: moved, though it was cancelled")
        self._stage.count("moved")
        letter.note(Kind.MOVED, result.end, result.deliver_ms)

    async def recall(self, service: TimerMessageStore, letter: Letter, moment_ms: int) -> None:
        """Put a delete as RocketMQ's clients write it."""
        self._stage.tell(f"recall {letter.name} at {moment_ms % 10**8}")
        letter.is_recalled = True
        text = (
            f"TIMER_DEL_UNIQKEY\x01{letter.topic}+{letter.key}\x02"
            f"TIMER_DELIVER_MS\x01{moment_ms}\x02"
        )
        (one,) = service.put([Message(letter.topic, 0, b"0", text.encode())])
        self._stage.count("recalls", one.result.status is PutStatus.PUT_OK)
        await is_told(self._stage, service, one.result.end)

    def _of_key(self, letter: Letter) -> list[Letter]:
        """All messages with its unique key."""
        return [one for one in self._stage.letters if one.key == letter.key]

    def _moved_of(self, letters: list[Letter], deliver_ms: int | None) -> Letter | None:
        """Which of several was moved: that of which the newest record of all tells."""
        if deliver_ms is None or len(letters) == 1:
            return None
        by_name = facts_of(self._stage.read_log(), TOPICS).by_name
        return max(
            letters,
            key=lambda one: max((own.position for own in by_name[one.name].versions), default=-1),
        )

    def _note_verdict(self, letter: Letter, verdict: Verdict, end: int) -> None:
        letters = self._of_key(letter)
        self._stage.count(f"verdict {verdict.value}")
        self._stage.count("verdicts on several", len(letters) > 1)
        if verdict is Verdict.CANCELLED:
            for one in letters:
                if not self._is_of_earlier_times(one, letters):
                    one.note(Kind.CANCELLED, end)
        elif verdict is Verdict.TOO_LATE and len(letters) == 1:
            letter.note(Kind.TOO_LATE, end)
        elif verdict is Verdict.TOO_LATE:
            by_name = facts_of(self._stage.read_log(), TOPICS).by_name
            if not any(by_name[one.name].arrivals for one in letters):
                self._stage.breach(f"{letter.name}: too late, and none of its key has arrived")
        elif any(one.has(Kind.SENT) and self._is_known(one) for one in letters):
            self._stage.breach(f"{letter.name}: not found, and its records are in the log")

    def _is_of_earlier_times(self, letter: Letter, letters: list[Letter]) -> bool:
        """Whether it had arrived before the first of the others was stored, or it is cleaned.

        Then nothing in the log tells that one message with the key was there. Nor is one meant that
        never waited.
        """
        if len(letters) == 1:
            return False
        log = self._stage.read_log()
        by_name = facts_of(log, TOPICS).by_name
        arrivals = by_name[letter.name].arrivals
        if arrivals and not by_name[letter.name].versions:
            return True
        stored = [
            version.position
            for one in letters
            if not by_name[one.name].arrivals
            for version in by_name[one.name].versions
        ]
        return bool(arrivals) and arrivals[0].position < max(log.start, min(stored, default=0))

    def _is_known(self, letter: Letter) -> bool:
        """Whether the log has records of its newest version, or its arrival."""
        log = self._stage.read_log()
        found = facts_of(log, TOPICS)
        facts = found.by_name[letter.name]
        if any(one.position >= log.start for one in facts.arrivals):
            return True
        if not facts.versions or facts.waits_at in found.left_out:
            return False
        first = facts.versions[-1].position
        return any(
            one.name == letter.name and not one.is_delete
            for one in log.present()
            if one.topic == TIMERS and first in (one.position, one.number("TIMER_ORDER"))
        )

    def _refused(self, letter: Letter, error: CancelError) -> None:
        self._stage.tell(f"{letter.name}: {error}")
        letters = self._of_key(letter)
        is_damaged = any(one.is_damaged for one in letters)
        is_known = (
            self._stage.disk.is_dead
            or (error.rule == "CANCEL_NOT_STORED" and self._stage.disk.was_full)
            or (error.rule in ("CANCEL_QUARANTINED", "CANCEL_DAMAGED") and is_damaged)
            or (error.rule == "CANCEL_KEY_NOT_UNIQUE" and len(letters) > 1)
        )
        self._stage.count("requests refused")
        if not is_known:
            self._stage.breach(f"{letter.name}: refused without a reason: {error}")


def _may_be_cancelled(letter: Letter) -> bool:
    return letter.is_recalled or letter.has(Kind.ASKED_TO_CANCEL, Kind.ASKED_TO_DROP, *NEVER)
