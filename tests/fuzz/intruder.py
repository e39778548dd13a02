"""Signed requests of one account about what is another's: nothing of that is read, changed or late.

An input is a program: each byte chooses what comes next. It asks for some requests of any code,
about names, places and keys of its own and of V, and lets some time pass. Behind it all that V has
must be as it was (``victim``), and no answer may hold what is V's.
"""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import TypeVar

import attrs
import trio

from broker_rig import BROKER, RecordingSession
from every_request import MAKERS, Subject
from fuzz import loot, victim
from fuzz.victim import Victim
from fuzz.virtual_run import VirtualRun
from signed import sign, write_rules
from timermq.broker.security.access_rules import FREE_CODES
from timermq.remoting import Coding, Command, FrameConnection, LanguageCode
from timermq.remoting.connection import encode_frame
from timermq.remoting.errors import LocalProtocolError, RemoteProtocolError
from timermq.remoting.send_run.signed_send_v2 import decode_signed_send_v2
from timermq.timerstore.message import Message, pack_host
from timermq.timerstore.record import RecordError, encode_record
from timermq.timerstore.record_layout import HEAD

INPUTS_PER_BROKER = 300
"""Then a new one: V's timers are over, and the tables fill."""
STEPS_MAX = 6
TIME_MAX_MS = 256
RUN = 12
"""Times that a request is repeated in one piece."""
PLACES_MAX = 16
"""Positions of forged records that are remembered."""
RULES = f"""accounts:
- accessKey: account-V
  secretKey: hidden-secret
  topicPerms: [{victim.TOPIC}=PUB|SUB, {victim.HIDDEN.topic}=PUB|SUB]
  groupPerms: [{victim.GROUP}=SUB, {victim.HIDDEN.group}=SUB]
- accessKey: account-A
  secretKey: hidden-secret
  topicPerms: [AsTopic=PUB|SUB]
  groupPerms: [AsGroup=SUB]
- {{accessKey: powerless, secretKey: hidden-secret}}
"""
_FOLDER = tempfile.TemporaryDirectory(prefix="intruder")
ACL_FILE = write_rules(Path(_FOLDER.name), RULES)
DAY_MS = 86_400_000
OPTIONS = attrs.evolve(
    BROKER,
    acl_enable=True,
    acl_file=ACL_FILE,
    # V's client is silent, holds its locks and its pull, and is asked about its transaction often.
    channel_expired_timeout_ms=DAY_MS,
    rebalance_lock_max_live_ms=DAY_MS,
    pull_suspend_ms_max=DAY_MS,
    transaction_time_out_ms=1_000,
    transaction_check_interval_ms=1_000,
    transaction_check_max=1_000,
)
CODES = tuple(sorted(MAKERS))
SENDS = (10, 310, 320, 9001)
HOST = pack_host("127.0.0.1", 10_911)
REQUEST, FORGE, LEAVE = range(3)
STEPS = (*[REQUEST] * 6, FORGE, LEAVE)
WHO = (*["account-A"] * 7, "powerless")
LANGUAGES = (LanguageCode.JAVA, LanguageCode.CPP, LanguageCode.GO)

_Value = TypeVar("_Value")


def seeds() -> list[bytes]:
    """Each code about each base: what is one's own, what is V's, and mixtures."""
    found: list[bytes] = []
    for number, code in enumerate(CODES):
        # What is an operator's is refused whatever it is about.
        bases = range(len(loot.BASES)) if code in FREE_CODES else [loot.BASES.index(victim.KNOWN)]
        for base in bases:
            request = bytes([REQUEST, number, 0, base])
            found.append(b"\x01\x00" + request)
            # The same with a place, a key and an offset of V.
            places = [3, loot.PLACE, number, loot.KEY, base, loot.OFFSET, 0]
            found.append(b"\x09\x00" + request + bytes(places))
        if code in SENDS:
            request = bytes([REQUEST, number, 0, 0, 1, loot.PROPERTIES])
            found += [b"\x01\x00" + request + bytes([one]) for one in range(loot.PROPERTIES_COUNT)]
    forge = bytes([STEPS.index(FORGE), 1, 0])
    found += [b"\x01\x00" + forge + bytes([one]) for one in range(loot.PROPERTIES_COUNT)]
    return found


def fuzz_one(data: bytes) -> None:
    """Any program: V has not noticed."""
    global _life
    _life = _life or Life()
    try:
        _life.attack(data)
        if len(_life.inputs) == INPUTS_PER_BROKER:
            _life.end()
            _life = None
    except BaseException as error:
        assert _life is not None
        life, _life = _life, None
        life.run.end()
        error.add_note(f"{len(life.inputs)} inputs of this broker so far: {life.inputs!r}")
        raise


class Program:
    """Reads choices from bytes; behind the end all are 0."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._at = 0

    def number(self, below: int) -> int:
        """The next choice, a number from 0 to ``below`` less 1."""
        self._at += 1
        return self._data[self._at - 1] % below if self._at <= len(self._data) else 0

    def pick(self, values: Sequence[_Value]) -> _Value:
        """Choose one of the values by the next number."""
        return values[self.number(len(values))]

    def scrap(self) -> bytes:
        """Some bytes as they stand there."""
        size = self.number(16)
        self._at += size
        return self._data[self._at - size : self._at]


class Life:
    """One broker, V in it, and the intruder with what he has found out."""

    def __init__(self) -> None:
        self.run = VirtualRun(OPTIONS)
        self.inputs: list[bytes] = []
        self._victim = Victim(self.run)
        self._peer = RecordingSession()
        self._piece = b""
        """What is to be sent with what comes next."""
        self._sent = b""
        """All that the intruder has sent: names in it come back to him."""
        self._forged: list[int] = []
        self.run.call(self._begin)
        self._loot = loot.Loot(self._victim, self._forged)

    def attack(self, data: bytes) -> None:
        """Run one program, and look at V."""
        self.inputs.append(data)

        async def work() -> None:
            await self._attack(Program(data))

        self.run.call(work)

    def end(self) -> None:
        """See to it that V is still served, and end the broker."""
        self.run.call(self._victim.use)
        self.run.end()

    async def _begin(self) -> None:
        self._connect()
        await self._victim.begin()
        own = Subject(topic="AsTopic", group="AsGroup")
        for code in (34, 10, 9020):
            ext, body = MAKERS[code](attrs.evolve(own, job="AsJob", client_id="AsClient"))
            self._ask(Command(code, opaque=1, ext=ext, body=body), "account-A")
        await trio.testing.wait_all_tasks_blocked()

    async def _attack(self, program: Program) -> None:
        time_ms = program.number(TIME_MAX_MS)
        for _ in range(1 + program.number(STEPS_MAX)):
            step = program.pick(STEPS)
            if step == LEAVE or self._peer.closed_for is not None:
                self._leave()
            if step == FORGE:
                self._forge(program)
            else:
                self._request(program)
            await trio.testing.wait_all_tasks_blocked()
        self._send_piece()
        await self.run.pass_time(time_ms)
        self._check_told()
        self._victim.check()

    def _request(self, program: Program) -> None:
        """Send one request as the program decides, often with a part of it changed."""
        code = program.pick(CODES)
        who = program.pick(WHO)
        one = self._loot.subject(program)
        try:
            ext, body = MAKERS[code](one)
        except (ValueError, OverflowError):
            return  # no client can write that
        if program.number(4) == 1:
            name = (
                program.pick(sorted(ext)) if ext and program.number(2) else program.pick(loot.NAMES)
            )
            ext[name] = program.pick(self._loot.texts)
        if program.number(4) == 1:
            at = program.number(256) % (len(body) + 1)
            body = body[:at] + program.scrap() + body[at + program.number(16) :]
        command = Command(
            code,
            opaque=program.number(256),
            flag=2 if program.number(6) == 1 else 0,
            language=program.pick(LANGUAGES),
            version=479,
            ext=ext,
            body=body,
            coding=program.pick((Coding.JSON, Coding.ROCKETMQ, Coding.CBOR)),
        )
        times = RUN if program.number(8) == 1 else 1
        self._ask(command, who, times=times, waits=program.number(4) == 1)

    def _forge(self, program: Program) -> None:
        """Send a body that is shaped like a record where it will stand."""
        self._send_piece()
        topic = program.pick(loot.FORGED_TOPICS)
        at = self.run.broker.store.commit_log.max_offset + HEAD.size
        properties = loot.forged_properties(
            program.pick(self._loot.places), self._victim.timers[-1]
        )
        message = Message(topic, 0, b"forged", program.pick(properties))
        try:
            inner = encode_record(
                message,
                queue_offset=program.number(8),
                phy_offset=at,
                store_ms=self.run.wall.now_ms(),
                store_host=HOST,
            )
        except RecordError:
            return
        ext, body = MAKERS[10](Subject(topic="AsTopic", group="AsGroup", body=inner))
        self._ask(Command(10, opaque=1, ext=ext, body=body), "account-A")
        self._forged.append(at)
        del self._forged[:-PLACES_MAX]

    def _ask(self, command: Command, who: str, *, times: int = 1, waits: bool = False) -> None:
        """Send it, perhaps so many times, perhaps with what comes next, as one piece."""
        try:
            self._piece += encode_frame(sign(command, who)) * times
        except (LocalProtocolError, UnicodeError):
            return  # no client can write that
        if not waits:
            self._send_piece()

    def _send_piece(self) -> None:
        data, self._piece = self._piece, b""
        self._sent += data
        # Sends of one form are read as a run, however few they are.
        frames = FrameConnection(
            frame_size_max=1 << 16, run_count_min=2, decode_send=decode_signed_send_v2
        )
        frames.receive_data(data)
        try:
            requests = frames.requests()
        except RemoteProtocolError as error:
            assert error.close
            return
        session = self._peer.session
        for answer in self.run.broker.dispatcher.handle(session, requests):
            session.send(answer)

    def _check_told(self) -> None:
        """Nothing of V stands in what the intruder was sent; nothing shows a mistake of ours."""
        for answer in self._peer.sent:
            assert not (answer.remark or "").startswith("SYSTEM_ERROR"), answer
            told = repr((answer.remark, answer.ext)).encode() + answer.body
            assert victim.MARK.encode() not in told, answer
            for name in loot.KNOWN_NAMES:
                assert name not in told or name in self._sent, (name, answer)
        self._peer.sent.clear()

    def _leave(self) -> None:
        self.run.broker.dispatcher.close(self._peer.session)
        self._check_told()
        self._connect()

    def _connect(self) -> None:
        self._peer = RecordingSession()
        session = self._peer.session
        session.remote_address = "10.0.0.66:40000"
        session.start_soon = self.run.start_soon


_life: Life | None = None
