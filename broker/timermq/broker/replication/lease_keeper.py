"""Keeps one broker's part in a lease: asks the engine, and has the broker lead and stop leading.

Two tasks. One asks, as ``LeaseState`` says, and goes on while the other works, for a broker that
takes the lead must renew as well. The other has the broker do what the state says: lead, stop
leading before the lease runs out, follow another holder. A broker that was stopped for a while has
run out before either of them runs; so what writes asks ``refusal`` each time.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

import structlog
import trio

from timermq.remoting.codes import ResponseCode

from ..refusal import RefusedError
from ..security.log_limit import LogLimit
from .lease import Lease, LeaseError
from .lease_state import LeaseState, Read, Replace
from .lease_status import LeaseStatus

GIVE_UP_TIMEOUT = 2.0
"""Seconds that a stop waits for the engine to take the lease back; else it runs out by itself."""
CLAIM_TIMES = 2
"""Times of a lease that an operator waits until it is taken."""
PATIENCE = 1.5
"""Times of one request after which an engine is waited for no longer, whatever it does itself."""

log = structlog.get_logger("timermq.broker.replication.lease_keeper")


class LeasedBroker(Protocol):
    """What a broker does as the lease says; an error of it is a failure of the broker."""

    def known_epoch(self) -> int:
        """The highest epoch that it has seen or led by."""
        ...

    def log_end(self) -> int:
        """The end of its commit log."""
        ...

    def confirmed(self) -> int:
        """The end of the part of its log that the followers in sync have, while it leads."""
        ...

    async def take_lead(self, epoch: int) -> None:
        """Lead by an epoch: one that it led by before, or one above all that it has seen.

        Cancellation: it leads all the same, soon.
        """
        ...

    async def stop_leading(self) -> None:
        """Lead no more: nothing is written any more when it returns.

        Cancellation: it stops all the same, soon.
        """
        ...

    def follow_holder(self, address: str | None) -> None:
        """Follow the broker at ``host:port``; None: no broker leads now."""
        ...


class LeaseKeeper:
    """One broker's part in a lease.

    Args:
        lease: The engine.
        state: What to ask and when.
        broker: Does what the lease says.
        steady_ms: A clock that cannot be set, milliseconds; it goes on while a machine sleeps.
    """

    def __init__(
        self,
        lease: Lease,
        state: LeaseState,
        broker: LeasedBroker,
        steady_ms: Callable[[], float],
    ) -> None:
        self._lease = lease
        self._state = state
        self._broker = broker
        self._steady_ms = steady_ms
        self._woken = trio.Event()
        self._changed = trio.Event()
        self._is_active = False
        """The broker may be writing: from before it takes the lead until it has stopped."""
        self._is_leading = False
        self._led_epoch = 0
        """The epoch in which the broker leads, or led last: not always that of the record."""
        self._followed: str | None = None
        self._error: str | None = None
        self._error_limit = LogLimit()

    @property
    def leads(self) -> bool:
        """Whether the broker may write and deliver at this moment."""
        return self._state.epoch == self._led_epoch and self._state.leads(self._steady_ms())

    def refusal(self) -> str | None:
        """Why nothing may be written at this moment; None while this broker leads."""
        if self.leads:
            return None
        return f"this broker does not hold the lease, {self._holder() or 'no broker'} does"

    async def agree(self, ids: frozenset[int | None]) -> bool:
        """Have the record name these followers as those that are in sync (``Followers.guard``).

        Args:
            ids: Of each its ``brokerId``; None of one that cannot take the lease.

        Returns:
            True when the record names them; False when this broker does not hold it.

        Cancellation: the record may name them, or the next that are asked for.
        """
        state = self._state
        members = frozenset(one for one in ids if one is not None)
        while state.holds:
            if state.record is not None and state.record.in_sync == members == state.counted:
                return True
            state.members = members
            self._wake()
            await self._changed.wait()
        return False

    async def claim(self, force: bool) -> None:
        """Wait until this broker leads: an operator wants it to.

        Args:
            force: Also if it is not in sync.

        Raises:
            RefusedError: It is not in sync, or another broker renews the lease.

        Cancellation: it may lead, or not.
        """
        state = self._state
        if not force and not (state.holds or state.is_eligible):
            named = (
                "no lease" if state.record is None else f"in sync {sorted(state.record.in_sync)}"
            )
            raise RefusedError(
                ResponseCode.ILLEGAL_OPERATION,
                "LEASE",
                f"expected a broker that is in sync, found {named}, and this is "
                f"{state.broker_id} with a log up to {state.own_end}: promote by force and lose "
                "what it has not",
            )
        state.is_forced = force
        self._wake()
        try:
            with trio.move_on_after(CLAIM_TIMES * state.timing.ttl_ms / 1000):
                while not state.leads(self._steady_ms()):
                    await self._changed.wait()
        finally:
            state.is_forced = False  # what was refused is not done later
        if not state.leads(self._steady_ms()):
            why = self._error or f"{self._holder()} renews its lease: stop that broker first"
            raise RefusedError(ResponseCode.ILLEGAL_OPERATION, "LEASE", why)
        await self.wait_leads()

    async def wait_leads(self) -> None:
        """Wait until the broker leads, all its parts included."""
        while not self._is_leading:
            await self._changed.wait()

    def status(self) -> LeaseStatus:
        """The lease at this moment, from memory."""
        record, now_ms = self._state.record, self._steady_ms()
        leads = self._state.leads(now_ms)
        return LeaseStatus(
            leads=leads,
            holder=self._holder(),
            epoch=self._state.epoch,
            in_sync=() if record is None else tuple(sorted(record.in_sync)),
            left_ms=int(self._state.led_until_ms - now_ms) if leads else 0,
            error=self._error,
        )

    async def run(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Keep the lease until cancelled.

        Cancellation: the lease is not given up, and runs out.
        """
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self._ask_on, name="lease requests")
            nursery.start_soon(self._act_on, name="lease acts")
            task_status.started()

    async def give_up(self) -> None:
        """Lead no more, and let another broker lead at once; while ``run`` runs.

        Returns when the broker writes nothing any more and the engine knows, or after two seconds.
        """
        self._state.stop_leading()
        self._tell_change()
        with trio.move_on_after(GIVE_UP_TIMEOUT):
            while self._is_active or self._state.holds:
                await self._changed.wait()

    async def _ask_on(self) -> None:
        while True:
            self._look_at_broker()
            woken = self._woken
            pause_ms = self._state.due_ms() - self._steady_ms()
            # A lease is given up when the broker has stopped, not before.
            gives_up = self._is_active and not self._state.is_ready
            if pause_ms > 0 or gives_up:
                with trio.move_on_after(float("inf") if gives_up else pause_ms / 1000):
                    await woken.wait()
                continue
            await self._ask()
            self._tell_change()

    def _look_at_broker(self) -> None:
        state, broker = self._state, self._broker
        state.own_epoch = max(state.own_epoch, broker.known_epoch())
        state.own_end, state.confirmed = broker.log_end(), broker.confirmed()

    async def _ask(self) -> None:
        state = self._state
        asked = state.begin(self._steady_ms())
        is_done, stored, error = False, None, None
        with trio.move_on_after(state.timing.request_ms * PATIENCE / 1000) as waiting:
            try:
                if isinstance(asked, Replace):
                    is_done, stored = await self._lease.replace(asked.record, asked.version)
                else:
                    stored = await self._lease.read()
            except LeaseError as failure:
                error = str(failure)
        if waiting.cancelled_caught:
            error = "no answer in time"
        if stored is None:
            state.has_failed(self._steady_ms())
        elif isinstance(asked, Read):
            state.was_read(self._steady_ms(), stored)
        else:
            state.was_replaced(self._steady_ms(), stored, is_done=is_done)
        self._note(error)

    def _note(self, error: str | None) -> None:
        """Tell of an engine that fails, once a minute, and of one that answers again."""
        if error is not None:
            if count := self._error_limit.take():
                log.warning("no answer about the lease", reason=error, tries=count)
        elif self._error is not None:
            log.info("answers about the lease again", leads=self.leads)
            self._error_limit = LogLimit()
        self._error = error

    async def _act_on(self) -> None:
        while True:
            now_ms, changed = self._steady_ms(), self._changed
            leads = self._state.leads(now_ms)
            if leads and not self._is_active:
                self._is_active, self._followed = True, None
                self._led_epoch = self._state.epoch
                await self._broker.take_lead(self._led_epoch)
                self._is_leading = True
                log.info("leads by its lease", epoch=self._led_epoch)
                self._tell_change()
            elif self._is_active and not self.leads:
                log.warning("leads no more", lease=self.refusal(), error=self._error)
                self._is_leading = False
                await self._broker.stop_leading()
                self._is_active = False
                self._tell_change()
                self._wake()
            else:
                if not self._is_active:
                    self._follow()
                left_s = (self._state.led_until_ms - now_ms) / 1000 if leads else float("inf")
                with trio.move_on_after(left_s):
                    await changed.wait()

    def _follow(self) -> None:
        """Tell the broker of another holder, when it changes."""
        holder = None if self._state.holds else self._holder()
        if holder != self._followed:
            self._followed = holder
            self._broker.follow_holder(holder)

    def _holder(self) -> str | None:
        record = self._state.record
        return None if record is None or record.is_given_up else record.holder

    def _wake(self) -> None:
        self._woken.set()
        self._woken = trio.Event()

    def _tell_change(self) -> None:
        self._changed.set()
        self._changed = trio.Event()
