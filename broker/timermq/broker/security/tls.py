"""TLS on the same port as everything else: a connection's first byte says which it is.

A TLS client begins with 0x16; the first byte of a frame is the top byte of its length, which stays
below that. RocketMQ makes itself a certificate when it has none, which no client can check: here
TLS without a certificate is refused, with a line in the log.

Certificates are read again when their files change, for the connections that come from then on;
files that cannot be used leave the old ones in force. Connections that have been made keep theirs.

Source: Java ``NettyRemotingServer.TlsModeHandler``, ``TlsSystemConfig``, ``TlsHelper``.
"""

from __future__ import annotations

import enum
import ssl
from collections.abc import Callable
from weakref import WeakValueDictionary

import structlog
import trio

from ..options import BrokerOptions, TlsClientAuth, TlsMode
from ..sockets import Sockets
from .failed_logins import peer_of
from .log_limit import LogLimit
from .watched_files import read_password, stamp_of

HANDSHAKE_TIMEOUT = 10.0
"""Seconds from the first byte until both sides are sure of each other."""
HANDSHAKES_MAX = 64
"""Handshakes at a time, a millisecond of computing each; further ones wait, within their time."""
HANDSHAKES_OF_ONE_MAX = HANDSHAKES_MAX // 2
"""Handshakes with one address at a time."""
RELOAD_INTERVAL = 1.0
"""Seconds between two looks at the files."""

_HANDSHAKE = b"\x16"
"""The first byte of TLS: a record of the handshake."""

log = structlog.get_logger("timermq.broker.security.tls")


class TlsError(ValueError):
    """Certificate, key or trusted certificates cannot be used; the operator corrects them."""


class Refusal(enum.Enum):
    """Why a connection is closed before its first request."""

    TLS_DISABLED = "TLS refused: tls_server_mode is disabled"
    NO_CERTIFICATE = "TLS refused: tls_server_cert_path names no certificate"
    PLAIN = "plain connection refused: tls_server_mode is enforcing"
    HANDSHAKE = "TLS handshake failed"
    TIMEOUT = "TLS handshake not finished in time"


class Tls:
    """TLS on every connection.

    Args:
        options: Mode and files.
        sockets: Those that connections come in by.

    Raises:
        TlsError: The files cannot be used.
    """

    def __init__(self, options: BrokerOptions, sockets: Sockets) -> None:
        self._options = options
        self._sockets = sockets
        self._paths = [
            path
            for path in (
                options.tls_server_cert_path,
                options.tls_server_key_path,
                options.tls_server_key_password_path,
                options.tls_server_trust_cert_path,
            )
            if path is not None
        ]
        self._stamp = stamp_of(self._paths)
        self._context = _load_context(options)
        self._handshakes = trio.CapacityLimiter(HANDSHAKES_MAX)
        self._of_one: WeakValueDictionary[str, trio.CapacityLimiter] = WeakValueDictionary()
        """By address, while a handshake with it is under way or waits."""
        self._log_limits = {refusal: LogLimit() for refusal in Refusal}
        self.problem: str | None = None
        """Why changed files are not in force; None while they are."""
        self.refused = 0
        """Connections closed here so far."""

    async def open(self, stream: trio.abc.Stream, remote_address: str) -> trio.abc.Stream | None:
        """Wait for the first byte of a connection and make it what it is to be.

        Args:
            stream: As accepted; one that is no socket is taken as not encrypted.
            remote_address: For the log.

        Returns:
            The stream, or TLS over it; None when it is to be closed.

        Cancellation: nothing was sent to the peer but parts of a handshake.
        """
        try:
            first = await self._sockets.first_byte(stream)
        except OSError:
            return None
        if first is None:
            return stream
        refusal = self._refusal(first)
        if refusal is not None:
            self._refuse(refusal, remote_address)
            return None
        if first != _HANDSHAKE or self._context is None:
            return stream if first else None
        return await self._shake_hands(stream, self._context, remote_address)

    async def run(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Read changed files, until cancelled; return at once when there are none."""
        task_status.started()
        while self._paths:
            await trio.sleep(RELOAD_INTERVAL)
            self.reload()

    def reload(self) -> None:
        """Read the files again if they have changed; bad ones leave the old ones in force."""
        stamp = stamp_of(self._paths)
        if stamp == self._stamp:
            return
        self._stamp = stamp
        try:
            self._context = _load_context(self._options)
        except Exception as error:
            # Any error, a mistake of ours included: it must not end the broker.
            self.problem = str(error) if isinstance(error, TlsError) else type(error).__name__
            log.error("certificates not read, the old ones stay in force", reason=self.problem)
        else:
            self.problem = None
            log.info("certificates read", certificate=self._options.tls_server_cert_path)

    async def _shake_hands(
        self, stream: trio.abc.Stream, context: ssl.SSLContext, remote_address: str
    ) -> trio.abc.Stream | None:
        # Clients close without the farewell of TLS, as HTTPS allows: frames tell their own length.
        secure = trio.SSLStream(stream, context, server_side=True, https_compatible=True)
        try:
            with trio.fail_after(HANDSHAKE_TIMEOUT):
                async with self._limiter_of(peer_of(remote_address)), self._handshakes:
                    await secure.do_handshake()
        except trio.TooSlowError:
            self._refuse(Refusal.TIMEOUT, remote_address)
            return None
        except (trio.BrokenResourceError, trio.ClosedResourceError) as error:
            self._refuse(Refusal.HANDSHAKE, remote_address, reason_of(error))
            return None
        return secure

    def _limiter_of(self, peer: str) -> trio.CapacityLimiter:
        limiter = self._of_one.get(peer)
        if limiter is None:
            limiter = self._of_one[peer] = trio.CapacityLimiter(HANDSHAKES_OF_ONE_MAX)
        return limiter

    def _refusal(self, first: bytes) -> Refusal | None:
        """Why a connection with this first byte is not taken; an end is no reason to say one."""
        mode = self._options.tls_server_mode
        if first != _HANDSHAKE:
            return Refusal.PLAIN if first and mode is TlsMode.ENFORCING else None
        if mode is TlsMode.DISABLED:
            return Refusal.TLS_DISABLED
        return Refusal.NO_CERTIFICATE if self._context is None else None

    def _refuse(self, refusal: Refusal, remote_address: str, reason: str | None = None) -> None:
        """Count it, and tell it once a minute."""
        self.refused += 1
        if count := self._log_limits[refusal].take():
            log.warning(refusal.value, remote=remote_address, connections=count, reason=reason)


def _load_context(options: BrokerOptions) -> ssl.SSLContext | None:
    """The context made of the files; None without a certificate, or when TLS is disabled."""
    certificate = options.tls_server_cert_path
    if certificate is None or options.tls_server_mode is TlsMode.DISABLED:
        return None
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    show(
        context,
        certificate,
        options.tls_server_key_path,
        lambda: _password(options.tls_server_key_password_path),
    )
    if options.tls_server_need_client_auth is not TlsClientAuth.NONE:
        context.verify_mode = (
            ssl.CERT_REQUIRED
            if options.tls_server_need_client_auth is TlsClientAuth.REQUIRE
            else ssl.CERT_OPTIONAL
        )
        try:
            context.load_verify_locations(options.tls_server_trust_cert_path)
        except (OSError, ValueError) as error:
            trusted = options.tls_server_trust_cert_path
            raise TlsError(f"trusted certificates {trusted}: {said(error)}") from None
    return context


def show(
    context: ssl.SSLContext, certificate: str, key: str | None, password: Callable[[], bytes]
) -> None:
    """Have a context show a certificate; its key is in the same file if none is named.

    Raises:
        TlsError: The files cannot be used.
    """
    try:
        context.load_cert_chain(certificate, key, password)
    except (OSError, ValueError) as error:
        place = f"certificate {certificate} with key {key or certificate}"
        raise TlsError(f"{place}: {said(error)}") from None


def client_context(trusted: str | None, shown: str | None, key: str | None) -> ssl.SSLContext:
    """TLS of connections that this broker opens.

    Args:
        trusted: File with the certificates of authorities; None: those of the system.
        shown: File with the certificate that is shown; None: none is.
        key: File with its key, which has no password; None: it is in the same file.

    Raises:
        TlsError: The files cannot be used.
    """
    try:
        context = ssl.create_default_context(cafile=trusted)
    except (OSError, ValueError) as error:
        raise TlsError(f"trusted certificates {trusted}: {said(error)}") from None
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    if shown is not None:
        show(context, shown, key, _no_password)
    return context


def _no_password() -> bytes:
    # Without this OpenSSL would ask on the terminal.
    raise TlsError("expected a key without a password")


def _password(path: str | None) -> bytes:
    """The password of the key; without this OpenSSL would ask on the terminal."""
    if path is None:
        raise TlsError("the key has a password, and tls_server_key_password_path names none")
    return read_password(path)


def said(error: Exception) -> str:
    """The text of OpenSSL or the system, without the file's name: that is in front already."""
    if isinstance(error, ssl.SSLError):
        return error.reason or "expected PEM, found something else"
    if isinstance(error, OSError) and error.strerror:
        return error.strerror
    return str(error)


def reason_of(error: Exception) -> str | None:
    """The error of a handshake; None when the peer just went."""
    cause = error.__cause__
    return cause.reason if isinstance(cause, ssl.SSLError) else None
