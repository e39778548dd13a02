"""The notices for systemd, or another supervisor of its kind: ready, alive, stopping.

Source: sd_notify(3), sd_watchdog_enabled(3): datagrams to the socket that ``NOTIFY_SOCKET`` names.
"""

from __future__ import annotations

import os
import socket
from collections.abc import Mapping

import attrs
import structlog
import trio

log = structlog.get_logger("timermq.cli.service_manager")


@attrs.frozen
class ServiceManager:
    """The supervisor that wants to be told; most processes have none."""

    address: str | None
    """A path, or an abstract name that begins with ``@``; None: no supervisor."""
    watchdog_s: float | None
    """Without a sign of life for so long the process is ended; None: it is not watched."""

    @classmethod
    def of(cls, environ: Mapping[str, str]) -> ServiceManager:
        """The supervisor of the environment; the watchdog counts only if it means this process."""
        usec, pid = environ.get("WATCHDOG_USEC", ""), environ.get("WATCHDOG_PID")
        is_watched = usec.isdecimal() and int(usec) > 0 and pid in (None, str(os.getpid()))
        return cls(
            address=environ.get("NOTIFY_SOCKET") or None,
            watchdog_s=int(usec) / 1e6 if is_watched else None,
        )

    def tell(self, state: str) -> None:
        """Send one assignment, ``READY=1``; a missing listener is logged and changes nothing."""
        if self.address is None:
            return
        name = f"\0{self.address[1:]}" if self.address.startswith("@") else self.address
        try:
            with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC) as sender:
                sender.setblocking(False)
                sender.connect(name)
                sender.send(state.encode())
        except OSError as error:
            log.warning("service manager not told", state=state, error=str(error))

    async def keep_watch(self) -> None:
        """Give a sign of life at twice the pace that is asked for, until cancelled.

        It comes from the loop that moves the messages: a process that hangs gives none.
        """
        if self.address is None or self.watchdog_s is None:
            return
        while True:
            self.tell("WATCHDOG=1")
            await trio.sleep(self.watchdog_s / 2)
