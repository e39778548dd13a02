"""An etcd of a simulation: one key by the JSON gateway, behind lines that fail.

It may be away, or out of reach of some brokers. Single requests are slow, are done though their
sender has given up, and lose their answers before or behind what they do.
"""

from __future__ import annotations

import errno
import json
from collections import Counter
from random import Random
from typing import Any

import h11
import trio

from ..scenario import NetworkPlan
from ..staged.staged_network import StagedNetwork
from ..staged.staged_stream import StagedStream
from .replica_scenario import LeasePlan

PORT = 2_379
_GONE = (trio.BrokenResourceError, trio.ClosedResourceError, h11.RemoteProtocolError)


class StagedEtcd:
    """One etcd, which answers while ``serve`` runs.

    Args:
        draw: Decides what goes wrong.
        plan: How much of it.
        network: How slow its lines are.
        counts: What has gone wrong is counted here.
    """

    def __init__(
        self, draw: Random, plan: LeasePlan, network: NetworkPlan, counts: Counter[str]
    ) -> None:
        self.is_away = False
        """It answers no broker, and no connection comes about."""
        self.parted: set[int] = set()
        """Numbers of the brokers that do not reach it."""
        self._draw = draw
        self._plan = plan
        self._counts = counts
        self._is_calm = False
        self._network = StagedNetwork(draw, network, counts)
        self._streams: dict[StagedStream, int] = {}
        """The brokers' ends, by their numbers."""
        self._kept: dict[str, tuple[str, int]] = {}
        """Key to its value and revision."""
        self._revision = 1

    async def open(self, number: int) -> StagedStream:
        """Open a connection for a broker.

        Raises:
            OSError: The broker does not reach it.

        Cancellation: nothing has changed.
        """
        if self.is_away or number in self.parted:
            if self._draw.random() < 0.5:
                await trio.sleep_forever()
            raise ConnectionRefusedError(errno.ECONNREFUSED, "connection refused")
        stream = await self._network.connect()
        self._streams[stream] = number
        return stream

    def go_away(self) -> None:
        """Answer nothing more; all connections break."""
        self.is_away = True
        self._cut(set(self._streams.values()))

    def part(self, number: int) -> None:
        """Let a broker not reach it."""
        self.parted.add(number)
        self._cut({number})

    def calm(self) -> None:
        """Nothing goes wrong from now on."""
        self._is_calm, self.is_away = True, False
        self.parted.clear()

    async def serve(self) -> None:
        """Answer all brokers until it is cancelled."""
        listener = self._network.listen()
        async with trio.open_nursery() as nursery:
            while True:
                nursery.start_soon(self._answer_all, await listener.accept())

    def _cut(self, numbers: set[int]) -> None:
        for stream, number in list(self._streams.items()):
            if number in numbers or stream.is_broken:
                stream.cut()
                del self._streams[stream]

    async def _answer_all(self, stream: StagedStream) -> None:
        connection = h11.Connection(h11.SERVER)
        try:
            while (asked := await _next_request(connection, stream)) is not None:
                target, fields = asked
                answer = await self._answer(target, fields)
                if answer is None:
                    stream.cut()
                    return
                await stream.send_all(_response(connection, answer))
                connection.start_next_cycle()
        except _GONE:
            return

    async def _answer(self, target: str, fields: dict[str, Any]) -> dict[str, Any] | None:
        """The answer; None: it is lost on its way, or the request was."""
        plan, chance = self._plan, self._draw.random()
        if self._is_calm or chance >= plan.slow + 2 * plan.lost:
            return self._do(target, fields)
        if chance < plan.slow:
            self._counts["etcd: slow"] += 1
            await trio.sleep(self._draw.uniform(0, plan.slow_max_ms) / 1000)
            return self._do(target, fields)
        if chance < plan.slow + plan.lost:
            self._counts["etcd: answers lost"] += 1
            self._do(target, fields)
        else:
            self._counts["etcd: requests lost"] += 1
        return None

    def _do(self, target: str, fields: dict[str, Any]) -> dict[str, Any]:
        if target == "/v3/kv/range":
            return {"header": self._header(), **self._range(fields["key"])}
        assert target == "/v3/kv/txn", f"a request that etcd does not know here: {target}"
        (compare,), (success,) = fields["compare"], fields["success"]
        put = success["request_put"]
        if str(self._kept.get(compare["key"], ("", 0))[1]) == compare["mod_revision"]:
            self._revision += 1
            self._kept[put["key"]] = put["value"], self._revision
            return {
                "header": self._header(),
                "succeeded": True,
                "responses": [{"response_put": {"header": self._header()}}],
            }
        kept = self._range(put["key"])
        return {"header": self._header(), "responses": [{"response_range": kept}]}

    def _header(self) -> dict[str, str]:
        return {"revision": f"{self._revision}"}

    def _range(self, key: str) -> dict[str, Any]:
        """As etcd answers: fields that are empty are left out."""
        if key not in self._kept:
            return {}
        value, revision = self._kept[key]
        row = {"key": key, "value": value, "mod_revision": f"{revision}"}
        return {"kvs": [row], "count": "1"}


async def _next_request(
    connection: h11.Connection, stream: StagedStream
) -> tuple[str, dict[str, Any]] | None:
    """Path and body of the next request; None at the end of the connection."""
    target, body = "", bytearray()
    while True:
        event = connection.next_event()
        if event is h11.NEED_DATA:
            connection.receive_data(await stream.receive_some())
        elif isinstance(event, h11.Request):
            target = event.target.decode()
        elif isinstance(event, h11.Data):
            body += event.data
        elif isinstance(event, h11.EndOfMessage):
            return target, json.loads(body)
        else:
            return None


def _response(connection: h11.Connection, fields: dict[str, Any]) -> bytes:
    body = json.dumps(fields).encode()
    head = h11.Response(status_code=200, headers=[("content-length", f"{len(body)}")])
    parts = (head, h11.Data(data=body), h11.EndOfMessage())
    return b"".join(connection.send(one) or b"" for one in parts)
