"""A store that a broker of RocketMQ 4.9 leaves, and what became of it with ours, on one client.

RocketMQ's name server and the client of 4.9 (Client4.java) stay when the brokers change; ours takes
the address and the ``broker.conf`` of the other.
"""

from __future__ import annotations

import base64
import contextlib
import io
from collections.abc import Iterator, Mapping
from pathlib import Path

import attrs
import msgspec
import structlog

from interop.handed import FILES, SETTINGS, now_ms
from interop.java_peer import JavaPeer, wait_registered
from interop.serving import starting
from interop.stored_records import stored_records
from interop.talking import Talking, talking
from timermq.cli import main
from timermq.timerstore.delay_levels import SCHEDULE_TOPIC
from timermq.timerstore.delay_offset import DelayOffsets
from timermq.timerstore.os_disk import OsDisk
from timermq.timerstore.record import Record
from waiting import wait_until

PLAIN, WORK, TRADE, GROUP = "Plain", "Work", "Trade", "Workers"
TOPICS = (PLAIN, WORK, TRADE, f"%RETRY%{GROUP}", f"%DLQ%{GROUP}")
COMMIT, ROLLBACK, UNKNOWN = "COMMIT_MESSAGE", "ROLLBACK_MESSAGE", "UNKNOW"
WAIT_SECONDS = 100.0

Row = Mapping[str, object]


class Seen(msgspec.Struct, frozen=True, kw_only=True):
    """All that RocketMQ's client knows of a message, see Client4.java."""

    topic: str
    queue_id: int
    queue_offset: int
    phy_offset: int
    size: int
    sys_flag: int
    flag: int
    body_crc: int
    born_ms: int
    born_host: str
    store_ms: int
    store_host: str
    reconsume_times: int
    prepared_transaction_offset: int
    properties: dict[str, str]
    body: str
    id: str

    @property
    def name(self) -> str:
        """What its body begins with."""
        return name_of(base64.b64decode(self.body))


def name_of(body: bytes) -> str:
    """A body of some size ends with strokes."""
    return body.decode().rstrip("-")


@attrs.define
class Client4:
    """Client4.java, which is told one line after the other."""

    program: Talking
    told: int = 0

    def tell(self, *words: str) -> list[str]:
        """Tell it, and wait until it is done; what it said meanwhile."""
        self.program.say("\t".join(words))
        self.told += 1
        begin = len(self.program.heard)
        self.program.hear("### DONE", self.told)
        return self.program.heard[begin:]

    def seen(self, *topics: str) -> list[Seen]:
        """All messages that the topics hold, as a client of 4.9 reads them."""
        return [
            msgspec.json.decode(line.removeprefix("MESSAGE "), type=Seen)
            for line in self.tell("dump", *topics)
            if line.startswith("MESSAGE ")
        ]

    def has_committed(self, topic: str) -> bool:
        """Whether the broker knows that the group has consumed all of a topic.

        What the group says as it leaves has no answer, and may be lost.
        """
        places = [
            line.split()[2:]
            for line in self.tell("committed", topic)
            if line.startswith("COMMITTED ")
        ]
        return bool(places) and all(offset == end for offset, end in places)

    def wait_for(self, topic: str, names: set[str]) -> None:
        """Until a topic holds them."""
        wait_until(lambda: names <= {one.name for one in self.seen(topic)}, WAIT_SECONDS)


@attrs.frozen(kw_only=True)
class Life:
    """What was seen of the store while a broker served it, and right after."""

    first: list[Seen]
    """What its topics held at the beginning; of RocketMQ's nothing."""
    last: list[Seen]
    """… and in the end."""
    heard: list[str]
    """What happened at the client: checks, messages of the group."""
    stored: list[Record]
    """The log that it left."""
    plan: list[Row]
    """What ``store plan`` says of what it left."""
    began_ms: int

    def words(self, beginning: str) -> list[list[str]]:
        """The lines that begin so, without it."""
        return [line.split()[1:] for line in self.heard if line.startswith(f"{beginning} ")]

    def planned(self, part: str) -> dict[str, Row]:
        """The rows of one part, by name."""
        return {str(row["name"]): row for row in self.plan if row["part"] == part}


@attrs.frozen(kw_only=True)
class Story:
    """The life of the store with RocketMQ's broker, and then with ours."""

    levels_ms: tuple[int, ...]
    is_killed: bool
    sent: dict[str, tuple[int, str]]
    """Name to level (0: none) and unique id."""
    javas: Life
    delay_offsets: Mapping[int, int]
    """What RocketMQ's file says, before ours comes."""
    ours: Life
    back: list[Seen]
    """What a broker of 4.9 serves of what ours left; it is tried where none was killed."""
    pending: list[Row]
    """``timermq pending`` of what the last of them left."""
    quarantined: list[Row]


LEVELS_S = {False: (1, 2, 14, 15, 7_200), True: (1, 5, 14, 15, 7_200)}
"""By whether RocketMQ is killed: then its tables are waited for, which takes it ten seconds."""
LEVELS_OF_OURS = (3, 4)
"""What waits for them is sent last, so that RocketMQ ends before it is due."""
LEVEL_LAST = 5
"""What waits for it still waits in the end."""
RICH = ("tag=red", "keys=first second", "flag=7", "p.colour=grün = 1")


def levels(*numbers: int) -> dict[str, int]:
    """Names of the messages that wait for these levels, to their level."""
    return {f"level-{level}-{n}": level for level in numbers for n in range(3)}


LEVEL_NAMES = levels(*range(1, LEVEL_LAST + 1))
LATE_NAMES = {f"late-{n}": 1 for n in range(3)}
"""Sent, and delivered by RocketMQ, behind the last writing of its tables before a kill."""
HALF_WITH_LEVEL = "half-with-level"


@attrs.define
class Told:
    """The story as it is made."""

    home: Path
    five: JavaPeer
    four: JavaPeer
    is_killed: bool
    sent: dict[str, tuple[int, str]] = attrs.Factory(dict[str, tuple[int, str]])

    @property
    def store(self) -> Path:
        """The directory that changes hands."""
        return self.home / "store"

    @property
    def config(self) -> Path:
        """Path of the settings file of RocketMQ's broker."""
        return self.home / "store-java/settings.conf"

    def tell(self) -> Story:
        """Lead the store through both lives and tell what became of it."""
        command = self.four.command("Client4", self.home)
        with (
            self.five.namesrv(self.home / "namesrv") as namesrv,
            talking([*command, namesrv.listen, GROUP]) as program,
        ):
            client = Client4(program)
            listen, javas = self._by_java(namesrv.listen, client)
            known = DelayOffsets.load(OsDisk(), str(self.store))
            ours = self._by_us(namesrv.listen, listen, client)
            back = [] if self.is_killed else self._back(namesrv.listen, client)
        return Story(
            levels_ms=tuple(1_000 * one for one in LEVELS_S[self.is_killed]),
            is_killed=self.is_killed,
            sent=self.sent,
            javas=javas,
            delay_offsets={} if known is None else known.offsets,
            ours=ours,
            back=back,
            pending=self._asked("pending", "--store", str(self.store)),
            quarantined=self._asked("quarantine", "list", "--store", str(self.store)),
        )

    # -- RocketMQ -----------------------------------------------------------------------------

    def _by_java(self, namesrv: str, client: Client4) -> tuple[str, Life]:
        began_ms = now_ms()
        with self.four.broker(self.store, namesrv=namesrv, settings=self._settings()) as java:
            self._fill(client)
            if self.is_killed:
                self._wait_for_tables()
            self._send_all(client, LATE_NAMES)
            client.wait_for(PLAIN, {*LATE_NAMES, "level-1-2"})
            client.program.hear("CHECKED open")
            self._send_all(client, levels(*LEVELS_OF_OURS))
            self._send(client, PLAIN, "level-large", "level=3", "size=20000", *RICH)
            last = client.seen(*TOPICS)
            if self.is_killed:
                java.kill()
            else:
                java.stop()
        return java.listen, self._life(client, [], last, 0, began_ms)

    def _settings(self) -> Mapping[str, str]:
        return {
            **SETTINGS,
            "messageDelayLevel": " ".join(f"{one}s" for one in LEVELS_S[self.is_killed]),
            "transactionTimeOut": "1000",
            "transactionCheckInterval": "2000",
            "transactionCheckMax": "1000",
            "flushConsumerOffsetInterval": "500",
            "flushDelayOffsetInterval": "600000",
        }

    def _back(self, namesrv: str, client: Client4) -> list[Seen]:
        with self.four.broker(self.store, namesrv=namesrv, settings=self._settings()):
            return client.seen(*TOPICS)

    def _fill(self, client: Client4) -> None:
        self._send(client, PLAIN, "rich", *RICH)
        self._send(client, PLAIN, "poor")
        self._send(client, PLAIN, "large", "size=20000", *RICH)
        client.tell("batch", PLAIN, "batched", "3")
        self._send_all(client, levels(1, 2, LEVEL_LAST))
        for name, decision in {"done": COMMIT, "undone": ROLLBACK}.items():
            client.tell("half", TRADE, name, decision)
        for name in ("open-done", "open-undone", "open-kept"):
            client.tell("half", TRADE, name, UNKNOWN)
        # Java's producer of transactions leaves a level out; nothing else does.
        half = ("p.TRAN_MSG=true", "p.PGROUP=other")
        self._send(client, TRADE, HALF_WITH_LEVEL, f"level={LEVEL_LAST}", *half)
        for name in ("again", "dead", "good"):
            self._send(client, WORK, name)
        client.tell("consume", WORK)
        client.program.hear("GOT", 3)
        dead = f"%DLQ%{GROUP}"
        wait_until(lambda: {"dead"} == {one.name for one in client.seen(dead)}, WAIT_SECONDS)
        wait_until(lambda: client.has_committed(WORK), WAIT_SECONDS)
        client.tell("leave")
        self._send(client, WORK, "later-0")
        self._send(client, WORK, "later-1")

    def _send_all(self, client: Client4, names: Mapping[str, int]) -> None:
        for name, level in names.items():
            self._send(client, PLAIN, name, f"level={level}", *RICH)

    def _send(self, client: Client4, topic: str, name: str, *asked: str) -> None:
        (line,) = (
            line
            for line in client.tell("send", topic, name, *asked)
            if line.startswith(f"SENT {name} ")
        )
        level = next((one for one in asked if one.startswith("level=")), "level=0")
        self.sent[name] = int(level.removeprefix("level=")), line.split()[-1]

    def _wait_for_tables(self) -> None:
        """Until RocketMQ has written what it knows of levels and groups."""
        tables = self.store / "config"

        def are_written() -> bool:
            offsets = tables / "consumerOffset.json"
            return (
                (tables / "delayOffset.json").exists()
                and offsets.exists()
                and f"{WORK}@{GROUP}" in offsets.read_text()
            )

        wait_until(are_written, WAIT_SECONDS)

    # -- ours ---------------------------------------------------------------------------------

    def _by_us(self, namesrv: str, listen: str, client: Client4) -> Life:
        heard, began_ms = len(client.program.heard), now_ms()
        with starting() as start:
            broker = start(self.store, "--config", str(self.config), listen=listen)
            wait_registered(namesrv, listen)
            first = client.seen(*TOPICS)
            for name, decision in {"open-done": COMMIT, "open-undone": ROLLBACK}.items():
                client.tell("decide", name, decision)
            client.tell("consume", WORK)
            client.tell("half", TRADE, "ours", COMMIT)
            client.program.hear(f"CHECKED open-done {COMMIT}")
            client.program.hear(f"CHECKED open-undone {ROLLBACK}")
            client.program.hear("CHECKED open-kept")
            client.program.hear("GOT later", 2)
            client.program.hear("GOT again 1")
            client.tell("leave")
            client.wait_for(
                PLAIN, {name for name, (level, _) in self.sent.items() if level in (1, 2, 3, 4)}
            )
            client.wait_for(TRADE, {"open-done", "ours"})
            last = client.seen(*TOPICS)
            assert broker.stop() == 0
        return self._life(client, first, last, heard, began_ms)

    # -- both ---------------------------------------------------------------------------------

    def _life(
        self, client: Client4, first: list[Seen], last: list[Seen], heard: int, began_ms: int
    ) -> Life:
        return Life(
            first=first,
            last=last,
            heard=client.program.heard[heard:],
            stored=stored_records(self.store, options=FILES),
            plan=self._asked("store", "plan", str(self.store)),
            began_ms=began_ms,
        )

    def _asked(self, *words: str) -> list[Row]:
        """What our program says of the stopped store."""
        argv = [*words, "--json"]
        if words[0] == "store":
            argv += ["--config", str(self.config)]
        with contextlib.redirect_stdout(io.StringIO()) as output:
            code = main(argv)
        structlog.reset_defaults()
        assert code == 0, output.getvalue()
        lines = output.getvalue().splitlines()
        return [msgspec.json.decode(line, type=dict[str, object]) for line in lines]


def waiting(records: list[Record]) -> Iterator[Record]:
    """Those that stand in the queues of levels."""
    return (one for one in records if one.topic == SCHEDULE_TOPIC)
