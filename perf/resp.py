"""RESP2, the protocol of redis: commands as arrays of strings, and the values that come back."""

from __future__ import annotations

Value = bytes | int | None | list["Value"]

END = b"\r\n"


class RespError(Exception):
    """The server answered with an error; the text is the server's."""


def command(*words: bytes | int | float) -> bytes:
    """A command as it goes over the wire."""
    texts = [word if isinstance(word, bytes) else b"%r" % word for word in words]
    parts = [b"$%d\r\n%b\r\n" % (len(text), text) for text in texts]
    return b"*%d\r\n" % len(parts) + b"".join(parts)


def split_value(buffer: bytes, at: int = 0) -> tuple[Value, int] | None:
    """The value that begins at ``at``, and where the next begins; None while it is not whole.

    Raises:
        RespError: The value is an error.
        ValueError: It is no value.
    """
    end = buffer.find(END, at)
    if end < 0:
        return None
    kind, text, after = buffer[at : at + 1], buffer[at + 1 : end], end + 2
    if kind == b"+":
        return text, after
    if kind == b":":
        return int(text), after
    if kind == b"$":
        return _bulk(buffer, int(text), after)
    if kind == b"*":
        return _array(buffer, int(text), after)
    if kind == b"-":
        raise RespError(text.decode(errors="replace"))
    raise ValueError(f"resp: expected one of + - : $ *, found {kind!r} at {at}")


def _bulk(buffer: bytes, size: int, at: int) -> tuple[Value, int] | None:
    if size < 0:
        return None, at
    if len(buffer) < at + size + 2:
        return None
    return buffer[at : at + size], at + size + 2


def _array(buffer: bytes, count: int, at: int) -> tuple[Value, int] | None:
    if count < 0:
        return None, at
    values: list[Value] = []
    for _ in range(count):
        found = split_value(buffer, at)
        if found is None:
            return None
        value, at = found
        values.append(value)
    return values, at
