"""What is done to a broker: killed, stopped, ended in order, its disk filled.

Each of its lives flushes in another way than the last.
"""

from __future__ import annotations

import itertools
import random
import signal
import time
from functools import partial
from pathlib import Path
from typing import Literal

import trio

from interop.serving import Broker, free_port, start
from timermq.client.history import Crash, Fault, HistoryWriter, Start

from . import cleaning
from .small_disk import SmallDisk

FLUSHES: tuple[Literal["ASYNC_FLUSH", "SYNC_FLUSH"], ...] = ("ASYNC_FLUSH", "SYNC_FLUSH")
SETTINGS = {
    "mapped_file_size_commit_log": 1 << 20,
    "mapped_file_size_consume_queue": 20_000,
    "mapped_file_size_timer_log": 52 * 1_000 + 16,
    "timer_roll_window_slot": 4,
    "max_hash_slot_num": 1_000,
    "max_index_num": 4_000,
    "max_message_size": 1 << 18,
    "disk_max_used_space_ratio": 100,
    "disk_space_clean_forcibly_ratio": 100,
}
"""Small files and rolls after four seconds; nothing is cleaned away before it was judged, unless
cleaning is forced."""
STOP_SECONDS = (2.5, 5.0)
"""Longer than the clients' time-outs of two seconds."""
FULL_SECONDS = (1.0, 5.0)
PAUSE_SECONDS = (0.5, 5.0)


class BrokerEndedError(Exception):
    """A broker ended by itself, or not in order when it was asked to."""


class Trouble:
    """A broker and everything that happens to it.

    Args:
        store: Its directory.
        history: Takes what is done.
        draw: Decides it.
        log: Takes what the brokers say; not on the disk that is filled.
        disk: The disk of the store, if it can be filled.
        cleans: Whether cleaning is forced; then the store is checked each time that it ended.
    """

    def __init__(
        self,
        store: Path,
        history: HistoryWriter,
        draw: random.Random,
        *,
        log: Path,
        disk: SmallDisk | None,
        cleans: bool = False,
    ) -> None:
        self._history = history
        self._draw = draw
        self._disk = disk
        self._flushes = itertools.cycle(FLUSHES)
        self._ports = {
            "listen": f"127.0.0.1:{free_port()}",
            "namesrv": f"127.0.0.1:{free_port()}",
        }
        self._store = store
        self._log = log
        self._broker: Broker | None = None
        self._cleans = cleans
        settings = {**SETTINGS, **cleaning.SETTINGS} if cleans else SETTINGS
        self._flags = [f"--set={name}={value}" for name, value in settings.items()]

    @property
    def namesrv(self) -> str:
        """The address of the broker's name server: ``host:port``."""
        return self._ports["namesrv"]

    async def start(self) -> None:
        """Start the broker; on a full disk it may wait until there is room again."""
        flush = next(self._flushes)
        flags = [*self._flags, f"--set=flush_disk_type={flush}"]
        begin = partial(start, self._store, *flags, **self._ports, log=self._log)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self._make_room)
            self._broker = await trio.to_thread.run_sync(begin)
            nursery.cancel_scope.cancel()
        self._history.write(
            Start(at_ms=self._history.clock_ms(), who=self._history.who, flush=flush)
        )

    async def run(self) -> None:
        """One thing after the other, for ever."""
        actions = [self._kill, self._kill, self._kill, self._stop, self._end]
        if self._disk is not None:
            actions += [self._fill, self._fill, self._fill]
        while True:
            await trio.sleep(self._draw.uniform(*PAUSE_SECONDS))
            await self._draw.choice(actions)()

    async def settle(self) -> None:
        """The broker runs, and nothing more is done to it."""
        self._free()
        if self._broker is None:
            await self.start()
        else:
            self._running().process.send_signal(signal.SIGCONT)

    def finish(self) -> int:
        """End it in order; returns the exit code.

        Raises:
            PinBrokenError: Cleaning was forced, and took what is needed.
        """
        code = self._running().stop()
        self._check_store()
        return code

    def end_now(self) -> None:
        """Leave no process behind, whatever has happened."""
        if self._broker is not None and self._broker.process.poll() is None:
            self._broker.kill()

    # -- what is done ---------------------------------------------------------------------------

    async def _kill(self) -> None:
        self._running().kill()
        self._broker = None
        self._history.write(
            Crash(at_ms=self._history.clock_ms(), who=self._history.who, kind="kill")
        )
        await self.start()

    async def _stop(self) -> None:
        process = self._running().process
        self._fault("stop")
        process.send_signal(signal.SIGSTOP)
        await trio.sleep(self._draw.uniform(*STOP_SECONDS))
        if self._draw.random() < 0.25:
            await self._kill()
            return
        process.send_signal(signal.SIGCONT)
        self._fault("continue")

    async def _end(self) -> None:
        code = await trio.to_thread.run_sync(self._running().stop)
        if code != 0:
            raise BrokerEndedError(f"asked to stop it ended with {code}: {self._last_line()}")
        self._broker = None
        self._fault("end")
        await trio.to_thread.run_sync(self._check_store)
        await self.start()

    async def _fill(self) -> None:
        assert self._disk is not None
        self._disk.fill()
        self._fault("disk_full")
        until = time.monotonic() + self._draw.uniform(*FULL_SECONDS)
        while time.monotonic() < until:  # what the broker gives back is taken too
            self._disk.fill()
            await trio.sleep(0.1)
        if self._draw.random() < 0.3:
            await self._kill()
        self._free()

    async def _make_room(self) -> None:
        await trio.sleep(self._draw.uniform(*FULL_SECONDS))
        self._free()

    def _check_store(self) -> None:
        if self._cleans:
            cleaning.check_store(self._store, self._flags)

    def _free(self) -> None:
        if self._is_full():
            assert self._disk is not None
            self._disk.free()
            self._fault("disk_free")

    def _is_full(self) -> bool:
        return self._disk is not None and self._disk.is_filled

    def _running(self) -> Broker:
        assert self._broker is not None, "started"
        code = self._broker.process.poll()
        if code is not None:
            raise BrokerEndedError(f"it ended by itself with {code}: {self._last_line()}")
        return self._broker

    def _last_line(self) -> str:
        return self._log.read_text().strip().rpartition("\n")[2]

    def _fault(self, kind: str, text: str = "") -> None:
        at_ms, who = self._history.clock_ms(), self._history.who
        self._history.write(Fault(at_ms=at_ms, who=who, kind=kind, text=text))
