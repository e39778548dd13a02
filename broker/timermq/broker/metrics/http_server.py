"""HTTP for the operator's programs: the page of metrics, and whether the broker lives and is ready.

``GET`` and ``HEAD`` of three paths, HTTP/1.1 with connections that stay open; everything else is
refused, and so is a foreign host (``is_asked_for``). Nothing here changes anything, and there is no
login: listen where only operators are.

    /metrics    Prometheus text, `metrics_page`
    /healthz    200 while the process works: this answer came from the loop that moves messages
    /readyz     200 while sends are taken, else 503 and why not
"""

from __future__ import annotations

import ipaddress
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from typing import Protocol

import attrs
import h11
import structlog
import trio

from ..pool import Pool
from ..security.failed_logins import peer_of
from ..security.log_limit import LogLimit
from .metrics_page import CONTENT_TYPE, MetricsPage

EVENT_SIZE_MAX = 16_384
"""Bytes of a request's head."""
BODY_SIZE_MAX = 65_536
"""Bytes of a request's body, which is not looked at."""
RECEIVE_SIZE = 16_384
REQUEST_TIMEOUT = 90.0
"""Seconds from one answer of a connection until the next has been taken: Prometheus asks once a
minute, and what trickles is cut off."""
FIRST_REQUEST_TIMEOUT = 10.0
"""Seconds until the first answer has been taken: who connects here has something to ask."""
TEXT = "text/plain; charset=utf-8"

log = structlog.get_logger("timermq.broker.metrics.http_server")


@attrs.frozen(kw_only=True)
class Page:
    """A page and its status, before it is sent."""

    status: int
    body: bytes
    content_type: str = TEXT


class PageSource(Protocol):
    """The pages that a server has."""

    async def get(self, path: str) -> Page:
        """The page of a path; 404 for one that is not there."""
        ...


@attrs.define(eq=False, kw_only=True)
class Pages:
    """The pages to read.

    Args:
        metrics: The page of metrics.
        unready: Why sends are not taken; None when they are.
    """

    metrics: MetricsPage
    unready: Callable[[], str | None]

    async def get(self, path: str) -> Page:
        """The page of a path."""
        pages: Mapping[str, Callable[[], Awaitable[Page]]] = {
            "/metrics": self._metrics,
            "/healthz": self._healthz,
            "/readyz": self._readyz,
        }
        make = pages.get(path)
        if make is None:
            return Page(status=404, body=f"expected one of {', '.join(pages)}\n".encode())
        return await make()

    async def _metrics(self) -> Page:
        return Page(status=200, body=await self.metrics.text(), content_type=CONTENT_TYPE)

    async def _healthz(self) -> Page:
        await trio.lowlevel.checkpoint()
        return Page(status=200, body=b"ok\n")

    async def _readyz(self) -> Page:
        await trio.lowlevel.checkpoint()
        reason = self.unready()
        if reason is None:
            return Page(status=200, body=b"ready\n")
        return Page(status=503, body=f"{reason}\n".encode())


class HttpServer:
    """The connections of the operator's programs.

    Args:
        pages: What there is to read.
        connections_max: Open connections; one more is closed at once. An address may have as many
            as are left for others.
        names: Names with a dot that are answered for, see ``is_asked_for``.
    """

    def __init__(self, pages: PageSource, *, connections_max: int, names: Collection[str]) -> None:
        self._pages = pages
        self._names = names
        self._shares = Pool(lambda: connections_max)
        self._log_limit = LogLimit()

    async def run(
        self,
        listeners: Sequence[trio.SocketListener],
        *,
        task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED,
    ) -> None:
        """Serve until cancelled; listeners and connections are closed then."""
        async with trio.open_nursery() as nursery:
            await nursery.start(trio.serve_listeners, self.serve, list(listeners))
            task_status.started()

    async def serve(self, stream: trio.abc.Stream) -> None:
        """Serve one connection until it ends; errors of its peer end only it."""
        try:
            peer = _peer_of(stream)
        except OSError:  # reset before it was accepted
            await trio.aclose_forcefully(stream)
            return
        if not self._shares.take(peer):
            if count := self._log_limit.take():
                log.warning("connections turned away", port="metrics", remote=peer, count=count)
            await trio.aclose_forcefully(stream)
            return
        try:
            await self._serve(stream)
        except (trio.BrokenResourceError, trio.ClosedResourceError):
            pass  # the peer is gone, and with it whom to tell
        except Exception:
            # Looking on must not end the broker.
            log.exception("page not given")
        finally:
            self._shares.give_back(peer)
            await trio.aclose_forcefully(stream)

    async def _serve(self, stream: trio.abc.Stream) -> None:
        connection = h11.Connection(h11.SERVER, max_incomplete_event_size=EVENT_SIZE_MAX)
        timeout = FIRST_REQUEST_TIMEOUT
        while True:
            with trio.move_on_after(timeout) as waiting:
                try:
                    page, is_head = await self._request(connection, stream)
                except h11.RemoteProtocolError as error:
                    page, is_head = Page(status=error.error_status_hint, body=b"not HTTP\n"), False
                if page is None:
                    return
                await _send(connection, stream, page, is_head=is_head)
                if {connection.our_state, connection.their_state} != {h11.DONE}:
                    return
                connection.start_next_cycle()
                timeout = REQUEST_TIMEOUT
            if waiting.cancelled_caught:
                return

    async def _request(
        self, connection: h11.Connection, stream: trio.abc.Stream
    ) -> tuple[Page | None, bool]:
        """The answer to the next request, None when none comes; and whether only its head is."""
        request: h11.Request | None = None
        body_size = 0
        while True:
            event = connection.next_event()
            if event is h11.NEED_DATA:
                connection.receive_data(bytes(await stream.receive_some(RECEIVE_SIZE)))
            elif isinstance(event, h11.Request):
                request = event
            elif isinstance(event, h11.Data):
                body_size += len(event.data)
                if body_size > BODY_SIZE_MAX:
                    raise h11.RemoteProtocolError("body too large", 413)
            elif isinstance(event, h11.EndOfMessage):
                assert request is not None
                return await self._page(request), request.method == b"HEAD"
            else:  # the connection is closed, or the peer wants another protocol
                return None, False

    async def _page(self, request: h11.Request) -> Page:
        if request.method not in (b"GET", b"HEAD"):
            return Page(status=405, body=b"expected GET or HEAD\n")
        asked = next((value for name, value in request.headers if name == b"host"), None)
        host = None if asked is None else asked.decode("latin-1")
        if not is_asked_for(host, self._names):
            text = f"no host of this broker's: {ascii(host)[:130]} (metrics_hosts)\n"
            return Page(status=421, body=text.encode())
        path, _, _ = request.target.partition(b"?")
        return await self._pages.get(path.decode("ascii"))


def _peer_of(stream: trio.abc.Stream) -> str:
    """The address that a connection's share goes by; empty for one that is no socket.

    Raises:
        OSError: The connection is gone already.
    """
    if not isinstance(stream, trio.SocketStream):
        return ""
    host, port = stream.socket.getpeername()[:2]
    return peer_of(f"{host}:{port}")


async def _send(
    connection: h11.Connection, stream: trio.abc.Stream, page: Page, *, is_head: bool
) -> None:
    if connection.our_state not in (h11.IDLE, h11.SEND_RESPONSE):
        return
    headers = [
        ("content-type", page.content_type),
        ("content-length", str(len(page.body))),
        ("cache-control", "no-store"),
    ]
    if page.status == 405:
        headers.append(("allow", "GET, HEAD"))
    data = connection.send(h11.Response(status_code=page.status, headers=headers)) or b""
    if not is_head:
        data += connection.send(h11.Data(data=page.body)) or b""
    data += connection.send(h11.EndOfMessage()) or b""
    await stream.send_all(data)


ALL = "*"


def is_asked_for(host: str | None, names: Collection[str]) -> bool:
    """Whether a request means this broker, by its header ``Host``.

    Any page can have its own name lead to this address (DNS rebinding): the browser of an operator
    who opens it would then read pages that are for operators only. Such a request has the name of
    that page. Programs that mean this broker have its address, a short name, or a name in settings.

    Args:
        host: The header, with or without a port; None: HTTP/1.0 has none, and no browser speaks it.
        names: Names with a dot that lead here, in small letters; ``*`` is any.
    """
    if host is None or ALL in names:
        return True
    name = _without_port(host.strip().lower()).rstrip(".")
    return "." not in name or _is_address(name) or name.endswith(".localhost") or name in names


def _without_port(host: str) -> str:
    if host.startswith("["):
        return host[1:].partition("]")[0]
    return host.partition(":")[0] if host.count(":") == 1 else host


def _is_address(name: str) -> bool:
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return False
    return True
