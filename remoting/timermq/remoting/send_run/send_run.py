r"""A run: sends of one form that came one after the other.

The frames of a busy producer differ in little: the opaque, the queue, the time of birth, and in the
properties a key and a moment. So the header of one is read, and remembered as the form of the run:
with the places where others may have other letters and digits. A header that is the same everywhere
else says the same, but for what stands in those places. To compare a hundred headers costs what
reading five does.

No rule of reading is stated again. Places are looked for in the text, and a header makes a form
only if it is read once more with other letters and digits in all of its places, and says just
those. A send that does not fit a run is read by itself, as a ``SendV2`` or a ``Command``.
"""

from __future__ import annotations

import re

import attrs
import msgspec
import numpy as np
from numpy.typing import NDArray

from ..codes import LanguageCode
from .send_v2 import SendV2, decode_send_v2

Rows = NDArray[np.uint8]
"""A text of bytes a row, all of one size."""

_NUMBER = rb"(0|[1-9][0-9]{0,8})"
_OPAQUE = re.compile(rb'"opaque":' + _NUMBER + rb"(?=[,}])")
_QUEUE = re.compile(rb'"e":"' + _NUMBER + rb'"')
_BORN = re.compile(rb'"g":"([1-9][0-9]{12})"')
_TEXT = re.compile(rb'"i":"([^"]*)"')
_SIGNATURE = re.compile(rb'"Signature":"([0-9A-Za-z+/]{27}=)"')
_VALUES = {
    b"UNIQ_KEY": re.compile(rb"[0-9A-Za-z]+"),
    b"TIMER_DELAY_SEC": re.compile(rb"[0-9]+"),
    b"TIMER_DELAY_MS": re.compile(rb"[0-9]+"),
    b"TIMER_DELIVER_MS": re.compile(rb"[0-9]+"),
}
"""Properties whose values may differ, and how they are written."""

_DIGIT, _LETTER, _NONZERO, _NOTHING, _BASE64 = 1, 2, 4, 8, 16
_KINDS = np.zeros(256, np.uint8)
_KINDS[list(b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz")] = _LETTER
_KINDS[list(b"0123456789")] = _DIGIT | _LETTER
_KINDS[list(b"123456789")] |= _NONZERO
_KINDS[list(b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/")] |= _BASE64
OTHER = bytes.maketrans(
    b"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz",
    b"7234567891BCDEFGHIJKLMNOPQRSTUVWXYZAbcdefghijklmnopqrstuvwxyza",
)
"""Another letter or digit for each; never a zero."""


@attrs.frozen
class Value:
    """A property whose value may differ."""

    name: bytes
    header: slice
    """Its place in the header."""
    text: slice
    """Its place in the property text."""


@attrs.frozen(eq=False)
class RunForm:
    """The form of a run's sends: a header, and the places where others may differ.

    ``of`` makes one.
    """

    header: bytes
    send: SendV2
    """The send of this header, without a body."""
    opaque: slice
    queue_id: slice
    born_ms: slice
    values: tuple[Value, ...]
    signature: slice | None
    """Its place, without the mark that ends it; None for a header without exactly one."""
    row: NDArray[np.uint8]
    kinds: NDArray[np.uint8]
    """The kind of bytes that may stand in each column."""

    @classmethod
    def of(cls, header: bytes) -> RunForm | None:
        """The form of a JSON header; None when it begins no run."""
        send = decode_send_v2(header)
        numbers = [list(one.finditer(header)) for one in (_OPAQUE, _QUEUE, _BORN)]
        texts = list(_TEXT.finditer(header))
        if send is None or any(len(found) != 1 for found in (*numbers, texts)):
            return None
        opaque, queue_id, born_ms = (slice(*found[0].span(1)) for found in numbers)
        values = _values(texts[0], send.fields.properties.encode())
        if values is None:
            return None
        kinds = np.full(len(header), _NOTHING, np.uint8)
        for place in (opaque, queue_id, born_ms):
            kinds[place] = _DIGIT
            if place.stop - place.start > 1:
                kinds[place.start] = _NONZERO
        for value in values:
            kinds[value.header] = _LETTER if value.name == b"UNIQ_KEY" else _DIGIT
        signatures = list(_SIGNATURE.finditer(header))
        signature = None
        if len(signatures) == 1:
            signature = slice(signatures[0].start(1), signatures[0].end(1) - 1)
            kinds[signature] = _BASE64
        form = cls(
            header=header,
            send=send,
            opaque=opaque,
            queue_id=queue_id,
            born_ms=born_ms,
            values=values,
            signature=signature,
            row=np.frombuffer(header, np.uint8),
            kinds=kinds,
        )
        return form if form._is_proven() else None

    def run_length(self, headers: Rows) -> int:
        """How many of these headers, of the same size, are of this form before the first other."""
        columns = np.flatnonzero(np.bitwise_or.reduce(headers ^ self.row, axis=0))
        found, kinds = headers[:, columns], self.kinds[columns]
        other = (found != self.row[columns]) & (_KINDS[found] & kinds != kinds)
        rows = np.flatnonzero(other.any(axis=1))
        return int(rows[0]) if len(rows) else len(headers)

    def _is_proven(self) -> bool:
        """Whether each place says what it is taken for: read once more with others in all."""
        other = bytearray(self.header)
        text = bytearray(self.send.fields.properties.encode())
        for place in (self.opaque, self.queue_id, self.born_ms):
            other[place] = other[place].translate(OTHER)
        if self.signature is not None:
            other[self.signature] = other[self.signature].translate(OTHER)
        for value in self.values:
            text[value.text] = other[value.header] = other[value.header].translate(OTHER)
        expected = msgspec.structs.replace(
            self.send,
            opaque=int(other[self.opaque]),
            fields=msgspec.structs.replace(
                self.send.fields,
                queue_id=other[self.queue_id].decode(),
                born_ms=other[self.born_ms].decode(),
                properties=text.decode(),
            ),
        )
        return decode_send_v2(bytes(other)) == expected


def _values(found: re.Match[bytes], text: bytes) -> tuple[Value, ...] | None:
    """The values that may differ; None when text and header have not the same properties."""
    written, said = found[1].split(b"\\u0002"), text.split(b"\x02")
    if len(written) != len(said):
        return None
    values: list[Value] = []
    header_at, text_at = found.start(1), 0
    for piece, item in zip(written, said, strict=True):
        name, _, value = item.partition(b"\x01")
        pattern = _VALUES.get(name)
        if pattern is not None and pattern.fullmatch(value) and piece.endswith(value):
            header_end, text_end = header_at + len(piece), text_at + len(item)
            place = slice(header_end - len(value), header_end)
            values.append(Value(name, place, slice(text_end - len(value), text_end)))
        header_at += len(piece) + len(b"\\u0002")
        text_at += len(item) + 1
    return tuple(values)


@attrs.frozen(eq=False)
class SendRun:
    """Sends of one form that came one after the other; at least one."""

    form: RunForm
    headers: Rows
    """A header a row."""
    data: bytes
    """The bytes that they came in."""
    body_starts: NDArray[np.int64]
    """The starts of the bodies in ``data``."""
    body_ends: NDArray[np.int64]

    def __len__(self) -> int:
        return len(self.headers)

    @property
    def code(self) -> int:
        """The request code, which all of them share."""
        return self.form.send.code

    @property
    def flag(self) -> int:
        """The flag bits, which all of them share."""
        return self.form.send.flag

    @property
    def is_oneway(self) -> bool:
        """Whether they must not be answered."""
        return self.form.send.is_oneway

    @property
    def language(self) -> LanguageCode:
        """The language of the client."""
        return self.form.send.language

    @property
    def version(self) -> int:
        """The client's version number, which all of them share."""
        return self.form.send.version

    def texts(self, place: slice) -> Rows:
        """The bytes at a place of each header."""
        return self.headers[:, place]

    def first(self) -> SendV2:
        """The first send of the run, with its body."""
        return self._send(0)

    def sends(self) -> list[SendV2]:
        """The sends one by one."""
        return [self._send(index) for index in range(len(self))]

    def _send(self, index: int) -> SendV2:
        send = decode_send_v2(self.headers[index].tobytes())
        assert send is not None, "a header of a proven form"
        send.body = self.data[self.body_starts[index] : self.body_ends[index]]
        return send
