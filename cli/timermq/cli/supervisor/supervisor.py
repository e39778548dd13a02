"""The supervisor: starts the brokers, passes the stop on, and starts again what ends by itself.

It does for each broker what a service manager does for the one of ``timermq serve``. The end of one
broker leaves the others alone: each has a store of its own. It is started again, with growing
pauses, because no other broker has its messages. Each end is an error in the log and in the service
manager's status.

A first start that fails stops all brokers, also one that ends with exit code 0 before it is ready:
the others wait for it. A broker that was ready and ends with exit code 0 was stopped by an
operator, and is not started again.
"""

from __future__ import annotations

import signal
from collections.abc import Sequence

import structlog
import trio

from ..exit_code import DONE, FAILED, USAGE
from ..service_manager import ServiceManager
from .supervised_process import BrokerProcess, State

RESTART_PAUSE_MIN = 1.0
RESTART_PAUSE_MAX = 30.0
"""Seconds before a broker is started again; they double each time that it does not get ready."""

log = structlog.get_logger("timermq.cli.supervisor")


class Supervisor:
    """Runs the brokers of a machine.

    Args:
        brokers: All brokers; if one is the name server, it is the first.
        manager: Gets the state of all of them.
    """

    def __init__(self, brokers: Sequence[BrokerProcess], manager: ServiceManager) -> None:
        self.brokers = brokers
        self._manager = manager
        self._stop_requested = trio.Event()
        self.all_ready = trio.Event()
        """Each broker has been ready once."""
        self._code = DONE

    async def run(self) -> int:
        """Run all brokers until a stop; returns the exit code.

        0 when each broker ended in order; the code of a start that failed; else 1.

        Raises:
            OSError: A broker cannot be started.

        Cancellation: the brokers are killed.
        """
        async with trio.open_nursery() as services:
            for one in self.brokers:
                await services.start(one.listen)
            services.start_soon(self._watch)
            async with trio.open_nursery() as nursery:
                nursery.start_soon(self._start, nursery)
            services.cancel_scope.cancel()
        return self._code

    def request_stop(self) -> None:
        """Stop all brokers in order; ``run`` returns when they have ended."""
        self._stop_requested.set()
        for one in self.brokers:
            one.send_signal(signal.SIGTERM)

    def kill(self) -> None:
        """End all brokers at once; their next start recovers."""
        self._stop_requested.set()
        for one in self.brokers:
            one.send_signal(signal.SIGKILL)

    def unready(self) -> list[str]:
        """The brokers that take no requests, and why; a line each."""
        return [
            f"{one.plan.name}: {one.state.value}{f' ({one.ended})' if one.ended else ''}"
            for one in self.brokers
            if one.state is not State.READY
        ]

    async def _start(self, nursery: trio.Nursery) -> None:
        """Start the first broker, with which the others register, and then the others."""
        first, *others = self.brokers
        nursery.start_soon(self._keep, first)
        await self._until_ready(first)
        for one in others:
            if not self._stop_requested.is_set():
                nursery.start_soon(self._keep, one)
        for one in others:
            await self._until_ready(one)
        if not self._stop_requested.is_set():
            self.all_ready.set()

    async def _until_ready(self, one: BrokerProcess) -> None:
        """Wait for a broker to be ready, or for the end of all."""
        async with trio.open_nursery() as nursery:

            async def wait_for(event: trio.Event) -> None:
                await event.wait()
                nursery.cancel_scope.cancel()

            nursery.start_soon(wait_for, self._stop_requested)
            nursery.start_soon(wait_for, one.ready)

    async def _keep(self, one: BrokerProcess) -> None:
        """Run a broker, again and again, until it stops in order or all stop."""
        pause, has_been_ready = RESTART_PAUSE_MIN, False
        while True:
            code = await self._run(one)
            was_ready = one.ready.is_set()
            has_been_ready = has_been_ready or was_ready
            one.state = State.STOPPED if code == 0 else State.ENDED
            if self._stop_requested.is_set():
                # SIGTERM kills a process that has not begun to handle it, nor touched its store.
                is_early = code == -signal.SIGTERM and not was_ready
                self._code = self._code or (DONE if code == 0 or is_early else FAILED)
                return
            if not has_been_ready:
                self._start_failed(one, code)
                return
            if code == 0:
                self._stopped(one)
                return
            pause = RESTART_PAUSE_MIN if was_ready else min(2 * pause, RESTART_PAUSE_MAX)
            log.error(
                "broker ended and is started again: its messages are late meanwhile",
                broker=one.plan.name,
                ended=one.ended,
                pause_s=pause,
            )
            self._tell()
            with trio.move_on_after(pause):
                await self._stop_requested.wait()
                self._code = self._code or FAILED
                return
            one.restarts += 1

    async def _run(self, one: BrokerProcess) -> int:
        """Run a broker once, and tell when it is ready."""
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self._tell_when_ready, one)
            code = await one.run()
            nursery.cancel_scope.cancel()
        return code

    async def _tell_when_ready(self, one: BrokerProcess) -> None:
        await one.ready.wait()
        if one.restarts:
            log.warning("broker is back", broker=one.plan.name, restarts=one.restarts)
        self._tell()

    def _stopped(self, one: BrokerProcess) -> None:
        """Leave a broker that an operator has stopped; end when all of them are."""
        log.warning("broker was stopped and is left so", broker=one.plan.name)
        self._tell()
        if all(other.state is State.STOPPED for other in self.brokers):
            self._stop_requested.set()

    def _start_failed(self, one: BrokerProcess, code: int) -> None:
        log.error("broker did not start: all are stopped", broker=one.plan.name, ended=one.ended)
        self._code = self._code or (code if code in (FAILED, USAGE) else FAILED)
        self.request_stop()

    def _tell(self) -> None:
        """Tell the service manager the state of the brokers."""
        unready = self.unready()
        restarts = sum(one.restarts for one in self.brokers)
        ready = len(self.brokers) - len(unready)
        status = f"{ready} of {len(self.brokers)} brokers ready, {restarts} restarts"
        self._manager.tell(f"STATUS={'; '.join([status, *unready])}")

    async def _watch(self) -> None:
        """Kill a broker that gives no sign of life, where the service manager has a watchdog."""
        if self._manager.watchdog_s is None:
            return
        while True:
            await trio.sleep(self._manager.watchdog_s / 4)
            for one in self.brokers:
                silent = trio.current_time() - one.heard_at
                if one.state is State.READY and silent > self._manager.watchdog_s:
                    log.error("broker hangs and is killed", broker=one.plan.name, silent_s=silent)
                    one.kill()
