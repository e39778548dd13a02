"""One client of a crowd, and the requests that it sends."""

from __future__ import annotations

import json
from collections.abc import Mapping

import attrs
import trio
from served import Server

from timermq.remoting import Command, FrameConnection, RequestCode
from timermq.remoting.connection import encode_frame

QUEUES = 16
"""Of a topic."""
SUSPEND_MS = 15_000
"""A client lets a pull be held for so long."""


@attrs.define(eq=False)
class Client:
    """One connection that asks and takes answers."""

    stream: trio.SocketStream
    opaque: int = 0
    frames: FrameConnection = attrs.Factory(FrameConnection)
    answers: list[Command] = attrs.Factory(list[Command])
    notices: int = 0
    """That a group has changed."""

    @classmethod
    async def connect(cls, server: Server) -> Client:
        """A client on a new connection to the broker."""
        return cls(await trio.open_tcp_stream("127.0.0.1", server.port))

    def frame(self, code: int, ext: Mapping[str, str], body: bytes = b"") -> bytes:
        """A request with the next opaque."""
        self.opaque += 1
        return encode_frame(Command(code, opaque=self.opaque, ext=dict(ext), body=body))

    async def receive(self) -> Command:
        """The next answer; what the broker says by itself is counted."""
        while not self.answers:
            await self._receive_more()
        return self.answers.pop(0)

    async def notice(self, after: int) -> None:
        """Wait until a group has changed more often than ``after`` times."""
        while self.notices <= after:
            await self._receive_more()

    async def _receive_more(self) -> None:
        self.frames.receive_data(bytes(await self.stream.receive_some(65_536)))
        for one in self.frames.events():
            if one.is_response:
                self.answers.append(one)
            elif one.code == RequestCode.NOTIFY_CONSUMER_IDS_CHANGED:
                self.notices += 1

    async def call(self, code: int, ext: Mapping[str, str], body: bytes = b"") -> Command:
        """The answer to one request."""
        await self.stream.send_all(self.frame(code, ext, body))
        return await self.receive()


def send_ext(topic: str, queue_id: int, properties: str = "") -> dict[str, str]:
    """The parameters of a send."""
    return {
        "producerGroup": "P", "topic": topic, "defaultTopic": "TBW102",
        "defaultTopicQueueNums": str(QUEUES), "queueId": str(queue_id), "sysFlag": "0",
        "bornTimestamp": "0", "flag": "0", "properties": properties,
    }  # fmt: skip


def pull_ext(topic: str, queue_id: int, group: str, offset: int) -> dict[str, str]:
    """The parameters of a pull that may be held."""
    return {
        "consumerGroup": group, "topic": topic, "queueId": str(queue_id),
        "queueOffset": str(offset), "maxMsgNums": "32", "sysFlag": "6", "commitOffset": "0",
        "suspendTimeoutMillis": str(SUSPEND_MS), "subVersion": "0", "subscription": "*",
        "expressionType": "TAG",
    }  # fmt: skip


def heartbeat(client_id: str, group: str, topic: str, version: int) -> bytes:
    """What a Java consumer says of itself."""
    subscription = {"topic": topic, "subString": "*", "subVersion": version}
    group_data = {
        "groupName": group,
        "consumeType": "CONSUME_PASSIVELY",
        "messageModel": "CLUSTERING",
        "consumeFromWhere": "CONSUME_FROM_LAST_OFFSET",
        "subscriptionDataSet": [subscription],
    }
    whole = {"clientID": client_id, "producerDataSet": [], "consumerDataSet": [group_data]}
    return json.dumps(whole).encode()
