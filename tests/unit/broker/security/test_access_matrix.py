"""Every request code, about every kind of name, by every account: done, or refused without a trace.

What is refused changes nothing, tells nothing, and looks like everything else that is refused. The
whole product is asked for of codes, names and accounts, as JSON with an answer wanted; the other
forms (binary headers, one-way, several in one piece) of a few names. Each code has a broker of its
own.
"""

from __future__ import annotations

import itertools
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable
from contextlib import asynccontextmanager
from pathlib import Path

import attrs
import pytest
import trio
from structlog.testing import capture_logs
from trio.testing import MockClock

from broker_rig import BROKER, RecordingSession, Rig, running_broker
from broker_state import state_of
from every_request import MAKERS, Subject
from signed import SECRET, sign, write_rules
from timermq.broker.broker import Broker
from timermq.broker.compatibility import SERVED
from timermq.broker.options import BrokerOptions
from timermq.remoting import Coding, Command, FrameConnection, LanguageCode, RequestCode
from timermq.remoting.connection import encode_frame
from timermq.remoting.send_run.signed_send_v2 import decode_signed_send_v2
from timermq.timerstore.message import Message
from timermq.timerstore.record import decode_record
from unit.broker.security.access_table import (
    ACCOUNTS,
    CLIENT_CODES,
    FOREIGN,
    JOB_CODES,
    NAMES,
    NEEDS,
    NOT_SERVED,
    OWN,
    REPLY_CODES,
    STRANGERS,
    UNDECIDED,
    WAITING,
    Name,
    client_of,
    is_let_through,
    rules,
)

REMARK = "NO_PERMISSION: the request is not signed by an account that may do this"
REFUSED = (16, REMARK)
NOT_HIS = 29
TIMER = "UNIQ_KEY\x01VT\x02TIMER_DELAY_SEC\x0180000\x02WAIT\x01true\x02"
HALF = "TRAN_MSG\x01true\x02PGROUP\x01P\x02UNIQ_KEY\x01VH\x02"
CODES = (*sorted(NEEDS), *NOT_SERVED)
EVERYBODY = (*ACCOUNTS, *STRANGERS)
FILLING = (
    RequestCode.HEART_BEAT,
    RequestCode.SEND_MESSAGE,
    RequestCode.UPDATE_CONSUMER_OFFSET,
    RequestCode.LOCK_BATCH_MQ,
    RequestCode.BULK_OPEN,
    RequestCode.BULK_STAGE,
)
FEW_NAMES = (OWN, FOREIGN, WAITING, UNDECIDED)


GOOD: dict[int, tuple[Name, str]] = {
    RequestCode.END_TRANSACTION: (UNDECIDED, "account-V"),
    RequestCode.RECALL_MESSAGE: (FOREIGN, "account-V"),
    RequestCode.CANCEL_MESSAGE: (FOREIGN, "account-V"),
}
"""What is done with good requests; the others by A, with what is A's own."""
GOOD_CODES: dict[int, int] = {
    # The message is of a topic that no abandoned transaction is in.
    RequestCode.RESUME_CHECK_HALF_MESSAGE: 1,
    # The client that they are handed to says nothing.
    RequestCode.GET_CONSUMER_RUNNING_INFO: 207,
    RequestCode.CONSUME_MESSAGE_DIRECTLY: 207,
    RequestCode.SEND_REPLY_MESSAGE: 207,
    RequestCode.SEND_REPLY_MESSAGE_V2: 207,
    # Statistics are read every ten seconds, while connections are there: here none is.
    RequestCode.VIEW_BROKER_STATS_DATA: 1,
    # A broker without replicas leads already, and has none to hand over to.
    RequestCode.PROMOTE: 604,
    RequestCode.DEMOTE: 604,
}
"""What they are answered with, but for 0."""


@attrs.frozen(kw_only=True)
class Form:
    """How a request is written."""

    coding: Coding = Coding.JSON
    is_oneway: bool = False
    times: int = 1
    """In one piece: sends of one form are read as a run then."""


USUAL = Form()
FORMS = (
    Form(is_oneway=True),
    Form(times=4),
    Form(coding=Coding.ROCKETMQ),
    Form(coding=Coding.ROCKETMQ, is_oneway=True),
)


@attrs.frozen(kw_only=True)
class Asked:
    """One request: what it is, who asks and on which connection."""

    name: Name
    who: str
    form: Form
    peer: RecordingSession
    opaques: tuple[int, ...]


class Room:
    """A broker with access control, in which A and V have something of everything."""

    def __init__(self, broker: Broker, now_ms: int, tasks: trio.Nursery) -> None:
        self.broker = broker
        self.now_ms = now_ms
        self.tasks = tasks
        self.places: dict[str, int] = {}
        """Topic to where a message of it begins."""
        self.told = {who: self.peer() for who in ("account-A", "account-V")}
        """The connections of their clients."""
        self._numbers = itertools.count(1)

    async def fill(self, names: Iterable[Name]) -> None:
        """Messages, a timer, a half message, offsets, locks, clients, held pulls, jobs, texts."""
        store = self.broker.store
        for topic in dict.fromkeys(name.goes_to for name in names if name.goes_to):
            store.put([Message(topic, 0, b"body", b"UNIQ_KEY\x01M\x02")])
        for who, name in (("account-A", OWN), ("account-V", FOREIGN)):
            for code in FILLING:
                await self.ask(who, code, self.subject(name))
        victim = self.subject(FOREIGN)
        for properties, sys_flag in ((TIMER, 0), (HALF, 4)):
            sent = attrs.evolve(victim, properties=properties)
            await self.ask("account-V", RequestCode.SEND_MESSAGE, sent, sys_flag=sys_flag)
        end = attrs.evolve(victim, queue_offset=2)
        await self.ask("account-V", RequestCode.PULL_MESSAGE, end, sys_flag=6, answers=0)
        self.broker.tables.texts.put("N", "k", "v")
        for queue in store.queues():
            result = store.get(queue.topic, queue.queue_id, 0, count_max=1, bytes_max=1 << 16)
            self.places[queue.topic] = decode_record(result.records[0]).phy_offset
        for peer in self.told.values():
            peer.sent.clear()

    async def ask(
        self, who: str, code: int, one: Subject, *, sys_flag: int = 0, answers: int = 1
    ) -> None:
        """Ask for something that is answered with 0."""
        ext, body = MAKERS[code](attrs.evolve(one, client_id=f"client-of-{who}"))
        if sys_flag:
            ext["sysFlag"] = str(sys_flag)
        command = sign(Command(code, opaque=0, ext=ext, body=body), who)
        peer = self.told[who]
        self.do(peer, encode_frame(command))
        await trio.testing.wait_all_tasks_blocked()
        found = [sent.code for sent in peer.sent if sent.is_response]
        assert found == [0] * answers, (who, code, peer.sent)
        peer.sent.clear()

    def peer(self) -> RecordingSession:
        """A connection, whose tasks run."""
        peer = RecordingSession()

        def start_soon(work: Callable[[], Awaitable[None]]) -> bool:
            self.tasks.start_soon(work)
            return True

        peer.session.start_soon = start_soon
        return peer

    def subject(self, name: Name) -> Subject:
        """What a request of this name asks for."""
        topic = name.topic if name in (WAITING, UNDECIDED) else (name.goes_to or "")
        return Subject(
            topic=name.topic,
            group=name.group,
            place=self.places.get(topic, 1 << 40),
            unique_key={OWN: "M", UNDECIDED: "VH"}.get(name, "VT"),
            slot_ms=self.now_ms + 80_000_000,
            job=name.job,
        )

    def request(self, code: int, name: Name, who: str, form: Form) -> tuple[Asked, bytes]:
        """A request on a connection of its own, and its bytes."""
        opaques = tuple(next(self._numbers) for _ in range(form.times))
        number = opaques[0]
        peer = self.peer()
        # An address of its own: failures of one are answered later and later.
        host = ".".join(map(str, (10, *number.to_bytes(3, "big"))))
        peer.session.remote_address = f"{host}:40000"
        client = client_of(name) if code in CLIENT_CODES else who
        subject = attrs.evolve(self.subject(name), client_id=f"client-of-{client}")
        ext, body = MAKERS[code](subject) if code in MAKERS else ({}, b"")
        command = Command(
            code,
            opaque=number,
            flag=2 if form.is_oneway else 0,
            language=LanguageCode.JAVA,
            version=479,
            ext=ext,
            body=body,
            coding=form.coding,
        )
        if who == "wrong-signature":
            command = sign(command, "the-admin", "another-secret")
        elif who == "unknown-key":
            command = sign(command, "somebody-else")
        elif who != "not-signed":
            command = sign(command, who)
        frames = [encode_frame(attrs.evolve(command, opaque=opaque)) for opaque in opaques]
        return Asked(name=name, who=who, form=form, peer=peer, opaques=opaques), b"".join(frames)

    def do(self, peer: RecordingSession, data: bytes) -> None:
        """Let the broker read it; answers are with the connection."""
        connection = FrameConnection(run_count_min=2, decode_send=decode_signed_send_v2)
        connection.receive_data(data)
        for answer in self.broker.dispatcher.handle(peer.session, connection.requests()):
            peer.session.send(answer)


def options_in(directory: Path) -> BrokerOptions:
    """Those of a broker with the rules of the table."""
    return attrs.evolve(BROKER, acl_enable=True, acl_file=write_rules(directory, rules(SECRET)))


@asynccontextmanager
async def room(directory: Path) -> AsyncGenerator[Room]:
    """A broker that stands still, but for its late answers."""
    rig = Rig(options=options_in(directory))
    async with trio.open_nursery() as nursery:
        made = Room(rig.broker, rig.clock.now_ms(), nursery)
        await made.fill(NAMES)
        assert rig.broker.access is not None
        await nursery.start(rig.broker.access.run)
        yield made
        nursery.cancel_scope.cancel()


def cases() -> Iterable[tuple[Name, str, Form]]:
    """What is asked with each code."""
    yield from ((name, who, USUAL) for name in NAMES for who in EVERYBODY)
    yield from ((name, who, form) for name in FEW_NAMES for who in EVERYBODY for form in FORMS)


@pytest.mark.parametrize("code", CODES)
async def test_what_is_refused_leaves_no_trace(
    code: int, tmp_path: Path, autojump_clock: MockClock
) -> None:
    """Each has one answer, late or at once, and the broker is as it was."""
    with capture_logs():
        async with room(tmp_path) as made:
            before = state_of(made.broker)
            all_asked: list[Asked] = []
            for name, who, form in cases():
                if is_let_through(code, name, who):
                    continue
                asked, data = made.request(code, name, who, form)
                made.do(asked.peer, data)
                assert state_of(made.broker) == before, asked
                all_asked.append(asked)
            await trio.sleep(5)

            assert state_of(made.broker) == before
            for asked in all_asked:
                told = sorted(asked.peer.sent, key=lambda one: one.opaque)
                wanted = () if asked.form.is_oneway else asked.opaques
                assert tuple(one.opaque for one in told) == wanted, asked
                for one in told:
                    assert (one.code, one.remark, one.ext, one.body) == (*REFUSED, {}, b""), asked
                assert asked.peer.closed_for is None
                assert code in REPLY_CODES or asked.peer.session.speaker.account == ""
            assert [peer.sent for peer in made.told.values()] == [[], []]
    assert all_asked


@pytest.mark.parametrize("code", CODES)
async def test_what_is_let_through_is_not_refused(
    code: int, tmp_path: Path, autojump_clock: MockClock
) -> None:
    """An account with the rights is answered; a job of another account is none."""
    with capture_logs() as logs:
        async with room(tmp_path) as made:
            all_asked: list[Asked] = []
            for name, who, form in cases():
                if not is_let_through(code, name, who):
                    continue
                before = state_of(made.broker)
                asked, data = made.request(code, name, who, form)
                made.do(asked.peer, data)
                all_asked.append(asked)
                await trio.testing.wait_all_tasks_blocked()
                if is_anothers_job(code, name, who):
                    assert state_of(made.broker) == before, asked
            await trio.sleep(5)
    for asked in all_asked:
        answers = [one for one in asked.peer.sent if one.is_response]
        assert len(answers) <= (0 if asked.form.is_oneway else asked.form.times), asked
        for answer in answers:
            assert answer.remark != REMARK, asked
            assert (answer.code == 3) == (code in NOT_SERVED), asked
            if is_anothers_job(code, asked.name, asked.who):
                assert (answer.code, answer.body) == (NOT_HIS, b""), asked
    assert all_asked
    assert [log["event"] for log in logs if "failed" in log["event"]] == []


def is_anothers_job(code: int, name: Name, who: str) -> bool:
    """Whether a request names a bulk job that is not of who asks."""
    account = ACCOUNTS[who]
    is_new = code == RequestCode.BULK_OPEN and name.job == "job-of-none"
    return code in JOB_CODES and not (account.is_admin or is_new or account.job == name.job)


@pytest.mark.parametrize("code", sorted(NEEDS))
async def test_the_requests_are_good(code: int, tmp_path: Path, autojump_clock: MockClock) -> None:
    """With the right a running broker does them: the refused requests were valid."""
    name, who = GOOD.get(code, (OWN, "account-A"))
    if NEEDS[code](name) is None:
        who = "the-admin"
    assert is_let_through(code, name, who)
    with capture_logs():
        async with running_broker(options=options_in(tmp_path)) as running:
            made = Room(running.broker, running.clock.now_ms(), running.nursery)
            await made.fill((OWN, FOREIGN))
            asked, data = made.request(code, name, who, USUAL)
            made.do(asked.peer, data)
            await trio.sleep(15)
            answers = [one for one in asked.peer.sent if one.is_response]
    assert [one.code for one in answers] == [GOOD_CODES.get(code, 0)], answers


def test_the_table_has_every_code() -> None:
    """A new one needs a row, and a maker of requests."""
    served = set(SERVED)

    assert set(NEEDS) == served
    assert set(MAKERS) == served
    assert set(NOT_SERVED) >= set(RequestCode) - served
    assert not set(NOT_SERVED) & served
