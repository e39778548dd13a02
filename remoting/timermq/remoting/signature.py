"""Request signatures of RocketMQ's ACL 1.0: HMAC-SHA1 over the parameters and the body.

The content is the values of all parameters but the signature itself, in the order of their names,
one after the other, then the body. Neither the request code nor the names are part of it, and there
is no nonce: a signature says who made these values, not when, nor for which request. Only TLS keeps
others from reading and repeating them.

Source: Java ``AclUtils``, ``AclSigner``, ``PlainAccessResource``.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
from collections.abc import Iterable, Mapping

ACCESS_KEY = "AccessKey"
SIGNATURE = "Signature"
SECURITY_TOKEN = "SecurityToken"  # noqa: S105 - the name of a parameter
CREDENTIALS = frozenset({ACCESS_KEY, SIGNATURE, SECURITY_TOKEN, "OnsChannel"})
"""Parameters that say who asks; they are for the broker alone."""
UNIQUE_KEY_QUERY = "_UNIQUE_KEY_QUERY"

LEFT_OUT_VERSION_MAX = 399
"""RocketMQ 4.9.3: clients up to it add `UNIQUE_KEY_QUERY` after they have signed."""

_BLOCK_SIZE = 64
"""Bytes of a block of SHA-1."""
_INNER = bytes(byte ^ 0x36 for byte in range(256))
_OUTER = bytes(byte ^ 0x5C for byte in range(256))


class SigningKey:
    """A secret that is ready to sign; its text is not kept and never shown.

    Args:
        secret: The shared secret; an empty one is allowed, C++ signs with it.
    """

    __slots__ = ("_inner", "_outer")

    def __init__(self, secret: str) -> None:
        key = secret.encode("utf-8", "replace")
        if len(key) > _BLOCK_SIZE:
            key = hashlib.sha1(key).digest()  # noqa: S324 - the protocol's
        block = key.ljust(_BLOCK_SIZE, b"\0")
        self._inner, self._outer = block.translate(_INNER), block.translate(_OUTER)

    def digest(self, content: bytes) -> bytes:
        """HMAC-SHA1. By hand, a third of the time of ``hmac.digest``: the pads are made once."""
        sha1 = hashlib.sha1
        return sha1(self._outer + sha1(self._inner + content).digest()).digest()

    def sign(self, content: bytes) -> str:
        """The signature of some content, Base64."""
        return base64.b64encode(self.digest(content)).decode()

    def is_signature(self, content: bytes, signature: str) -> bool:
        """Whether a text is the signature of some content; takes the same time for any text."""
        expected = binascii.b2a_base64(self.digest(content), newline=False)
        return hmac.compare_digest(expected, signature.encode("utf-8", "replace"))

    def are_signatures(self, contents: Iterable[bytes], signatures: Iterable[bytes]) -> bool:
        """Whether each is the signature of its content: ``is_signature`` of many at once."""
        sha1, base64_of, equal = hashlib.sha1, binascii.b2a_base64, hmac.compare_digest
        inner, outer = self._inner, self._outer
        return all(
            equal(base64_of(sha1(outer + sha1(inner + content).digest()).digest())[:-1], signature)
            for content, signature in zip(contents, signatures, strict=True)
        )


def signed_content(ext: Mapping[str, str], body: bytes, version: int) -> bytes:
    """The bytes over which the signature of a request is made.

    Args:
        ext: All parameters, as text, before any default is put in.
        body: Of the request.
        version: What the client says of itself.
    """
    leaves_out = version <= LEFT_OUT_VERSION_MAX
    values = [
        ext[name]
        for name in sorted(ext)
        if name != SIGNATURE and not (leaves_out and name == UNIQUE_KEY_QUERY)
    ]
    return "".join(values).encode("utf-8", "replace") + body
