"""The signatures of a run: the content that each was made over, laid out as columns.

The content of one send is read. That of another send of the run differs from it in the same places
as the headers do. This is proven before it is used, as the form itself is: by reading a header with
other letters and digits in all of its places.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import attrs
import numpy as np

from ..command import Command
from ..header import decode_header
from .send_run import OTHER, RunForm, SendRun
from .signed_send_v2 import SignedSendV2, decode_signed_send_v2


@attrs.frozen(eq=False)
class SignedRunForm:
    """The form of a run with the places in the signed content that differ; ``of`` makes one."""

    send: SignedSendV2
    """The send of the form's header, without a body."""
    signature: slice
    """Its place in the header, without the mark that ends it."""
    content: bytes
    """The signed content of the header, without a body."""
    places: Sequence[tuple[slice, slice]]
    """In the header and in the content."""

    @classmethod
    def of(cls, form: RunForm) -> SignedRunForm | None:
        """The signed form of a run; None when its sends are not signed, or in another way."""
        send = decode_signed_send_v2(form.header)
        if send is None or form.signature is None:
            return None
        starts = send.starts()
        pairs = [(form.queue_id, starts["e"]), (form.born_ms, starts["g"])]
        pairs += [(value.header, starts["i"] + value.text.start) for value in form.values]
        places = [(place, slice(at, at + place.stop - place.start)) for place, at in pairs]
        signed = cls(send, form.signature, send.content(), places)
        return signed if signed._is_proven(form.header) else None

    def contents(self, run: SendRun) -> Iterator[bytes]:
        """The signed content of each send of a run."""
        size = len(self.content)
        rows = np.empty((len(run), size), np.uint8)
        rows[:] = np.frombuffer(self.content, np.uint8)
        for header, content in self.places:
            rows[:, content] = run.headers[:, header]
        whole, data = rows.tobytes(), run.data
        ends = zip(run.body_starts.tolist(), run.body_ends.tolist(), strict=True)
        for index, (start, end) in enumerate(ends):
            yield whole[index * size : (index + 1) * size] + data[start:end]

    def signatures(self, run: SendRun) -> list[bytes]:
        """The signature of each send of a run, in base64."""
        place = slice(self.signature.start, self.signature.stop + 1)
        size = place.stop - place.start
        text = run.headers[:, place].tobytes()
        return [text[at : at + size] for at in range(0, len(text), size)]

    def _is_proven(self, header_of_form: bytes) -> bool:
        signature = self.signature
        other, content = bytearray(header_of_form), bytearray(self.content)
        for header, place in self.places:
            other[header] = content[place] = other[header].translate(OTHER)
        other[signature] = other[signature].translate(OTHER)
        send = decode_signed_send_v2(bytes(other))
        return (
            send is not None
            and send.content() == bytes(content)
            and send.fields.signature == other[signature.start : signature.stop + 1].decode()
        )


def requests_of(run: SendRun) -> list[SignedSendV2 | Command]:
    """The sends of a run one by one, with every parameter that came."""
    requests: list[SignedSendV2 | Command] = []
    bodies = zip(run.body_starts.tolist(), run.body_ends.tolist(), strict=True)
    for row, (start, end) in zip(run.headers, bodies, strict=True):
        header = row.tobytes()
        request = decode_signed_send_v2(header) or decode_header(0, header)
        request.body = run.data[start:end]
        requests.append(request)
    return requests
