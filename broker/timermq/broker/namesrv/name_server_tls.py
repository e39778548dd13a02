"""TLS on the connections to name servers, for a cluster that takes nothing else.

Who answers is checked, always: its certificate must be signed by somebody who is trusted, and have
the name (or address) that stands in ``namesrv_addr``. The files are read for each connection, so
changed ones count from the next.

Corresponds to ``tls.enable`` and ``tls.client.*`` of RocketMQ's remoting client.
"""

from __future__ import annotations

import ssl

import trio

from ..options import BrokerOptions
from ..security.tls import TlsError, reason_of, said, show
from .name_server_link import OpenStream


def over_tls(options: BrokerOptions, open_stream: OpenStream) -> OpenStream:
    """What opens the connections to name servers, by the settings; it raises OSError.

    Raises:
        TlsError: The files cannot be used.
    """
    if not options.namesrv_tls_enable:
        return open_stream
    _context(options)  # what cannot be used is told at the start

    async def open_secure(host: str, port: int) -> trio.abc.Stream:
        stream = await open_stream(host, port)
        try:
            context = _context(options)
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

    return open_secure


def _context(options: BrokerOptions) -> ssl.SSLContext:
    trusted, shown = options.tls_client_trust_cert_path, options.tls_client_cert_path
    try:
        context = ssl.create_default_context(cafile=trusted)
    except (OSError, ValueError) as error:
        raise TlsError(f"trusted certificates {trusted}: {said(error)}") from None
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    if shown is not None:
        show(context, shown, options.tls_client_key_path, _no_password)
    return context


def _no_password() -> bytes:
    # Without this OpenSSL would ask on the terminal.
    raise TlsError("expected a key without a password")
