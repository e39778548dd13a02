"""How a client comes in: an account that signs its requests, and TLS."""

from __future__ import annotations

import ssl
from collections.abc import Awaitable, Callable

import trio

from timermq.remoting.credentials import Credentials as Credentials
from timermq.remoting.credentials import signed as signed

OpenStream = Callable[[str, int], Awaitable[trio.abc.Stream]]
"""Opens a connection to a host and port."""


def over_tls(open_stream: OpenStream, context: ssl.SSLContext | None) -> OpenStream:
    """An opener of connections that speak TLS; without a context, the one that is given.

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
