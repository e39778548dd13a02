"""Servers for a client's tests: at any address, over streams in memory, answering by a script."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Mapping

import attrs
import trio
import trio.testing

from timermq.remoting import Command, FrameConnection, ResponseCode, encode_frame
from timermq.remoting.bodies import HeartbeatData, consumer_list
from timermq.remoting.route_body import BrokerData, QueueData, topic_route
from timermq.timerstore.message import Message, pack_host
from timermq.timerstore.record import encode_record

NAMESRV = "ns:9876"
BROKER = "a:10911"

_ROUTE_LISTS = ("brokerDatas", "queueDatas")

Handler = Callable[[Command], Awaitable[Command | None]]


def always(code: int = ResponseCode.SUCCESS, *, remark: str = "", body: bytes = b"") -> Handler:
    """A handler that answers one thing."""

    async def handle(command: Command) -> Command:
        await trio.lowlevel.checkpoint()
        return command.answer(code, remark=remark or None, body=body)

    return handle


async def silent(_command: Command) -> None:
    """A handler that never answers."""
    await trio.lowlevel.checkpoint()


@attrs.define(eq=False)
class Connection:
    """The server's end of one connection."""

    stream: trio.abc.Stream
    sending: trio.Lock = attrs.Factory(trio.Lock)

    async def push(self, *commands: Command) -> None:
        """Send something of the server's own."""
        async with self.sending:
            await self.stream.send_all(b"".join(map(encode_frame, commands)))


@attrs.define(eq=False)
class Server:
    """What answers at one address."""

    handlers: dict[int, Handler] = attrs.Factory(dict[int, Handler])
    received: list[Command] = attrs.Factory(list[Command])
    """Every request, in order of arrival."""
    connections: list[Connection] = attrs.Factory(list[Connection])
    refuses: bool = False
    """No server listens there."""

    def requests(self, code: int) -> list[Command]:
        """The requests of one code."""
        return [one for one in self.received if one.code == code]


class Network:
    """All servers of a test.

    Args:
        nursery: Where they live.
    """

    def __init__(self, nursery: trio.Nursery) -> None:
        self._nursery = nursery
        self.servers: dict[str, Server] = {}
        self.opened: list[tuple[str, float]] = []
        """Attempts to connect: address and trio's time."""

    def server(self, address: str, handlers: Mapping[int, Handler] | None = None) -> Server:
        """A server at an address."""
        self.servers[address] = server = Server(dict(handlers or {}))
        return server

    async def open_stream(self, host: str, port: int) -> trio.abc.Stream:
        """What a client opens its connections with."""
        address = f"{host}:{port}"
        self.opened.append((address, trio.current_time()))
        await trio.lowlevel.checkpoint()
        server = self.servers.get(address)
        if server is None or server.refuses:
            raise ConnectionRefusedError(f"no broker at {address}")
        theirs, ours = trio.testing.memory_stream_pair()
        connection = Connection(ours)
        server.connections.append(connection)
        self._nursery.start_soon(self._serve, server, connection)
        return theirs

    async def _serve(self, server: Server, connection: Connection) -> None:
        frames = FrameConnection()
        try:
            async with trio.open_nursery() as nursery:
                while data := await connection.stream.receive_some(65_536):
                    frames.receive_data(bytes(data))
                    for command in frames.events():
                        server.received.append(command)
                        nursery.start_soon(self._answer, server, connection, command)
                nursery.cancel_scope.cancel()
        except* (trio.BrokenResourceError, trio.ClosedResourceError):
            pass  # the client or the test has closed it

    async def _answer(self, server: Server, connection: Connection, command: Command) -> None:
        answer = await server.handlers.get(command.code, silent)(command)
        if answer is not None:
            await connection.push(answer)


def route(
    *, address: str = BROKER, broker_name: str = "broker-a", queues: int = 1, perm: int = 6
) -> bytes:
    """The body of a topic's route on one broker."""
    row = QueueData(
        broker_name=broker_name, read_queue_nums=queues, write_queue_nums=queues, perm=perm
    )
    broker = BrokerData(broker_name=broker_name, cluster="C", addresses={0: address})
    return topic_route([row], [broker])


def joined_routes(*routes: bytes) -> bytes:
    """The route of a topic that several brokers have."""
    rows = [json.loads(one) for one in routes]
    joined = {name: [item for row in rows for item in row[name]] for name in _ROUTE_LISTS}
    return json.dumps(joined).encode()


def name_server(network: Network, routes: Mapping[str, bytes], address: str = NAMESRV) -> Server:
    """A name server that knows some topics."""

    async def find(command: Command) -> Command:
        await trio.lowlevel.checkpoint()
        body = routes.get(command.ext["topic"])
        if body is None:
            return command.answer(ResponseCode.TOPIC_NOT_EXIST, remark="no such topic")
        return command.answer(ResponseCode.SUCCESS, body=body)

    return network.server(address, {105: find})


def stored(
    topic: str,
    queue_offset: int,
    *,
    body: bytes = b"",
    properties: str = "",
    queue_id: int = 0,
    sys_flag: int = 0,
) -> bytes:
    """A message as a pull brings it."""
    message = Message(
        topic=topic,
        queue_id=queue_id,
        body=body or b"%d" % queue_offset,
        properties=properties.encode(),
        sys_flag=sys_flag,
        born_ms=1,
        born_host=pack_host("127.0.0.1", 1),
    )
    return encode_record(
        message,
        queue_offset=queue_offset,
        phy_offset=queue_offset * 1000,
        store_ms=2,
        store_host=pack_host("127.0.0.1", 10_911),
    )


class ScriptedBroker:
    """A broker for consumers: what stands in its queues is what a test puts there.

    Args:
        network: Where it is reached.
        address: At which address.
    """

    def __init__(self, network: Network, address: str = BROKER) -> None:
        self.queues: dict[tuple[str, int], list[bytes]] = {}
        """Topic and queue to messages, by offset."""
        self.offsets: dict[tuple[str, int], int] = {}
        """What is committed."""
        self.moved: dict[tuple[str, int], int] = {}
        """Where the next pull is sent to, once."""
        self.members: set[str] = set()
        self.server = network.server(
            address,
            {
                11: self._pull,
                14: self._query_offset,
                15: self._update_offset,
                30: self._max_offset,
                31: self._min_offset,
                34: self._heartbeat,
                35: self._goodbye,
                38: self._consumer_list,
            },
        )
        self._arrived = trio.Event()

    def put(self, *messages: bytes, topic: str = "T", queue_id: int = 0) -> None:
        """Messages arrive in a queue; held pulls wake."""
        self.queues.setdefault((topic, queue_id), []).extend(messages)
        self.wake()

    def wake(self) -> None:
        """Wake the pulls that are held: each looks again at its queue."""
        self._arrived.set()
        self._arrived = trio.Event()

    async def _pull(self, command: Command) -> Command:
        place, offset = _place(command), int(command.ext["queueOffset"])
        if place not in self.moved and offset == len(self.queues.get(place, [])):
            with trio.move_on_after(int(command.ext["suspendTimeoutMillis"]) / 1000):
                await self._arrived.wait()
        if place in self.moved:
            moved = {"nextBeginOffset": str(self.moved.pop(place))}
            return command.answer(ResponseCode.PULL_OFFSET_MOVED, ext=moved)
        messages = self.queues.get(place, [])
        found = messages[offset : offset + int(command.ext["maxMsgNums"])]
        code = ResponseCode.SUCCESS if found else ResponseCode.PULL_NOT_FOUND
        ext = {"nextBeginOffset": str(offset + len(found))}
        return command.answer(code, ext=ext, body=b"".join(found))

    async def _query_offset(self, command: Command) -> Command:
        await trio.lowlevel.checkpoint()
        offset = self.offsets.get(_place(command))
        if offset is None:
            return command.answer(ResponseCode.QUERY_NOT_FOUND)
        return command.answer(ResponseCode.SUCCESS, ext={"offset": str(offset)})

    async def _update_offset(self, command: Command) -> Command:
        await trio.lowlevel.checkpoint()
        self.offsets[_place(command)] = int(command.ext["commitOffset"])
        return command.answer(ResponseCode.SUCCESS)

    async def _max_offset(self, command: Command) -> Command:
        await trio.lowlevel.checkpoint()
        end = len(self.queues.get(_place(command), []))
        return command.answer(ResponseCode.SUCCESS, ext={"offset": str(end)})

    async def _min_offset(self, command: Command) -> Command:
        await trio.lowlevel.checkpoint()
        return command.answer(ResponseCode.SUCCESS, ext={"offset": "0"})

    async def _heartbeat(self, command: Command) -> Command:
        await trio.lowlevel.checkpoint()
        self.members.add(HeartbeatData.decode(command.body).client_id)
        return command.answer(ResponseCode.SUCCESS)

    async def _goodbye(self, command: Command) -> Command:
        await trio.lowlevel.checkpoint()
        self.members.discard(command.ext["clientID"])
        return command.answer(ResponseCode.SUCCESS)

    async def _consumer_list(self, command: Command) -> Command:
        await trio.lowlevel.checkpoint()
        return command.answer(ResponseCode.SUCCESS, body=consumer_list(sorted(self.members)))


def _place(command: Command) -> tuple[str, int]:
    return command.ext["topic"], int(command.ext["queueId"])
