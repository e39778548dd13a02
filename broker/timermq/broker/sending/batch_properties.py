"""The properties of a batch as a whole, which become properties of each of its parts.

OpenTelemetry's agent puts its trace context there, and in no other place. A part's own properties
take precedence over those of its batch: in particular its moment. Two properties of a batch are
not copied: ``WAIT``, which is about the sending itself, and the unique key that Java's client
gives the batch, because each part is found by its own.

Up to 5.3 RocketMQ's brokers copied all of them behind those of the part, so that the messages of a
batch had one unique key; since 5.4 they drop them.

Source: Java ``MessageExtEncoder.encode`` of a ``MessageExtBatch``.
"""

from __future__ import annotations

import attrs

from timermq.pipeline.records.timer_properties import REQUEST_NAMES
from timermq.timerstore.properties import UNIQ_KEY_NAME, WAIT_NAME, find, parse

from .message_stamp import delay_request

_OF_THE_BATCH = frozenset({UNIQ_KEY_NAME, WAIT_NAME})
_REQUESTS = frozenset(REQUEST_NAMES)


@attrs.frozen
class BatchProperties:
    """The properties that a batch gives to its parts."""

    request: bytes
    """Those that ask for a later moment, as text; only for parts that ask for none themselves."""
    others: tuple[tuple[bytes, bytes], ...]
    """Name and text of each of the others."""

    @classmethod
    def of(cls, properties: bytes) -> BatchProperties:
        """Read the properties of a whole batch; malformed ones are left out."""
        if not properties:
            return NO_PROPERTIES
        pairs = [(name.encode(), value.encode()) for name, value in parse(properties).items()]
        return cls(
            request=delay_request(properties),
            others=tuple(
                (name, b"%b\x01%b\x02" % (name, value))
                for name, value in pairs
                if name not in _OF_THE_BATCH and name not in _REQUESTS
            ),
        )

    @property
    def size(self) -> int:
        """Bytes by which the properties of a part grow at most."""
        return len(self.request) + sum(len(text) for _, text in self.others)

    def added_to(self, part: bytes) -> bytes:
        """The properties of a part, and behind them those of the batch that it has not itself."""
        added = b"".join(
            text for name, text in self.others if name not in part or find(part, name) is None
        )
        if self.request and not delay_request(part):
            added += self.request
        if not added:
            return part
        if part and not part.endswith(b"\x02"):
            part += b"\x02"
        return part + added


NO_PROPERTIES = BatchProperties(b"", ())
