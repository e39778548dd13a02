"""How this broker comes in at others: the account that signs its requests, and TLS.

It asks name servers and other replicas of its name. A master with access control lets an
administrator alone ask for its tables and its log, so replicas have an account there. A server's
certificate is always checked: it must be signed by a trusted authority, and have the name (or
address) that is connected to. The files are read again when they have changed, so the next request
or connection counts by them; an account that cannot be read leaves the old one in force.

Source: Java ``BrokerOuterAPI.registerRPCHook``; ``tls.enable`` and ``tls.client.*`` of its client.
"""

from __future__ import annotations

import ssl

import structlog
import trio

from timermq.remoting.command import Command
from timermq.remoting.credentials import (
    FILE_SIZE_MAX,
    Credentials,
    CredentialsError,
    signed,
)

from ..namesrv.name_server_link import OpenStream
from ..options import BrokerOptions
from .tls import TlsError, client_context, reason_of, said
from .watched_files import read_bounded, stamp_of

log = structlog.get_logger("timermq.broker.security.outward_access")


class OutwardAccess:
    """Account and TLS of one broker towards others.

    Args:
        options: Settings of the broker.
        open_stream: Opens a connection.

    Raises:
        CredentialsError: The file of the account cannot be used.
        TlsError: The certificates cannot be used.
    """

    def __init__(self, options: BrokerOptions, open_stream: OpenStream) -> None:
        self._options = options
        self._open_stream = open_stream
        self._stamp = stamp_of(self._paths)
        self._credentials = _credentials(options.credentials_file)
        if options.replica_tls_enable or options.namesrv_tls_enable:
            _context(options)  # files that cannot be used are an error at the start

    @property
    def _paths(self) -> list[str]:
        path = self._options.credentials_file
        return [] if path is None else [path]

    def sign(self, command: Command) -> Command:
        """The request with the account's signature; as it is, without an account."""
        stamp = stamp_of(self._paths)
        if stamp != self._stamp:
            self._stamp = stamp
            try:
                self._credentials = _credentials(self._options.credentials_file)
            except CredentialsError as error:
                log.error("account not read, the old one stays in force", reason=str(error))
        return signed(command, self._credentials)

    async def open_replica(self, host: str, port: int) -> trio.abc.Stream:
        """A connection to another replica's port for clients.

        Raises:
            OSError: There is none, or no TLS.
        """
        return await self._open(host, port, is_secure=self._options.replica_tls_enable)

    async def open_name_server(self, host: str, port: int) -> trio.abc.Stream:
        """A connection to a name server, which may be the master that is followed.

        Raises:
            OSError: There is none, or no TLS.
        """
        options = self._options
        is_master = options.namesrv_addr is None and options.replica_tls_enable
        return await self._open(host, port, is_secure=options.namesrv_tls_enable or is_master)

    async def _open(self, host: str, port: int, *, is_secure: bool) -> trio.abc.Stream:
        stream = await self._open_stream(host, port)
        if not is_secure:
            return stream
        try:
            context = _context(self._options)
            secure = trio.SSLStream(stream, context, server_hostname=host, https_compatible=True)
            await secure.do_handshake()
        except BaseException as error:
            await trio.aclose_forcefully(stream)
            if isinstance(error, trio.BrokenResourceError):
                raise ConnectionError(f"no TLS: {reason_of(error) or 'closed'}") from None
            if isinstance(error, TlsError):
                raise ConnectionError(f"no TLS: {error}") from None
            raise
        return secure


def _credentials(path: str | None) -> Credentials | None:
    if path is None:
        return None
    try:
        return Credentials.decode(read_bounded(path, FILE_SIZE_MAX))
    except OSError as error:
        raise CredentialsError(f"credentials_file {path}: {said(error)}") from None
    except CredentialsError as error:
        raise CredentialsError(f"credentials_file {path}: {error}") from None


def _context(options: BrokerOptions) -> ssl.SSLContext:
    return client_context(
        options.tls_client_trust_cert_path,
        options.tls_client_cert_path,
        options.tls_client_key_path,
    )
