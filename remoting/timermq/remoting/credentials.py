"""An account of a broker with access control, and the requests that it signs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import cast

import attrs

from .command import Command
from .signature import ACCESS_KEY, SECURITY_TOKEN, SIGNATURE, SigningKey, signed_content

FILE_SIZE_MAX = 65_536
"""Bytes of a file with an account."""
FILE_KEYS = ("accessKey", "secretKey", "securityToken")
"""Its keys, of which the last may be missing."""


class CredentialsError(ValueError):
    """There is no account in what should hold one; the message quotes nothing of it."""


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

    @classmethod
    def of(cls, fields: Mapping[str, str | None]) -> Credentials:
        """The account with these values of ``FILE_KEYS``.

        Raises:
            CredentialsError: The key or the secret is missing.
        """
        access_key, secret_key, token = (fields.get(key) for key in FILE_KEYS)
        if not access_key or not secret_key:
            raise CredentialsError("expected an access key and a secret, found one of them or none")
        return cls(access_key, secret_key, token or None)

    @classmethod
    def decode(cls, data: bytes) -> Credentials:
        """The account in a file of RocketMQ's form (``conf/tools.yml``).

        Raises:
            CredentialsError: It is no such file, or the key or the secret is missing.
        """
        import yaml  # few have such a file

        try:
            # Every scalar stays a text. What does not parse is not quoted: it may be the secret.
            value = cast("object", yaml.load(data, Loader=yaml.BaseLoader))  # noqa: S506 - texts alone
        except (yaml.YAMLError, UnicodeError, RecursionError):
            value = None
        fields = cast("dict[object, object]", value) if isinstance(value, dict) else {}
        texts = {key: text for key, text in fields.items() if isinstance(text, str)}
        if not texts or len(texts) != len(fields) or not texts.keys() <= set(FILE_KEYS):
            raise CredentialsError(
                f"expected YAML with {', '.join(FILE_KEYS)}, found something else"
            )
        return cls.of(cast("dict[str, str]", texts))

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
