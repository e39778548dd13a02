"""An account that minds its own business: what it has in a broker, and whether all is as it was.

Every name and body of V that cannot be guessed holds a mark, which no other account may ever see.
"""

from __future__ import annotations

from collections.abc import Mapping

import attrs
import trio

from broker_rig import RecordingSession, split_records
from broker_state import jobs_of
from every_request import MAKERS, Subject
from fuzz.virtual_run import VirtualRun
from signed import sign
from timermq.pipeline.cancel.pending_listing import PendingTimer
from timermq.remoting import Command, RequestCode
from timermq.timerstore.message_id import offset_message_id
from timermq.timerstore.record import Record, decode_record

MARK = "hidden-of-V"
TOPIC, GROUP, CLIENT, PRODUCERS, JOB, PART = (
    "VsTopic",
    "VsGroup",
    "VsClient",
    "VP",
    "VsJob",
    "vpart",
)
HIDDEN = Subject(
    topic=f"{MARK}-topic",
    group=f"{MARK}-group",
    producer_group=f"{MARK}-producers",
    client_id=f"{MARK}-client",
    job=f"{MARK}-job",
    part=f"{MARK}-part",
    body=f"{MARK} body".encode(),
)
KNOWN = Subject(
    topic=TOPIC,
    group=GROUP,
    producer_group=PRODUCERS,
    client_id=CLIENT,
    job=JOB,
    part=PART,
)
"""What an intruder may have heard of."""
RETRY_TOPIC, DEAD_TOPIC = f"%RETRY%{GROUP}", f"%DLQ%{GROUP}"
HALF_TOPIC, TIMER_TOPIC = "RMQ_SYS_TRANS_HALF_TOPIC", "rmq_sys_wheel_timer"

FIRST_MS, EVERY_MS, TIMERS = 700, 1_337, 30
"""V's timers: when the first one is due behind the start, how long between two, how many."""
WALK_EVERY = 32
"""Checks after which all that waits is looked at in any case."""
RETRY_MS = 10_000
"""Of the delay level 3, at which a message was sent back."""
LATE_MAX_MS = 1
KEYS = 8
"""Of its timers, the last, and of its messages, the first, that are known by their keys and ids."""
FROM_BROKER = frozenset(
    {RequestCode.CHECK_TRANSACTION_STATE, RequestCode.PUSH_REPLY_MESSAGE_TO_CLIENT}
)
"""What V's client is asked and told: anybody may send it a reply."""


@attrs.frozen
class Timer:
    """A message of V that waits."""

    key: str
    deliver_ms: int


class Victim:
    """V in a broker.

    Args:
        run: The broker.
    """

    def __init__(self, run: VirtualRun) -> None:
        self._run = run
        self._broker = run.broker
        self._store = run.broker.store
        self.peer = RecordingSession()
        self.timers: list[Timer] = []
        self._arrived: dict[str, list[Record]] = {}
        """Topic to the messages of its queue 0, as far as they were read."""
        self._written: list[tuple[str, int]] = []
        self._checks = 0
        self.places: list[int] = []
        """Where its messages stand in the log."""
        self.keys: list[str] = []
        self._begun_ms = 0
        self._before: Mapping[str, object] = {}

    async def begin(self) -> None:
        """Put something of every kind into the broker, and note how it all stands."""
        self._begun_ms = self._run.wall.now_ms()
        for subject in (KNOWN, HIDDEN):
            await self._begin(attrs.evolve(subject, body=HIDDEN.body))
        await self._send_timers()
        await self._ask(RequestCode.SEND_MESSAGE, self._message("VH", "TRAN_MSG\x01true\x02"), 4)
        first = self._records(TOPIC)[0]
        for level in ("3", "-1"):
            ext, body = MAKERS[RequestCode.CONSUMER_SEND_MSG_BACK](
                attrs.evolve(KNOWN, place=first.phy_offset)
            )
            await self._send(36, {**ext, "delayLevel": level}, body)
        # Queue 1 stays empty, and its pull is held as long as the broker lasts.
        await self._ask(RequestCode.PULL_MESSAGE, attrs.evolve(KNOWN, queue_id=1), 6, answers=0)
        for topic in (TOPIC, HALF_TOPIC, TIMER_TOPIC, DEAD_TOPIC, HIDDEN.topic):
            self.places += [record.phy_offset for record in self._records(topic)]
        self.keys += [timer.key for timer in self.timers[-KEYS:]]
        self.keys += [self._message_id(place) for place in self.places[:KEYS]]
        self.peer.sent.clear()
        self._before = self._state()

    def check(self) -> None:
        """All is as it was, but for what was due since then."""
        now_ms = self._run.wall.now_ms()
        assert self._state() == self._before
        self._check_arrived(now_ms)
        self._check_waiting(now_ms)
        retries, retry_ms = self._records(RETRY_TOPIC), self._begun_ms + RETRY_MS
        assert (retry_ms < now_ms) <= len(retries) <= (retry_ms <= now_ms), (retries, now_ms)
        assert len(self._records(DEAD_TOPIC)) == 1
        told = {command.code for command in self.peer.sent}
        assert told <= FROM_BROKER, told
        assert self.peer.closed_for is None
        self.peer.sent.clear()

    async def use(self) -> None:
        """Go on as ever: V is served, whatever others have done; nothing is compared behind it."""
        more = attrs.evolve(HIDDEN, job=f"{MARK}-job-2")
        for code in (
            RequestCode.HEART_BEAT,
            RequestCode.SEND_MESSAGE,
            RequestCode.SEND_MESSAGE_V2,
            RequestCode.PULL_MESSAGE,
            RequestCode.LOCK_BATCH_MQ,
            RequestCode.UPDATE_CONSUMER_OFFSET,
            RequestCode.BULK_OPEN,
            RequestCode.BULK_STAGE,
        ):
            await self._ask(code, more)
        await self._ask(RequestCode.SEND_MESSAGE, self._message("VH2", "TRAN_MSG\x01true\x02"), 4)
        await self._ask(
            RequestCode.CANCEL_MESSAGE, attrs.evolve(KNOWN, unique_key=self.timers[-1].key)
        )

    def _check_waiting(self, now_ms: int) -> None:
        """What is not due yet waits; looked at when something was written about timers."""
        self._checks += 1
        written = [
            (one.topic, one.max_offset)
            for one in self._store.queues()
            if one.topic.startswith("rmq_sys_")
        ]
        if written == self._written and self._checks % WALK_EVERY:
            return
        self._written = written
        waiting = {row.unique_id: row.deliver_ms for row in self._pending()}
        wanted = {timer.key: timer.deliver_ms for timer in self.timers}
        # One that has just left stands there until its slot is done.
        assert waiting.items() <= wanted.items(), (waiting, wanted)
        gone = wanted.keys() - waiting.keys()
        assert all(wanted[key] <= now_ms for key in gone), (gone, now_ms)

    def _check_arrived(self, now_ms: int) -> None:
        """What was due has arrived, in its order; what is due in this very millisecond may have."""
        arrived = self._records(TOPIC)[1:]
        past = sum(timer.deliver_ms < now_ms for timer in self.timers)
        due = sum(timer.deliver_ms <= now_ms for timer in self.timers)
        assert past <= len(arrived) <= due, (arrived, self.timers, now_ms)
        for record, timer in zip(arrived, self.timers, strict=False):
            assert record.body == HIDDEN.body
            assert f"UNIQ_KEY\x01{timer.key}\x02".encode() in record.properties
            assert 0 <= record.store_ms - timer.deliver_ms <= LATE_MAX_MS, (record, timer)

    def _state(self) -> Mapping[str, object]:
        """What only V may change, as the broker has it now."""
        tables, broker = self._broker.tables, self._broker
        clients = tables.clients
        topics = (TOPIC, HIDDEN.topic, RETRY_TOPIC, DEAD_TOPIC)
        groups = (GROUP, HIDDEN.group)
        infos = [clients.consumer_group(group) for group in groups]
        return {
            "topics": [repr(tables.topics.get(topic)) for topic in topics],
            "groups": [repr(tables.groups.get(group)) for group in groups],
            "offsets": {
                (group, topic): tables.offsets.offsets(group=group, topic=topic)
                for group in groups
                for topic in tables.offsets.topics_of(group)
            },
            "locks": [tables.locks.is_orderly(group) for group in groups],
            "members": [info and (info.client_ids, repr(info.subscriptions)) for info in infos],
            "is a producer": self.peer.session in clients.producers(PRODUCERS),
            "jobs": [job for job in jobs_of(broker) if "account-V" in repr(job)],
            "held": self.peer.session.held_pulls,
            "transactions": [
                name for name in broker.transactions.open.names() if name in self._half_places()
            ],
            "queues": [
                (one.queue_id, one.max_offset)
                for one in self._store.queues()
                if one.topic == HIDDEN.topic or (one.topic == TOPIC and one.queue_id)
            ],
        }

    def _half_places(self) -> list[int]:
        return [record.phy_offset for record in self._records(HALF_TOPIC)[:1]]

    def _pending(self) -> list[PendingTimer]:
        pending = self._broker.timer_store.pending()
        deletes = pending.deletes()
        for _ in pending.learn(deletes):
            pass
        walk = pending.walk(pending.start, deletes)
        return [row for row, _ in walk if row is not None and row.topic in (TOPIC, HIDDEN.topic)]

    def _records(self, topic: str) -> list[Record]:
        """The messages in queue 0 of a topic; those that were read before are not read again."""
        found = self._arrived.setdefault(topic, [])
        queue = self._store.queue(topic, 0)
        if queue is None:
            return found
        while len(found) < queue.max_offset:
            result = self._store.get(topic, 0, len(found), count_max=32, bytes_max=1 << 20)
            runs = [split_records(run) for run in result.records]
            found += [decode_record(data) for run in runs for data in run]
        return found

    async def _begin(self, subject: Subject) -> None:
        await self._ask(RequestCode.HEART_BEAT, subject)
        message = attrs.evolve(subject, properties=f"UNIQ_KEY\x01{MARK}\x02KEYS\x01VK\x02")
        await self._ask(RequestCode.SEND_MESSAGE, message)
        for code in (
            RequestCode.UPDATE_CONSUMER_OFFSET,
            RequestCode.LOCK_BATCH_MQ,
            RequestCode.BULK_OPEN,
            RequestCode.BULK_STAGE,
        ):
            await self._ask(code, subject)

    async def _send_timers(self) -> None:
        for number in range(TIMERS):
            deliver_ms = self._begun_ms + FIRST_MS + number * EVERY_MS
            timer = Timer(f"VT{number}", deliver_ms)
            moment = f"TIMER_DELIVER_MS\x01{deliver_ms}\x02"
            await self._ask(RequestCode.SEND_MESSAGE, self._message(timer.key, moment))
            self.timers.append(timer)

    def _message(self, key: str, properties: str) -> Subject:
        own = f"UNIQ_KEY\x01{key}\x02PGROUP\x01{PRODUCERS}\x02KEYS\x01{MARK}\x02"
        return attrs.evolve(KNOWN, body=HIDDEN.body, properties=own + properties)

    async def _ask(self, code: int, one: Subject, sys_flag: int = 0, *, answers: int = 1) -> None:
        ext, body = MAKERS[code](one)
        if sys_flag:
            ext |= {"sysFlag": str(sys_flag), "suspendTimeoutMillis": str(1 << 40)}
        await self._send(code, ext, body, answers=answers)

    async def _send(
        self, code: int, ext: Mapping[str, str], body: bytes, *, answers: int = 1
    ) -> None:
        """Ask for something that is answered with 0."""
        command = sign(Command(code, opaque=0, ext=dict(ext), body=body), "account-V")
        session = self.peer.session
        session.start_soon = self._run.start_soon
        for answer in self._broker.dispatcher.handle(session, [command]):
            session.send(answer)
        await trio.testing.wait_all_tasks_blocked()
        found = [sent for sent in self.peer.sent if sent.is_response]
        assert [sent.code for sent in found] == [0] * answers, (code, found)
        self.peer.sent.clear()

    def _message_id(self, place: int) -> str:
        return offset_message_id(self._broker.endpoint.store_host, place)
