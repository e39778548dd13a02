"""Never do two brokers lead by one lease, whatever the network, the clocks and the engine do.

The engine here is one record with a version. Requests reach it late or never, and so do the
answers; a request that its sender has given up is done later all the same. Brokers stop for as long
as they like in between, are killed, and their clocks run unequally fast, as far as the margin
allows.
"""

from __future__ import annotations

import heapq
import itertools
import random

import attrs
import hypothesis.strategies as st
from hypothesis import given, settings

from timermq.broker.replication.lease import Stored
from timermq.broker.replication.lease_state import LeaseState, Read, Replace
from timermq.broker.replication.lease_timing import LeaseTiming

TIMING = LeaseTiming(ttl_ms=1_000, margin_ms=100)
IDS = (1, 2, 3)
STEPS = 400
STEP_MS_MAX = 30
CALM_MS = 3_000
"""How long nothing goes wrong in the end: a lease runs out, and is taken."""


@attrs.define(eq=False)
class Engine:
    """The record with its version; it does what arrives, in the order of arrival."""

    stored: Stored = attrs.field(factory=lambda: Stored(None, "0"))
    revision: int = 0

    def do(self, asked: Read | Replace) -> tuple[bool, Stored]:
        """The answer to a request."""
        if isinstance(asked, Read) or asked.version != self.stored.version:
            return False, self.stored
        self.revision += 1
        self.stored = Stored(asked.record, str(self.revision))
        return True, self.stored


@attrs.define(eq=False)
class Request:
    """A request on its way, and its answer on its way back."""

    asked: Read | Replace
    given_up_ms: float
    """True time at which its sender stops waiting."""
    answer: tuple[bool, Stored] | None = None
    heard_ms: float = float("inf")


@attrs.define(eq=False)
class Peer:
    """A broker with a clock of its own, that starts again under the same name."""

    broker_id: int
    rate: float
    began_ms: float
    lives: int = 0
    rests_until_ms: float = 0
    """True time up to which the process is stopped."""
    state: LeaseState = attrs.field(init=False)
    request: Request | None = None

    def __attrs_post_init__(self) -> None:
        self.start()

    def start(self) -> None:
        """Begin a life that knows nothing."""
        self.lives += 1
        self.request = None
        self.state = LeaseState(
            name=f"host:{self.broker_id}",
            broker_id=self.broker_id,
            instance=f"{self.broker_id}/{self.lives}",
            timing=TIMING,
            may_found=True,
        )

    def now_ms(self, true_ms: float) -> float:
        """The time of this broker's clock."""
        return self.began_ms + true_ms * self.rate


class Trial:
    """Brokers, an engine, and all that goes wrong between them, from one seed.

    Args:
        seed: Of all chances.
        trouble: How often something goes wrong, 0 to 1.
    """

    def __init__(self, seed: int, trouble: float) -> None:
        self.chance = random.Random(seed)
        self.trouble = trouble
        self.true_ms = 0.0
        self.engine = Engine()
        self.instance_of_epoch: dict[int, str] = {}
        self._order = itertools.count()
        self._arrivals: list[tuple[float, int, Request]] = []
        self.peers = [
            Peer(one, self.chance.uniform(0.96, 1.04), self.chance.uniform(0, 1e6)) for one in IDS
        ]

    def run(self) -> None:
        """Let time pass with troubles, then without."""
        for _ in range(STEPS):
            self.step(self.chance.uniform(0, STEP_MS_MAX))
            self._something_happens()
        self.trouble = 0.0
        for peer in self.peers:
            peer.rests_until_ms = self.true_ms
            peer.state.is_ready = peer.state.is_forced = True
        calm_until_ms = self.true_ms + CALM_MS
        while self.true_ms < calm_until_ms:
            self.step(10)
        assert len(self.leading()) == 1

    def step(self, ms: float) -> None:
        """Let time pass, and all that is due happen in a drawn order."""
        until_ms = self.true_ms + ms
        while self._arrivals and self._arrivals[0][0] <= until_ms:
            at_ms, _, request = heapq.heappop(self._arrivals)
            self.true_ms = max(self.true_ms, at_ms)
            self._arrive(request)
            self.check()
        self.true_ms = until_ms
        for peer in self.chance.sample(self.peers, len(self.peers)):
            if peer.rests_until_ms <= self.true_ms:
                self._go_on(peer)
                self.check()

    def _go_on(self, peer: Peer) -> None:
        now_ms, request = peer.now_ms(self.true_ms), peer.request
        if request is None:
            if peer.state.due_ms() <= now_ms:
                self._ask(peer, now_ms)
        elif request.answer is not None and request.heard_ms <= self.true_ms:
            peer.request = None
            is_done, stored = request.answer
            if isinstance(request.asked, Read):
                peer.state.was_read(now_ms, stored)
            else:
                peer.state.was_replaced(now_ms, stored, is_done=is_done)
        elif request.given_up_ms <= self.true_ms:
            peer.request = None
            peer.state.has_failed(now_ms)

    def _ask(self, peer: Peer, now_ms: float) -> None:
        wait_ms = TIMING.request_ms * (3 if self._is_trouble() else 1)
        asked = peer.state.begin(now_ms)
        peer.request = Request(asked, given_up_ms=self.true_ms + wait_ms)
        if not self._is_trouble():
            entry = (self.true_ms + self._way_ms(), next(self._order), peer.request)
            heapq.heappush(self._arrivals, entry)

    def _arrive(self, request: Request) -> None:
        request.answer = self.engine.do(request.asked)
        if not self._is_trouble():
            request.heard_ms = self.true_ms + self._way_ms()

    def _way_ms(self) -> float:
        longest = TIMING.ttl_ms * 1.5 if self._is_trouble() else TIMING.request_ms / 8
        return self.chance.uniform(0, longest)

    def _is_trouble(self) -> bool:
        return self.chance.random() < self.trouble

    def _something_happens(self) -> None:
        peer = self.chance.choice(self.peers)
        match self.chance.randrange(200):
            case 0 | 1 | 2:
                peer.rests_until_ms = self.true_ms + self.chance.uniform(0, 2 * TIMING.ttl_ms)
            case 3:
                peer.start()
            case 4 | 5 | 6 | 7 if peer.state.leads(peer.now_ms(self.true_ms)):
                peer.state.stop_leading()
            case 8 | 9 | 10 | 11 | 12 | 13:
                peer.state.is_ready = True
            case number if number < 60:
                for one in self.leading():
                    members = self.chance.sample(IDS, self.chance.randrange(len(IDS) + 1))
                    one.state.members = frozenset(members)
            case _:
                pass
        self.check()

    def leading(self) -> list[Peer]:
        """The brokers that lead by their own clocks."""
        return [one for one in self.peers if one.state.leads(one.now_ms(self.true_ms))]

    def check(self) -> None:
        """One broker leads at most, by an epoch of its own, and counts all that may be next."""
        leading = self.leading()
        assert len(leading) <= 1
        for one in leading:
            record = self.engine.stored.record
            if record is not None and record.instance == one.state.instance:
                assert record.in_sync <= one.state.counted
            first = self.instance_of_epoch.setdefault(one.state.epoch, one.state.instance)
            assert first == one.state.instance
            assert one.state.epoch == max(self.instance_of_epoch)


@given(seed=st.integers(0, 2**32), trouble=st.sampled_from([0.02, 0.1, 0.3]))
@settings(max_examples=200, deadline=None)
def test_one_leads(seed: int, trouble: float) -> None:
    """One broker leads at most at any time, and one in the end."""
    Trial(seed, trouble).run()
