"""Who may link: TLS with certificates of both sides, the shared secret, and links without TLS.

RocketMQ's link knows neither TLS nor a secret, so a link without TLS is taken of peers on this
machine alone, unless ``ha_plain_enable`` says otherwise. Names in certificates are not compared:
who may sign them (``ha_tls_trust_cert_path``) signs those of replicas and no others.
"""

from __future__ import annotations

import ssl

from ..loopback import is_loopback
from ..security.tls import TlsError, said, show
from ..security.watched_files import read_bounded
from .link_refusal import LinkRefusedError
from .replication_options import ReplicationOptions

SECRET_SIZE_MIN = 16
SECRET_SIZE_MAX = 1_024
"""Bytes of the secret, without the end of its line."""


class SecretError(ValueError):
    """The file of the secret cannot be used; the operator corrects it."""


def read_secret(path: str | None) -> bytes | None:
    """The secret that replicas share; None where no file is named.

    Raises:
        SecretError: The file cannot be read, or holds too little or too much.
    """
    if path is None:
        return None
    try:
        secret = read_bounded(path, SECRET_SIZE_MAX + 2).strip(b"\r\n")
    except OSError as error:
        raise SecretError(f"ha_secret_file {path}: {said(error)}") from None
    if not SECRET_SIZE_MIN <= len(secret) <= SECRET_SIZE_MAX:
        raise SecretError(
            f"ha_secret_file {path}: expected {SECRET_SIZE_MIN} to {SECRET_SIZE_MAX} bytes, "
            f"found {len(secret)}"
        )
    return secret


def master_context(options: ReplicationOptions) -> ssl.SSLContext | None:
    """TLS as a master speaks it with its followers; None where the settings have none.

    Raises:
        TlsError: The files cannot be used.
    """
    return _loaded(ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER), options)


def follower_context(options: ReplicationOptions) -> ssl.SSLContext | None:
    """TLS as a follower speaks it with its master; None where the settings have none.

    Raises:
        TlsError: The files cannot be used.
    """
    return _loaded(ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT), options)


def _loaded(context: ssl.SSLContext, options: ReplicationOptions) -> ssl.SSLContext | None:
    certificate, trusted = options.ha_tls_cert_path, options.ha_tls_trust_cert_path
    if certificate is None or trusted is None:
        return None
    context.check_hostname = False
    context.verify_mode = ssl.CERT_REQUIRED
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    show(context, certificate, options.ha_tls_key_path, _no_password)
    try:
        context.load_verify_locations(trusted)
    except (OSError, ValueError) as error:
        raise TlsError(f"trusted certificates {trusted}: {said(error)}") from None
    return context


def _no_password() -> bytes:
    # Without this OpenSSL would ask on the terminal.
    raise TlsError("ha_tls_key_path: expected a key without a password")


def plain_refusal(options: ReplicationOptions, host: str) -> LinkRefusedError | None:
    """Why a peer may not link without TLS; None when it may."""
    if options.ha_plain_enable or is_loopback(host):
        return None
    return LinkRefusedError(
        "HA_PLAIN",
        f"expected TLS of {host}, which is another machine, found none: set ha_tls_cert_path and "
        "ha_tls_trust_cert_path on both, or ha_plain_enable, as slaves of RocketMQ's need it",
    )
