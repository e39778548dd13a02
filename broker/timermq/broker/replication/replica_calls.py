"""Requests of this broker to other replicas of its name: which leads, what one has, to change over.

Each request has a connection of its own: they are few, and a replica that has gone is noticed at
once.
"""

from __future__ import annotations

import trio

from timermq.remoting.bodies import BodyFormatError
from timermq.remoting.codes import VERSION, LanguageCode, RequestCode, ResponseCode
from timermq.remoting.command import Command
from timermq.remoting.connection import FrameConnection
from timermq.remoting.epoch_report import EpochReport
from timermq.remoting.errors import RemoteProtocolError
from timermq.remoting.query_header import ViewMessageHeader
from timermq.remoting.replica_header import LogDigestHeader, PromoteHeader, RoleChangeHeader
from timermq.remoting.request_header import RequestHeader
from timermq.timerstore.errors import StoreFormatError
from timermq.timerstore.fastjson import parse_json

from ..config_fields import ConfigFields, ConfigTableError
from ..namesrv.name_server_link import OpenStream, Sign, unsigned
from ..security.outward_access import OutwardAccess

CALL_TIMEOUT = 3.0
"""Seconds for connection and answer, as RocketMQ gives its controllers."""
HANDOVER_TIMEOUT = 20.0
"""Seconds for a follower to get what is missing, and to lead."""
RECEIVE_SIZE = 65_536


class NoReplicaError(Exception):
    """A replica is not there, or its answer is none; the message says which and why."""


class ReplicaRefusedError(Exception):
    """A replica refuses; ``code`` is that of its answer, the message its remark."""

    def __init__(self, address: str, code: int, remark: str) -> None:
        super().__init__(f"{address}: {remark}")
        self.code = code


class ReplicaCalls:
    """Asks other replicas.

    Args:
        open_stream: Opens a connection to a replica.
        open_name_server: The same to a name server; None: as to a replica.
        sign: Signs the requests.
    """

    def __init__(
        self,
        open_stream: OpenStream,
        *,
        open_name_server: OpenStream | None = None,
        sign: Sign = unsigned,
    ) -> None:
        self.open_stream = open_stream
        """As it was given."""
        self._open_name_server = open_name_server or open_stream
        self._sign = sign

    @classmethod
    def of(cls, access: OutwardAccess) -> ReplicaCalls:
        """Requests with the account of a broker, and over TLS where it asks for that."""
        return cls(access.open_replica, open_name_server=access.open_name_server, sign=access.sign)

    async def epochs(self, address: str) -> EpochReport:
        """The epochs of a replica, its log and its role (1007).

        Raises:
            NoReplicaError: It does not answer.
            ReplicaRefusedError: It has no epochs, as RocketMQ without a controller.
        """
        answer = await self._call(address, RequestCode.GET_BROKER_EPOCH_CACHE)
        try:
            return EpochReport.decode(answer.body)
        except BodyFormatError as error:
            raise NoReplicaError(f"{address}: {error.remark}") from error

    async def record(self, address: str, position: int) -> bytes | None:
        """The record of its log that begins at a position, without its origin; None without (33).

        Raises:
            NoReplicaError: It does not answer.
        """
        try:
            header = ViewMessageHeader(offset=position)
            return (await self._call(address, RequestCode.VIEW_MESSAGE_BY_ID, header)).body
        except ReplicaRefusedError:
            return None

    async def digest(self, address: str, offset: int, size: int) -> str | None:
        """The digest of bytes of its log; None where it has not all of them (9032).

        Raises:
            NoReplicaError: It does not answer.
        """
        header = LogDigestHeader(offset=offset, size=size)
        try:
            answer = await self._call(address, RequestCode.LOG_DIGEST, header)
        except ReplicaRefusedError:
            return None
        return answer.ext.get("digest")

    async def promote(self, address: str, *, offset: int, epoch: int) -> EpochReport:
        """Hand the lead over; its epochs, once it leads (9030).

        Args:
            address: Of the follower.
            offset: End of the log that it must have.
            epoch: Number of this broker's epoch.

        Raises:
            NoReplicaError: It does not answer: it may lead or not.
            ReplicaRefusedError: It does not lead.
        """
        header = PromoteHeader(offset=offset, epoch=epoch)
        answer = await self._call(address, RequestCode.PROMOTE, header, timeout=HANDOVER_TIMEOUT)
        try:
            return EpochReport.decode(answer.body)
        except BodyFormatError as error:
            raise NoReplicaError(f"{address}: {error.remark}") from error

    async def brokers(self, server: str, name: str, *, is_replica: bool = False) -> dict[str, int]:
        """Addresses of the brokers of a name to their ids, as a name server has them (106).

        Args:
            server: Its address.
            name: Name of the brokers.
            is_replica: It is another replica's port for clients.

        Raises:
            NoReplicaError: It does not answer.
        """
        try:
            answer = await self._call(
                server,
                RequestCode.GET_BROKER_CLUSTER_INFO,
                open_stream=None if is_replica else self._open_name_server,
            )
            info = ConfigFields("cluster info", parse_json(answer.body.decode(), "cluster info"))
            table = info.fields("brokerAddrTable")
            return {
                address: int(broker_id)
                for one, broker in table.objects()
                if one == name
                for broker_id, address in broker.texts("brokerAddrs").items()
            }
        except (ReplicaRefusedError, ValueError, StoreFormatError, ConfigTableError) as error:
            raise NoReplicaError(f"{server}: {error}") from error

    async def tell(self, address: str, *, master: str, epoch: int) -> None:
        """Tell a replica which one leads; returns when it does not lead any more (1008).

        Raises:
            NoReplicaError: It does not answer.
            ReplicaRefusedError: It knows a higher epoch.
        """
        header = RoleChangeHeader(master_address=master, master_epoch=epoch)
        await self._call(address, RequestCode.NOTIFY_BROKER_ROLE_CHANGED, header)

    async def _call(
        self,
        address: str,
        code: RequestCode,
        header: RequestHeader | None = None,
        *,
        timeout: float = CALL_TIMEOUT,
        open_stream: OpenStream | None = None,
    ) -> Command:
        command = Command(
            code,
            opaque=1,
            language=LanguageCode.JAVA,
            version=VERSION,
            ext={} if header is None else header.to_ext(),
        )
        answer = None
        try:
            with trio.move_on_after(timeout):
                answer = await self._exchange(address, self._sign(command), open_stream)
        except (OSError, UnicodeError, ValueError, trio.BrokenResourceError) as error:
            raise NoReplicaError(f"{address}: {str(error) or type(error).__name__}") from error
        except RemoteProtocolError as error:
            raise NoReplicaError(f"{address}: {error.remark}") from error
        if answer is None:
            raise NoReplicaError(f"{address}: no answer within {timeout:.0f} s")
        if answer.code != ResponseCode.SUCCESS:
            raise ReplicaRefusedError(address, answer.code, answer.remark or "")
        return answer

    async def _exchange(
        self, address: str, command: Command, open_stream: OpenStream | None
    ) -> Command:
        host, _, port = address.rpartition(":")
        stream = await (open_stream or self.open_stream)(host.strip("[]"), int(port))
        async with stream:
            frames = FrameConnection()
            await stream.send_all(frames.encode(command))
            while data := await stream.receive_some(RECEIVE_SIZE):
                frames.receive_data(bytes(data))
                for one in frames.events():
                    if one.is_response:
                        return one
        raise ConnectionError("the connection was closed")
