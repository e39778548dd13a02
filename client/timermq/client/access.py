"""How a client comes in: an account that signs its requests, and TLS."""

from __future__ import annotations

import ssl
from collections.abc import Awaitable, Callable

import attrs
import trio

from timermq.remoting import Command
from timermq.remoting.signature import (
    ACCESS_KEY,
    SECURITY_TOKEN,
    SIGNATURE,
    SigningKey,
    signed_content,
)

OpenStream = Callable[[str, int], Awaitable[trio.abc.Stream]]
"""Opens a connection to a host and port."""


class Credentials:
    """An account of a broker with access control (RocketMQ's ACL 1.0); shows no secret.

    Args:
        access_key: Its name.
        secret_key: What it signs with.
        security_token: Goes along where an issuer of temporary keys wants it.
    """

    def __init__(self, access_key: str, secret_key: str, security_token: str | None = None) -> None:
        self.access_key = access_key
        self._signing = SigningKey(secret_key)
        self._more = {} if security_token is None else {SECURITY_TOKEN: security_token}

    def __repr__(self) -> str:
        """Whose they are."""
        return f"Credentials(access_key={self.access_key!r})"

    def sign(self, command: Command) -> Command:
        """The request with its signature; it must not be changed after that."""
        ext = command.ext | {ACCESS_KEY: self.access_key} | self._more
        content = signed_content(ext, command.body, command.version)
        return attrs.evolve(command, ext=ext | {SIGNATURE: self._signing.sign(content)})


def signed(command: Command, credentials: Credentials | None) -> Command:
    """The request as it is sent, with or without an account."""
    return command if credentials is None else credentials.sign(command)


def over_tls(open_stream: OpenStream, context: ssl.SSLContext | None) -> OpenStream:
    """What opens connections that speak TLS; without a context, those that are given.

    The name in the server's certificate must be the one that is connected to: for a broker that of
    its route, which is an address more often than a name.
    """
    if context is None:
        return open_stream

    async def open_secure(host: str, port: int) -> trio.abc.Stream:
        stream = await open_stream(host, port)
        secure = trio.SSLStream(stream, context, server_hostname=host, https_compatible=True)
        try:
            await secure.do_handshake()
        except BaseException as error:
            await trio.aclose_forcefully(stream)
            if isinstance(error, trio.BrokenResourceError):
                raise ConnectionError(_reason(error)) from None
            raise
        return secure

    return open_secure


def _reason(error: trio.BrokenResourceError) -> str:
    """Why there is no secure connection."""
    cause = error.__cause__
    if isinstance(cause, ssl.SSLCertVerificationError):
        return f"no TLS: the certificate is not accepted: {cause.verify_message}"
    if isinstance(cause, ssl.SSLError) and cause.reason:
        return f"no TLS: {cause.reason.lower().replace('_', ' ')}"
    return "no TLS: the server closed the connection"
