"""One page of metrics for all brokers of a machine, and whether all of them are ready.

The page has the series of each broker's own page; the label ``node_id`` is the broker's name. A
broker whose page cannot be read is left out, and its ``timermq_broker_up`` is 0.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import attrs
import h11
import structlog
import trio

from timermq.broker.metrics.http_server import Page
from timermq.broker.metrics.metrics_page import CONTENT_TYPE
from timermq.client.link import split_address

from .supervised_process import BrokerProcess, State
from .supervisor import Supervisor

PAGE_TIMEOUT = 5.0
"""Seconds that a broker has for its page. Prometheus waits longer, ten by default."""
PAGE_SIZE_MAX = 64 << 20
"""Bytes of one broker's page."""
RECEIVE_SIZE = 65_536

log = structlog.get_logger("timermq.cli.joined_metrics")


@attrs.frozen
class JoinedPages:
    """The pages of a supervisor.

    Args:
        supervisor: Of the brokers.
        cluster: Name of their cluster.
    """

    supervisor: Supervisor
    cluster: str

    async def get(self, path: str) -> Page:
        """The page of a path."""
        match path:
            case "/metrics":
                return await self._metrics()
            case "/healthz":
                return Page(status=200, body=b"ok\n")
            case "/readyz":
                return await self._readyz()
            case _:
                return Page(status=404, body=b"expected one of /metrics, /healthz, /readyz\n")

    async def _readyz(self) -> Page:
        unready = self.supervisor.unready()

        async def ask(one: BrokerProcess) -> None:
            status, text = await read_page(one, "/readyz") or (503, "no answer")
            if status != 200:
                unready.append(f"{one.plan.name}: {text.strip()}")

        async with trio.open_nursery() as nursery:
            for one in self.supervisor.brokers:
                if one.state is State.READY:
                    nursery.start_soon(ask, one)
        text = "\n".join(sorted(unready)) if unready else "ready"
        return Page(status=503 if unready else 200, body=f"{text}\n".encode())

    async def _metrics(self) -> Page:
        pages: dict[str, str] = {}

        async def read(one: BrokerProcess) -> None:
            page = await read_page(one, "/metrics")
            if page is not None and page[0] == 200:
                pages[one.plan.name] = page[1]

        async with trio.open_nursery() as nursery:
            for one in self.supervisor.brokers:
                nursery.start_soon(read, one)
        ours = self._of_supervisor(pages)
        body = join_pages([ours, *(pages[name] for name in sorted(pages))])
        return Page(status=200, body=body.encode(), content_type=CONTENT_TYPE)

    def _of_supervisor(self, pages: Mapping[str, str]) -> str:
        """The series that the supervisor adds: which brokers are up, and their restarts."""
        brokers = self.supervisor.brokers
        up = {one.plan.name: int(one.plan.name in pages) for one in brokers}
        restarts = {one.plan.name: one.restarts for one in brokers}
        return "".join(
            f"# HELP {name} {text}\n# TYPE {name} {kind}\n"
            + "".join(
                f'{name}{{cluster="{self.cluster}",node_type="broker",node_id="{node}"}} {value}\n'
                for node, value in values.items()
            )
            for name, text, kind, values in (
                ("timermq_broker_up", "Whether the broker gives its metrics", "gauge", up),
                (
                    "timermq_broker_restarts_total",
                    "Times that the supervisor has started the broker again",
                    "counter",
                    restarts,
                ),
            )
        )


def join_pages(pages: Sequence[str]) -> str:
    """Pages of metrics as one: each family once, with the series of all pages behind its head.

    Args:
        pages: In Prometheus' text format, as its library writes it: a family begins with HELP.
    """
    heads: dict[str, list[str]] = {}
    series: dict[str, list[str]] = {}
    for page in pages:
        name = ""
        is_new = False
        for line in page.splitlines():
            if line.startswith("# HELP "):
                name = line.split(" ", 3)[2]
                is_new = name not in heads
                heads.setdefault(name, [])
            if line.startswith("#"):
                if is_new:
                    heads[name].append(line)
            elif line:
                series.setdefault(name, []).append(line)
    return "".join(f"{line}\n" for name in heads for line in (*heads[name], *series.get(name, ())))


async def read_page(one: BrokerProcess, path: str) -> tuple[int, str] | None:
    """Status and text of a broker's page; None, and a line in the log, if it cannot be read.

    Cancellation: the connection is closed.
    """
    if one.metrics is None or one.state is not State.READY:
        return None
    try:
        with trio.fail_after(PAGE_TIMEOUT):
            status, body = await _get(one.metrics, path)
            return status, body.decode()
    except (OSError, trio.TooSlowError, trio.BrokenResourceError, h11.RemoteProtocolError) as error:
        reason = str(error) or f"no answer within {PAGE_TIMEOUT:g} s"
        log.warning("no page of a broker", broker=one.plan.name, path=path, error=reason)
        return None


async def _get(address: str, path: str) -> tuple[int, bytes]:
    """Status and body of a page.

    Raises:
        OSError: There is no connection.
        trio.BrokenResourceError: It broke.
        h11.RemoteProtocolError: The answer is no page, or too large.
    """
    connection = h11.Connection(h11.CLIENT)
    headers = [("host", address), ("connection", "close")]
    request = connection.send(h11.Request(method="GET", target=path, headers=headers)) or b""
    request += connection.send(h11.EndOfMessage()) or b""
    status, body = 0, bytearray()
    async with await trio.open_tcp_stream(*split_address(address)) as stream:
        await stream.send_all(request)
        while True:
            event = connection.next_event()
            if event is h11.NEED_DATA:
                connection.receive_data(bytes(await stream.receive_some(RECEIVE_SIZE)))
            elif isinstance(event, h11.Response):
                status = event.status_code
            elif isinstance(event, h11.Data):
                body += event.data
                if len(body) > PAGE_SIZE_MAX:
                    raise h11.RemoteProtocolError(f"expected at most {PAGE_SIZE_MAX} bytes")
            elif isinstance(event, h11.EndOfMessage):
                return status, bytes(body)
