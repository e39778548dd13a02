"""The quarantine's requests: undeliverable messages are listed, shown, retried, dropped.

All bodies are CBOR maps. A message in quarantine is named by ``id``: the position of its record.

==========================  ========================  =============================================
request                     asked                     answered
==========================  ========================  =============================================
LIST_QUARANTINE (9010)      ``limit``, ``after``      ``rows``, and ``next`` for the next page
SHOW_QUARANTINE (9011)      ``id``                    ``row``: the same, with the record; or null
RETRY_QUARANTINE (9012)     ``id``, ``topic``, ``by`` ``verdict``, ``text``, ``deliver_ms``
DROP_QUARANTINE (9013)      ``id``, ``by``            ``verdict``, ``text``
==========================  ========================  =============================================

A verdict is one of ``retried``, ``dropped``, ``cancelled``, ``kept`` (``text`` says why) and
``not_found``; asked again it is the same, and ``text`` says that it is the one from before.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeVar

import attrs
import cbor2
import msgspec

from timermq.pipeline.quarantine.quarantine_record import Entry
from timermq.pipeline.quarantine.quarantine_release import Released, Verdict
from timermq.pipeline.timer_message_store import TimerMessageStore
from timermq.remoting.cbor import CborError, decode_cbor
from timermq.remoting.codes import ResponseCode
from timermq.remoting.command import Command

from ..durable_answers import DurableAnswers
from ..options import BrokerOptions
from ..refusal import RefusedError
from ..sending.send_checks import SendChecks, SendTarget
from ..session import Session
from ..topic_config import TopicConfigTable
from ..topic_validator import AUTO_CREATE_TOPIC_KEY_TOPIC

PAGE_SIZE_MAX = 4 << 20
"""Bytes of records read for one page: some milliseconds."""
QUERY_SIZE_MAX = 4_096
"""Bytes of a request's body."""
BY_SIZE_MAX = 200
"""Characters of the name of the operator that asks."""

_Body = TypeVar("_Body")


@attrs.frozen(kw_only=True)
class ListQuery:
    """The body of LIST_QUARANTINE: which page."""

    limit: int | None = None
    after: int = -1
    """The ``next`` of the page before."""


@attrs.frozen(kw_only=True)
class EntryQuery:
    """The body of the other requests: the message, and the operator that asks."""

    id: int
    topic: str | None = None
    by: str = ""


@attrs.frozen(eq=False, kw_only=True)
class QuarantineProcessor:
    """Lists, shows, retries and drops messages in quarantine."""

    options: BrokerOptions
    timer_store: TimerMessageStore
    topics: TopicConfigTable
    checks: SendChecks
    durable: DurableAnswers

    def list(self, _session: Session, command: Command) -> Command:
        """One page of the messages in quarantine, the oldest first."""
        query = _decode(command.body, ListQuery)
        limit = self.options.pending_count_max if query.limit is None else query.limit
        if not 1 <= limit <= self.options.pending_count_max:
            raise _malformed(f"limit: expected 1 to {self.options.pending_count_max}")
        rows: list[dict[str, object]] = []
        size, next_py = 0, None
        for entry, offset_py in self.timer_store.quarantine.entries(query.after):
            rows.append(entry_row(entry))
            size += len(entry.record)
            if len(rows) >= limit or size >= PAGE_SIZE_MAX:
                next_py = offset_py
                break
        return _answer(command, {"rows": rows, "next": next_py})

    def show(self, _session: Session, command: Command) -> Command:
        """One message with all fields and bytes that are left of it."""
        query = _decode(command.body, EntryQuery)
        quarantine = self.timer_store.quarantine
        entry, state = quarantine.entry(query.id), quarantine.state(query.id)
        row: dict[str, object] | None = None
        if entry is not None and state is not None:
            row = {**entry_row(entry), "state": state.name.lower(), "record": entry.record}
        return _answer(command, {"row": row})

    def retry(self, session: Session, command: Command) -> Command | None:
        """Retry a message, on its topic or another; answered when that is durable."""
        query = _decode(command.body, EntryQuery)
        if query.topic == "":
            raise _malformed("topic: expected a name, or none for the message's own")
        entry = self.timer_store.quarantine.entry(query.id)
        topic = entry.topic if query.topic is None and entry is not None else query.topic
        queue_id: int | None = None
        if entry is not None and topic:
            try:
                queue_id = self._queue_id(session, entry, topic)
            except RefusedError as error:
                return _answer(command, {"verdict": Verdict.KEPT.value, "text": error.remark})
        released = self.timer_store.release.retry(
            query.id, by=_by(session, query), topic=topic, queue_id=queue_id
        )
        return self._released(session, command, released)

    def drop(self, session: Session, command: Command) -> Command | None:
        """Drop a message; answered when that is durable."""
        query = _decode(command.body, EntryQuery)
        released = self.timer_store.release.drop(query.id, by=_by(session, query))
        return self._released(session, command, released)

    def _queue_id(self, session: Session, entry: Entry, topic: str) -> int:
        """Check a topic as a send's is, and make it if a send would; the queue there.

        Raises:
            RefusedError: A send would be refused too.
        """
        config, wanted = self.topics.get(topic), entry.queue_id
        fits = config is not None and wanted is not None and wanted < config.queue_nums
        target = SendTarget(
            topic=topic,
            queue_id=wanted if fits and wanted is not None else -1,
            properties=b"",
            default_topic=AUTO_CREATE_TOPIC_KEY_TOPIC,
            default_topic_queue_nums=self.options.default_topic_queue_nums,
        )
        return self.checks.check(session, target).queue_id

    def _released(self, session: Session, command: Command, released: Released) -> Command | None:
        facts = {
            "verdict": released.verdict.value,
            "text": released.text,
            "deliver_ms": released.deliver_ms,
        }
        return self.durable.answer(session, _answer(command, facts), released.end)


def entry_row(entry: Entry) -> dict[str, object]:
    """An entry as `quarantine list --json` prints it."""
    return {
        "id": entry.origin_py,
        "reason": entry.reason,
        "text": entry.text,
        "topic": entry.topic,
        "queue_id": entry.queue_id,
        "deliver_ms": entry.deliver_ms,
        "unique_id": entry.unique_id,
        "keys": entry.keys,
        "tags": entry.tags,
        "size": entry.size,
        "kept_size": len(entry.record),
        "set_aside_ms": entry.set_aside_ms,
    }


def _by(session: Session, query: EntryQuery) -> str:
    return f"{query.by[:BY_SIZE_MAX]} {session.remote_address}".strip()


def _answer(command: Command, facts: Mapping[str, object]) -> Command:
    return command.answer(ResponseCode.SUCCESS, body=cbor2.dumps(facts))


def _decode(body: bytes, kind: type[_Body]) -> _Body:
    try:
        return msgspec.convert(
            decode_cbor(body, size_max=QUERY_SIZE_MAX, depth_max=1) if body else {}, kind
        )
    except (CborError, msgspec.ValidationError) as error:
        raise _malformed(str(error)) from error


def _malformed(reason: str) -> RefusedError:
    return RefusedError(ResponseCode.INVALID_PARAMETER, "QUARANTINE_BODY", reason)
