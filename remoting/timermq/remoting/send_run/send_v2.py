"""SEND_MESSAGE_V2 as a structure: one message, code 310, JSON header, every parameter a text.

RocketMQ's clients nearly always send this, and runs consist of it (``send_run``). The header is
read in one pass into a structure instead of a dictionary, for a third of the cost, and the answer
is written by a template. A request that differs in any way (another code, a number in place of a
text, a parameter missing) is a ``Command`` like every other request. Nothing is decided here.

Source: Java ``SendMessageRequestHeaderV2``.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from functools import cache
from typing import Annotated, TypeVar

import msgspec

from ..codes import FLAG_ONEWAY, FLAG_RESPONSE, VERSION, LanguageCode, RequestCode
from ..command import Command

CODE = int(RequestCode.SEND_MESSAGE_V2)
MARK = b'"code":%d,' % CODE
"""How clients write the code; another spelling is read as a command."""
_Int32 = Annotated[int, msgspec.Meta(ge=-(2**31), lt=2**31)]
_Natural32 = Annotated[int, msgspec.Meta(ge=0, lt=2**31)]
HANDLE_PART = ',"recallHandle":"%s"'
"""The field of an answer with the recall handle of the message."""
FRONT = struct.Struct(">ii")
"""Size of the frame, size of the header with coding 0."""


class SendV2Fields(msgspec.Struct, gc=False):
    """The parameters of a send, each a text as it came."""

    topic: str = msgspec.field(name="b")
    queue_id: str = msgspec.field(name="e")
    properties: str = msgspec.field(name="i")
    producer_group: str = msgspec.field(name="a", default="")
    default_topic: str | None = msgspec.field(name="c", default=None)
    default_topic_queue_nums: str | None = msgspec.field(name="d", default=None)
    sys_flag: str = msgspec.field(name="f", default="0")
    born_ms: str = msgspec.field(name="g", default="0")
    flag: str = msgspec.field(name="h", default="0")
    reconsume_times: str = msgspec.field(name="j", default="0")
    max_reconsume_times: str | None = msgspec.field(name="l", default=None)
    batch: str = msgspec.field(name="m", default="false")


class SendV2(msgspec.Struct, gc=False):
    """A send as it came, in the form that runs consist of."""

    code: int
    opaque: _Int32
    fields: SendV2Fields = msgspec.field(name="extFields")
    flag: _Natural32 = 0
    language_name: str = msgspec.field(name="language", default="OTHER")
    version: _Natural32 = 0
    body: bytes = b""

    @property
    def is_response(self) -> bool:
        """Whether it answers a request: an answer is no send."""
        return bool(self.flag & FLAG_RESPONSE)

    @property
    def is_oneway(self) -> bool:
        """Whether it must not be answered."""
        return bool(self.flag & FLAG_ONEWAY)

    @property
    def language(self) -> LanguageCode:
        """The language of the client."""
        return LanguageCode.of_name(self.language_name)

    def to_command(self) -> Command:
        """The same as a command, with every parameter that came."""
        values = [(name, getattr(self.fields, field)) for field, name in _names(type(self.fields))]
        return Command(
            code=self.code,
            opaque=self.opaque,
            flag=self.flag,
            language=self.language,
            version=self.version,
            ext={name: value for name, value in values if value is not None},
            body=self.body,
        )


@cache
def _names(kind: type[SendV2Fields]) -> list[tuple[str, str]]:
    """The fields of some parameters, and what they are called on the wire."""
    return [(field.name, field.encode_name) for field in msgspec.structs.fields(kind)]


Send = TypeVar("Send", bound=SendV2)


def send_decoder(kind: type[Send]) -> Callable[[bytes], Send | None]:
    """A function that reads a JSON header as a send: None for any other header, or a broken one.

    Args:
        kind: How much of the header is known.
    """
    decoder = msgspec.json.Decoder(kind)

    def read(header: bytes) -> Send | None:
        if MARK not in header:
            return None
        try:
            send = decoder.decode(header)
        except (msgspec.DecodeError, UnicodeError, RecursionError):
            return None
        return send if send.code == CODE else None

    return read


decode_send_v2 = send_decoder(SendV2)
"""Read a JSON header as a send; None for any other header, or a broken one."""


class SendAnswerTemplate:
    """Writes the answers to stored sends: frames that say the same as commands would.

    Args:
        region: ``MSG_REGION``.
        trace_on: ``TRACE_ON``.
    """

    def __init__(self, *, region: str, trace_on: str) -> None:
        fixed = f'{{"MSG_REGION":{_json(region)},"TRACE_ON":{_json(trace_on)}'
        tail = f'"serializeTypeCurrentRPC":"JSON","version":{VERSION}}}'
        self.parts = (
            f'{{"code":0,"extFields":{fixed},"msgId":"',
            '","queueId":"',
            '","queueOffset":"',
            '","transactionId":',
            "",
            f'}},"flag":{FLAG_RESPONSE},"language":"JAVA","opaque":',
            f",{tail}",
        )
        """The text around message id, queue, queue offset, key, recall handle and opaque."""
        self._template = "%s".join(part.replace("%", "%%") for part in self.parts)

    def frame(
        self,
        opaque: int,
        *,
        message_id: str,
        queue_id: int,
        queue_offset: int,
        unique_key: str,
        recall_handle: str | None,
    ) -> bytes:
        """The whole frame of one answer.

        Args:
            opaque: Of the request.
            message_id: The offset message id: hexadecimal digits.
            queue_id: Where the message goes in the end.
            queue_offset: Its place there, or in the timer topic.
            unique_key: The message's unique key.
            recall_handle: The recall handle, Base64; None without one.
        """
        key = f'"{unique_key}"' if unique_key.isalnum() else _json(unique_key)
        handle = "" if recall_handle is None else HANDLE_PART % recall_handle
        header = (
            self._template % (message_id, queue_id, queue_offset, key, handle, opaque)
        ).encode()
        return FRONT.pack(len(header) + 4, len(header)) + header


def _json(text: str) -> str:
    return msgspec.json.encode(text).decode()
