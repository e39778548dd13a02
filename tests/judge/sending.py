"""Sends: one by one, in batches, through the door of bulk jobs, and twice under one unique key."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from timermq.pipeline.admission.timer_put_result import TimerPutColumns
from timermq.pipeline.column_door import ColumnDoor
from timermq.pipeline.timer_message_store import TimerMessageStore
from timermq.timerstore.array_types import Rows
from timermq.timerstore.byte_rows import Pieces
from timermq.timerstore.message import Message
from timermq.timerstore.message_columns import MessageColumns
from timermq.timerstore.put_status import PutStatus

from .notebook import Kind, Letter
from .stage import TOPICS, Stage, is_told


class Sending:
    """Puts messages into a served store, and writes down what it acknowledges."""

    def __init__(self, stage: Stage) -> None:
        self._stage = stage
        self._draw = stage.draw

    async def send(self, service: TimerMessageStore, moments_ms: Sequence[int]) -> list[Letter]:
        """Send a message for each of these moments, all in one request."""
        draw, letters = self._draw, self._stage.letters
        is_bulk = draw.random() < 0.15
        topic, padding = draw.choice(TOPICS), draw.choice((0, 10, 300))
        sent: list[Letter] = []
        for moment_ms in moments_ms:
            name = f"m{len(letters):04d}"
            if not is_bulk:
                topic, padding = draw.choice(TOPICS), draw.choice((0, 10, 300))
            letter = Letter(name, topic, f"{name}:".encode() + b"x" * padding, moment_ms)
            if letters and not is_bulk and draw.random() < 0.05:
                self._give_key(letter)
            letters.append(letter)
            sent.append(letter)
        self._stage.tell(
            ("send in bulk " if is_bulk else "send ")
            + ", ".join(f"{one.name} for {one.asked_ms % 10**8}" for one in sent)
        )
        await self._put(service, sent, is_bulk=is_bulk)
        return sent

    def _give_key(self, letter: Letter) -> None:
        """Give a message the unique key of another, as a producer that sends it again."""
        other = self._draw.choice(self._stage.letters[-6:])
        if not other.is_recalled and not other.is_damaged:
            letter.key, letter.topic = other.key, other.topic
            letter.is_shared = other.is_shared = True
            self._stage.count("unique keys used again")

    async def _put(
        self, service: TimerMessageStore, sent: Sequence[Letter], *, is_bulk: bool
    ) -> None:
        put = ColumnDoor(service).put(_columns(sent)) if is_bulk else service.put(_messages(sent))
        if isinstance(put, TimerPutColumns):
            self._stage.count("rows of bulk jobs", len(sent))
            end = service.store.commit_log.max_offset
            if await is_told(self._stage, service, end):
                for letter in sent:
                    letter.note(Kind.SENT, end)
            return
        for letter, one in zip(sent, put, strict=True):
            if one.result.status is not PutStatus.PUT_OK:
                self._stage.tell(f"{letter.name} refused: {one.result.remark}")
                self._stage.count("sends refused")
        end = max(one.result.end for one in put)
        if await is_told(self._stage, service, end):
            for letter, one in zip(sent, put, strict=True):
                if one.result.status is PutStatus.PUT_OK:
                    letter.note(Kind.SENT, one.result.end)


def _properties(letter: Letter) -> bytes:
    text = (
        f"UNIQ_KEY\x01{letter.key}\x02LETTER\x01{letter.name}\x02"
        f"TIMER_DELIVER_MS\x01{letter.asked_ms:013d}\x02"
    )
    return text.encode()


def _messages(letters: Sequence[Letter]) -> list[Message]:
    return [Message(one.topic, 0, one.body, _properties(one)) for one in letters]


def _columns(letters: Sequence[Letter]) -> MessageColumns:
    """Messages of one topic and size, as a bulk job hands them over."""
    messages = _messages(letters)
    return MessageColumns(
        first=messages[0],
        queue_ids=np.zeros(len(messages), np.int64),
        bodies=Pieces.of_rows(_rows([one.body for one in messages])),
        properties=_rows([one.properties for one in messages]),
        born_ms=np.zeros(len(messages), np.int64),
    )


def _rows(texts: Sequence[bytes]) -> Rows:
    return np.frombuffer(b"".join(texts), np.uint8).reshape(len(texts), -1)
