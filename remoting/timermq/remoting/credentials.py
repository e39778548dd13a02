"""An account of a broker with access control, and the requests that it signs."""

from __future__ import annotations

import attrs

from .command import Command
from .signature import ACCESS_KEY, SECURITY_TOKEN, SIGNATURE, SigningKey, signed_content


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
        """The access key alone: a secret must not get into a log."""
        return f"Credentials(access_key={self.access_key!r})"

    def sign(self, command: Command) -> Command:
        """The request with its signature; it must not be changed after that."""
        ext = command.ext | {ACCESS_KEY: self.access_key} | self._more
        content = signed_content(ext, command.body, command.version)
        return attrs.evolve(command, ext=ext | {SIGNATURE: self._signing.sign(content)})


def signed(command: Command, credentials: Credentials | None) -> Command:
    """The request as it is sent, with or without an account."""
    return command if credentials is None else credentials.sign(command)
