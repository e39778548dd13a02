"""Transactions through sends, endings, checks and kills: each ends once, as its producer said.

A plan is a list of steps. A step may be the last one of a process: then its write is cut short at
any byte, its answer is not seen, and the next process opens what is left, with offsets of
``CID_RMQ_SYS_TRANS`` as old as the plan leaves them. What must hold is told in ``Trade.fault``. The
log has segments of some five records, so that writes cross their ends.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import attrs
import trio
from hypothesis import given
from hypothesis import strategies as st

from broker_rig import BROKER, ROOT, STORE, RecordingSession, commands_in, open_broker, send_ext
from fakes import ManualClock
from timermq.broker.broker import Broker
from timermq.broker.config_table import ConfigSaver
from timermq.broker.options import TransactionDelay
from timermq.pipeline.records.timer_record import TIMER_TOPIC
from timermq.remoting import Command
from timermq.simulator.disks.memory_disk import MemoryDisk
from transaction_rig import (
    COMMIT,
    DISCARD_TOPIC,
    END_TRANSACTION,
    ROLLBACK,
    UNKNOWN,
    bodies,
    checks,
    end_ext,
    half_properties,
    joined,
    reply_ext,
)

CHECK_MAX = 2
SEGMENT_SIZE = 2048
OPTIONS = attrs.evolve(
    BROKER, transaction_check_max=CHECK_MAX, transaction_delay=TransactionDelay.AT_COMMIT
)
FILES = attrs.evolve(STORE, mapped_file_size_commit_log=SEGMENT_SIZE, max_message_size=512)
OUTCOMES = {COMMIT: 1, ROLLBACK: 0}
"""Messages on the real topic after an ending."""


@attrs.frozen
class Half:
    """One half message is sent; it may ask for a delay, which begins with its commit."""

    is_delayed: bool = False


@attrs.frozen
class End:
    """A producer ends a transaction by the name of its first half message."""

    pick: int
    decision: int


@attrs.frozen
class Reply:
    """It answers a check that it got, however long ago."""

    pick: int
    decision: int


@attrs.frozen
class Check:
    """Time passes, and one round asks."""


@attrs.frozen
class Save:
    """The offsets are brought to the disk."""


Step = Half | End | Reply | Check | Save


@attrs.frozen
class Kill:
    """The process ends in a step; so many bytes of what it wrote to the log are missing."""

    step: Step
    missing: int


@attrs.define
class Trade:
    """One transaction, as its producer knows it."""

    key: str
    half: Command | None
    """The answer to the half message; None when it was not seen."""
    asked: set[int] = attrs.Factory(set[int])
    told: int | None = None
    """The ending that was acknowledged."""

    def fault(self, arrived: int, discarded: int, *, is_open: bool) -> str | None:
        """What is not as it must be.

        Args:
            arrived: Messages on the real topic.
            discarded: Transactions that were discarded.
            is_open: Whether the broker takes it for open.
        """
        found = f"{self}: arrived {arrived}, discarded {discarded}, open {is_open}"
        if arrived + discarded + is_open > 1:
            return f"ended more than once: {found}"
        if arrived and COMMIT not in self.asked:
            return f"never committed: {found}"
        if self.told is not None and (arrived, is_open) != (OUTCOMES[self.told], False):
            return f"not as it was told: {found}"
        gone = not (arrived or discarded or is_open)
        if gone and self.half is not None and ROLLBACK not in self.asked:
            return f"lost: {found}"
        return None


class World:
    """A broker that is killed and opened again, and its producer."""

    def __init__(self) -> None:
        self.clock = ManualClock()
        self.disk = MemoryDisk(now_ms=self.clock.now_ms)
        self.trades: list[Trade] = []
        self.checks: list[Command] = []
        self.broker = self._open()

    def _open(self) -> Broker:
        broker = open_broker(self.clock, disk=self.disk, options=OPTIONS, store_options=FILES)
        self.producer = joined(broker.tables.clients)
        return broker

    async def carry_out(self, plan: Sequence[Step | Kill]) -> None:
        """All steps, and then whatever is open is committed."""
        for step in plan:
            if isinstance(step, Kill):
                await self._kill(step)
            else:
                await self._take(step, is_seen=True)
            self._check_faults()
        while len(self.broker.transactions.open):
            await self._take(Check(), is_seen=True)
            for pick in range(len(self.checks)):
                await self._take(Reply(pick, COMMIT), is_seen=True)
            self._check_faults()

    async def _kill(self, kill: Kill) -> None:
        before = self.broker.store.commit_log.max_offset
        await self._take(kill.step, is_seen=False)
        end = self.broker.store.commit_log.max_offset
        self.disk.process_kill()
        for position in range(max(end - kill.missing, before), end):
            start = position - position % SEGMENT_SIZE
            file = self.disk.open(f"{ROOT}/commitlog/{start:020}")
            file.write(position - start, b"\0")
            file.close()
        self.broker = self._open()

    async def _take(self, step: Step, *, is_seen: bool) -> None:
        match step:
            case Half(is_delayed):
                key = f"K{len(self.trades)}"
                asked = {"TIMER_DELAY_SEC": "3600"} if is_delayed else {}
                ext = send_ext("T", half_properties(key, **asked), sysFlag="4")
                answer = self._call(10, ext, key.encode())
                assert answer.code == 0
                self.trades.append(Trade(key, answer if is_seen else None))
            case End(pick, decision):
                known = [one for one in self.trades if one.half is not None]
                if known:
                    trade = known[pick % len(known)]
                    assert trade.half is not None
                    self._end(trade, decision, end_ext(trade.half, decision), is_seen=is_seen)
            case Reply(pick, decision):
                if self.checks:
                    check = self.checks[pick % len(self.checks)]
                    trade = next(one for one in self.trades if one.key == check.ext["msgId"])
                    self._end(trade, decision, reply_ext(check, decision), is_seen=is_seen)
            case Check():
                self.clock.time_ms += OPTIONS.transaction_time_out_ms
                await self.broker.transaction_check.check()
                found = checks(self.producer)
                self.checks += found if is_seen else []
            case Save():
                self.broker.transactions.commit_offsets()
                await self.broker.store.flush()
                self.broker.transactions.commit_offsets()
                offsets = self.broker.tables.offsets
                saver = ConfigSaver(self.disk, ROOT, prompt=(), periodic=(offsets,), interval_ms=1)
                await saver.save()

    def _end(self, trade: Trade, decision: int, ext: dict[str, str], *, is_seen: bool) -> None:
        if decision == UNKNOWN:
            assert self._calls(END_TRANSACTION, ext) == []
            return
        trade.asked.add(decision)
        code = self._call(END_TRANSACTION, ext).code
        # 1: the check was for a half message that a kill took before it was whole.
        assert code in (0, 604) or (code == 1 and ext["fromTransactionCheck"] == "true")
        if trade.told is not None:
            assert (code == 0) == (decision == trade.told)
        if code == 0 and is_seen:
            trade.told = decision

    def _call(self, code: int, ext: dict[str, str], body: bytes = b"") -> Command:
        (answer,) = self._calls(code, ext, body)
        return answer

    def _calls(self, code: int, ext: dict[str, str], body: bytes = b"") -> list[Command]:
        command = Command(code, ext=ext, body=body)
        peer = RecordingSession()
        return commands_in(self.broker.dispatcher.handle(peer.session, [command]))

    def _check_faults(self) -> None:
        # No task runs here: what waits on the wheel stays there.
        arrived = Counter(bodies(self.broker) + bodies(self.broker, TIMER_TOPIC))
        discarded = Counter(bodies(self.broker, DISCARD_TOPIC))
        transactions = self.broker.transactions
        open_halves = [transactions.newest(name) for name in transactions.open.names()]
        assert None not in open_halves
        is_open = Counter(one.unique_key for one in open_halves if one is not None)
        faults = [
            trade.fault(arrived[trade.key], discarded[trade.key], is_open=is_open[trade.key] > 0)
            for trade in self.trades
        ]
        assert [one for one in faults if one is not None] == []
        assert max(is_open.values(), default=0) <= 1


PICKS = st.integers(0, 2)
DECISIONS = st.sampled_from([COMMIT, COMMIT, ROLLBACK, UNKNOWN])
STEPS = st.one_of(
    st.builds(Half, st.booleans()),
    st.builds(End, PICKS, DECISIONS),
    st.just(Check()),
    st.builds(Reply, PICKS, DECISIONS),
    st.just(Save()),
)
ENDINGS = st.one_of(st.builds(End, PICKS, DECISIONS), st.builds(Reply, PICKS, DECISIONS))
KILLS = st.one_of(
    st.builds(Kill, STEPS, st.integers(0, 900)),
    # Within the op message, which is written last.
    st.builds(Kill, ENDINGS, st.integers(0, 180)),
)


@given(
    st.lists(st.one_of(STEPS, KILLS), max_size=9).map(lambda steps: [Half(), Half(True), *steps])
)
def test_every_transaction_ends_once(plan: list[Step | Kill]) -> None:
    """As acknowledged; and what is not decided is asked about again."""

    async def carry_out() -> None:
        await World().carry_out(plan)

    trio.run(carry_out)
