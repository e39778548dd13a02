"""SEND_MESSAGE_V2 with everything that its signature covers.

A broker that checks signatures reads its sends into this structure. A send with a parameter that is
not known here, or without one that all clients send, is read as a ``Command`` instead. Then every
parameter is there as it came, and the signature is checked over nothing else.
"""

from __future__ import annotations

import msgspec
import msgspec.structs

from ..signature import SIGNATURE
from .send_v2 import SendV2, SendV2Fields, send_decoder


class SignedSendV2Fields(SendV2Fields, gc=False, kw_only=True, forbid_unknown_fields=True):
    """All parameters of a send; those that `SendV2Fields` gives a default must be there."""

    access_key: str = msgspec.field(name="AccessKey")
    signature: str = msgspec.field(name="Signature")
    ons_channel: str | None = msgspec.field(name="OnsChannel", default=None)
    security_token: str | None = msgspec.field(name="SecurityToken", default=None)
    topic: str = msgspec.field(name="b")
    queue_id: str = msgspec.field(name="e")
    properties: str = msgspec.field(name="i")
    producer_group: str = msgspec.field(name="a")
    sys_flag: str = msgspec.field(name="f")
    born_ms: str = msgspec.field(name="g")
    flag: str = msgspec.field(name="h")
    reconsume_times: str = msgspec.field(name="j")
    unit_mode: str | None = msgspec.field(name="k", default=None)
    batch: str = msgspec.field(name="m")
    broker_name: str | None = msgspec.field(name="n", default=None)


class SignedSendV2(SendV2, gc=False, kw_only=True):
    """A send as it came, signed."""

    # The parameters of a send are never set; the decoder looks at the type.
    fields: SignedSendV2Fields = msgspec.field(  # type: ignore[mutable-override] # pyright: ignore[reportIncompatibleVariableOverride]
        name="extFields"
    )

    def content(self) -> bytes:
        """The signed content: the values in the order of their names, and the body."""
        # Every send is signed over this: to read the fields by name takes twice the time.
        fields = self.fields
        values = (
            fields.access_key,
            fields.ons_channel or "",
            fields.security_token or "",
            fields.producer_group,
            fields.topic,
            fields.default_topic or "",
            fields.default_topic_queue_nums or "",
            fields.queue_id,
            fields.sys_flag,
            fields.born_ms,
            fields.flag,
            fields.properties,
            fields.reconsume_times,
            fields.unit_mode or "",
            fields.max_reconsume_times or "",
            fields.batch,
            fields.broker_name or "",
        )
        return "".join(values).encode("utf-8", "replace") + self.body

    def starts(self) -> dict[str, int]:
        """Start of each parameter's value in the content, by the parameter's name."""
        starts: dict[str, int] = {}
        at = 0
        for field in sorted(msgspec.structs.fields(self.fields), key=_name_on_the_wire):
            if field.encode_name != SIGNATURE:
                starts[field.encode_name] = at
                at += len((getattr(self.fields, field.name) or "").encode("utf-8", "replace"))
        return starts


def _name_on_the_wire(field: msgspec.structs.FieldInfo) -> str:
    return field.encode_name


decode_signed_send_v2 = send_decoder(SignedSendV2)
"""Read a JSON header as a signed send; None for any other header, or a broken one."""
