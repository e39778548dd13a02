"""CLOCK (9007): what the broker thinks of its wall clock, and the operator's word on it.

The request may say ``accept=true``: the wall clock is right as it is. The answer's body is a CBOR
map with the names of the fields below; unknown names are passed over.
"""

from __future__ import annotations

import attrs
import cbor2
import msgspec

from .cbor import CborError, decode_cbor
from .codes import ResponseCode
from .errors import RemoteProtocolError
from .request_header import RequestHeader, boolean, request_header

REPORT_SIZE_MAX = 4096
"""Bytes of the body of an answer."""


@request_header
class ClockHeader(RequestHeader):
    """The confirmation of a broker's clock by an operator."""

    accept: bool = boolean("accept", default=False)
    """The wall clock is right as it is."""


@attrs.frozen(kw_only=True)
class ClockReport:
    """A moment's picture of a broker's clock; times in epoch milliseconds."""

    state: str
    """SAFE or UNSAFE."""
    fault: str | None
    """Of UNSAFE: forward, backward or stopped."""
    now_ms: int
    """The time by which the broker works."""
    wall_ms: int
    """Its wall clock's time."""
    off_ms: int
    """How far the wall clock is ahead of what is trusted, or behind (negative); 0 when SAFE."""
    since_ms: int | None
    """When it became UNSAFE, by ``now_ms`` then."""
    believed_in_ms: int | None
    """How long a clock that is ahead is still held back; None otherwise."""
    steps_forward: int
    steps_backward: int
    last_step_ms: int
    """The newest step; negative: back; 0: none."""
    last_step_at_ms: int | None
    drift_ppm: float | None
    """Against a clock that cannot be set; None: not measured yet (ten minutes)."""
    read_ms: int
    """Slots before it are closed."""
    rewinds: bool = False
    """The wheel is being brought back to the present: the answer to ``accept``."""

    def encode(self) -> bytes:
        """The body of an answer."""
        return cbor2.dumps(attrs.asdict(self))

    @classmethod
    def decode(cls, body: bytes) -> ClockReport:
        """Read the body of an answer.

        Raises:
            RemoteProtocolError: Malformed.
        """
        try:
            return msgspec.convert(decode_cbor(body, size_max=REPORT_SIZE_MAX), cls)
        except (CborError, msgspec.ValidationError) as error:
            raise RemoteProtocolError(
                ResponseCode.INVALID_PARAMETER, f"CLOCK_BODY: {error}"
            ) from error
