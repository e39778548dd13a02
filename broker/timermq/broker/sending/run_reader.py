"""Reads runs of sends, and the single sends of a chunk.

A chunk from a busy producer holds a hundred sends that differ in little. So properties that fit
into no run are looked for once, in the properties of all sends joined. Topic and queue are one
look-up in a table of the pairs that passed the checks before. Of each text only the unique key is
searched. A run is read by its first send; the others differ from it in columns.

Nothing is refused here and no rule is stated again. A send that fits into no run (a system or retry
topic, a new topic, flags, a property that the broker treats specially, a number that is none) is
left to ``SendReader``, which checks and refuses. A send that both can read becomes the same message
in both; a test compares them.
"""

from __future__ import annotations

from collections.abc import Sequence

from timermq.remoting.connection import Request
from timermq.remoting.send_run.send_run import SendRun
from timermq.remoting.send_run.send_v2 import SendV2
from timermq.timerstore.byte_columns import Pieces, numbers_in, rows_like
from timermq.timerstore.message import Message
from timermq.timerstore.message_columns import MessageColumns
from timermq.timerstore.number_text import NUMBER_DIGITS_MAX
from timermq.timerstore.properties import PREPARED, PRIORITY, UNIQ_KEY, UNIQ_KEY_NAME

from ..session import Session
from ..topic_config import TopicConfigTable
from .message_stamp import MessageStamp
from .send_checks import SYS_FLAG_HOSTS, SYS_FLAG_INNER_BATCH, SYS_FLAG_TRANSACTION, SendChecks
from .send_reader import WAITS_NOT
from .send_request import Addressed, AddressedRun

TARGETS_MAX = 65_536
"""Remembered pairs of topic and queue; above it, all are forgotten."""

_SMALL = {str(number): number for number in range(1024)}
"""Numbers as nearly all clients write them."""
_SYS_FLAGS = {
    text: number & ~SYS_FLAG_HOSTS
    for text, number in _SMALL.items()
    if not number & (SYS_FLAG_TRANSACTION | SYS_FLAG_INNER_BATCH)
}
_UNIQ_KEY = UNIQ_KEY.decode()
_WAITS_NOT = WAITS_NOT.decode()
_TRANSACTION = PREPARED.decode()
_PRIORITY = PRIORITY.decode()


class RunReader:
    """Makes messages of sends.

    Args:
        topics: Topics known.
        checks: Says where a send may go.
        stamp: The broker's own properties.
    """

    def __init__(self, topics: TopicConfigTable, checks: SendChecks, stamp: MessageStamp) -> None:
        self._topics = topics
        self._checks = checks
        self._own = stamp.own
        self._marks = (
            *(f"{key.decode()}\x01" for key in stamp.keys),
            _WAITS_NOT,
            _TRANSACTION,
            _PRIORITY,
        )
        """Parts of property texts that fit into no run."""
        self._queue_ids: dict[tuple[str, str], int] = {}
        """Topic and queue as sends name them, to the queue: what the checks have passed."""
        self._checked_at = -1
        """Count of changes of the topic table when they did."""

    def read(self, requests: Sequence[tuple[Session, Request]]) -> list[Addressed | None]:
        """Read a chunk.

        Args:
            requests: Sends of any kind, each with the session that sent it.

        Returns:
            For each the message with what its answer needs; None for a send that ``SendReader`` is
            to read.
        """
        if not self._is_ready():
            return [None] * len(requests)
        sends = [request for _, request in requests if isinstance(request, SendV2)]
        fits = self._fits("\x02".join([send.fields.properties for send in sends]))
        read = self._read
        return [
            read(session, request, fits) if isinstance(request, SendV2) else None
            for session, request in requests
        ]

    def read_run(self, session: Session, run: SendRun) -> AddressedRun | None:
        """Read a run as columns; None when its sends are to be read one by one.

        What is found in the first send holds for all: they differ in letters and digits alone, and
        those of a number or a key mean nothing else. Queues are looked up for each send.
        """
        form = run.form
        keys = [value for value in form.values if value.name == UNIQ_KEY_NAME]
        first = self._read(session, run.first(), False) if self._is_ready() and keys else None
        queue_ids, born_ms = (
            numbers_in(run.texts(form.queue_id)),
            numbers_in(run.texts(form.born_ms)),
        )
        bodies = Pieces(run.data, run.body_starts, run.body_ends)
        if first is None or queue_ids is None or born_ms is None or not bodies.sizes.all():
            return None
        known = [self._queue_id(first.topic, str(number)) for number in set(queue_ids.tolist())]
        if None in known:
            return None
        columns = [(value.text.start, run.texts(value.header)) for value in form.values]
        return AddressedRun(
            run=run,
            topic=first.topic,
            unique_keys=run.texts(keys[0].header),
            columns=MessageColumns(
                first=first.message,
                queue_ids=queue_ids,
                bodies=bodies,
                properties=rows_like(first.message.properties, len(run), columns),
                born_ms=born_ms,
            ),
        )

    def _is_ready(self) -> bool:
        """Whether sends are taken; what is remembered holds then."""
        if self._checked_at != self._topics.changes or len(self._queue_ids) > TARGETS_MAX:
            self._queue_ids.clear()
            self._checked_at = self._topics.changes
        return self._checks.is_accepting

    def _read(self, session: Session, send: SendV2, fits: bool) -> Addressed | None:
        fields = send.fields
        topic, text, born_ms = fields.topic, fields.properties, fields.born_ms
        queue_id = self._queue_id(topic, fields.queue_id)
        flag, sys_flag = _SMALL.get(fields.flag), _SYS_FLAGS.get(fields.sys_flag)
        if (
            queue_id is None
            or flag is None
            or sys_flag is None
            or not send.body
            or fields.batch != "false"
            or fields.reconsume_times != "0"
            or (fields.default_topic_queue_nums or "4") not in _SMALL
            or (fields.max_reconsume_times or "0") not in _SMALL
            or not (born_ms.isascii() and born_ms.isdigit() and len(born_ms) <= NUMBER_DIGITS_MAX)
            or not (fits or self._fits(text))
        ):
            return None
        if not text.endswith("\x02"):
            text += "\x02"
        key_at = text.find(_UNIQ_KEY)
        key_end = text.find("\x02", key_at)
        unique_key = text[key_at + len(_UNIQ_KEY) : key_end]
        if (
            not unique_key
            or key_at < 0
            or (key_at and text[key_at - 1] != "\x02")
            or text.find(_UNIQ_KEY, key_end) >= 0
        ):
            return None
        message = Message(
            topic,
            queue_id,
            send.body,
            text.encode() + self._own,
            flag,
            sys_flag,
            int(born_ms),
            session.born_host,
        )
        return Addressed(message=message, topic=topic, queue_id=queue_id, unique_key=unique_key)

    def _fits(self, text: str) -> bool:
        """Whether sends with these properties, one text or several joined, fit into a run."""
        return not any(mark in text for mark in self._marks)

    def _queue_id(self, topic: str, text: str) -> int | None:
        """The queue of a send that passes all checks of topic and queue; remembered then."""
        known = self._queue_ids.get((topic, text))
        if known is not None:
            return known
        queue_id = _SMALL.get(text)
        if queue_id is None or not self._checks.takes_all(topic, queue_id):
            return None
        self._queue_ids[topic, text] = queue_id
        return queue_id
