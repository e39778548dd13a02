"""A command: one request or response, whatever its header is coded in.

Source: Java ``RemotingCommand``.
"""

from __future__ import annotations

import enum

import attrs

from .codes import FLAG_ONEWAY, FLAG_RESPONSE, VERSION, LanguageCode


class Coding(enum.IntEnum):
    """How a header is coded; each frame says it for itself, an answer follows its request."""

    JSON = 0
    ROCKETMQ = 1
    """RocketMQ's binary form."""
    CBOR = 2
    """Ours: a CBOR array."""


@attrs.define
class Command:
    """One request or response, in any of the codings."""

    code: int
    opaque: int = 0
    """Correlates a response with its request; unique for a client and a direction."""
    flag: int = 0
    language: LanguageCode = LanguageCode.PYTHON
    version: int = VERSION
    remark: str | None = None
    """Error text of a response."""
    ext: dict[str, str] = attrs.field(factory=dict[str, str])
    """Parameters or results, all as text."""
    body: bytes = b""
    coding: Coding = Coding.JSON

    @property
    def is_response(self) -> bool:
        """Whether it answers a request."""
        return bool(self.flag & FLAG_RESPONSE)

    @property
    def is_oneway(self) -> bool:
        """Whether it must not be answered."""
        return bool(self.flag & FLAG_ONEWAY)

    def answer(
        self,
        code: int,
        *,
        remark: str | None = None,
        ext: dict[str, str] | None = None,
        body: bytes = b"",
    ) -> Command:
        """The response to this request, in its coding."""
        return Command(
            code=int(code),
            opaque=self.opaque,
            flag=FLAG_RESPONSE,
            language=LanguageCode.JAVA,
            remark=remark,
            ext={} if ext is None else ext,
            body=body,
            coding=self.coding,
        )
