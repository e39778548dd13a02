"""Requests of a follower to its master, one after the other over one connection.

Source: Java ``BrokerOuterAPI``: ``getAllTopicConfig`` and others.
"""

from __future__ import annotations

import itertools
import json
import re
from collections.abc import Mapping
from typing import cast

import attrs
import trio

from timermq.remoting.admin_body import decode_properties
from timermq.remoting.codes import VERSION, LanguageCode, RequestCode, ResponseCode
from timermq.remoting.command import Command
from timermq.remoting.connection import FrameConnection
from timermq.remoting.errors import RemoteProtocolError
from timermq.timerlog.timer_checkpoint import CHECKPOINT
from timermq.timerstore.config_file import parse_table
from timermq.timerstore.errors import StoreFormatError

from ..namesrv.name_server_link import Sign, unsigned
from .follow_state import FollowError
from .greeting import OURS

RECEIVE_SIZE = 64 << 10
ANSWER_TIMEOUT = 30.0
"""Seconds that a master has for an answer, as in RocketMQ from 5.4 on."""
FRAME_SIZE_MAX = 256 << 20
"""Bytes of an answer: a table may have many topics."""
PAGE_COUNT = 2_000
"""Topics or groups asked for at a time."""
NUMBER_DIGITS_MAX = 20

_CLOSED = "the master has closed the connection: if it takes TLS alone, set replica_tls_enable"
_RUNTIME = re.compile(r"(\d[^a-z]*) days, (\d+) hours, (\d+) minutes, (\d+) seconds")


@attrs.frozen(kw_only=True)
class MasterFacts:
    """What a master says of itself."""

    broker_name: str
    ha_port: int | None
    """Of its replication link; None: it has none."""
    segment_size: int | None
    is_ours: bool


@attrs.frozen(kw_only=True)
class MasterLog:
    """How far a master's log reaches, and what its clock shows."""

    start: int
    end: int
    now_ms: int | None = None
    """Epoch milliseconds, rounded up; None: it does not say."""


@attrs.frozen(kw_only=True)
class MasterTimer:
    """How far a master's timers are."""

    read_ms: int
    """Slots before it are delivered."""
    queue_offset: int
    """Entries of the timer topic before it are linked."""


class RefusedCallError(FollowError):
    """The master has answered, and not with what was asked for."""


class MasterCalls:
    """The requests.

    Args:
        stream: Connected to the master's port for clients.
        sign: Signs the requests.
    """

    def __init__(self, stream: trio.abc.Stream, sign: Sign = unsigned) -> None:
        self._stream = stream
        self._sign = sign
        self._frames = FrameConnection(frame_size_max=FRAME_SIZE_MAX)
        self._opaques = itertools.count(1)

    async def call(self, code: int, ext: Mapping[str, str] | None = None) -> Command:
        """Ask one question; the answer, if it is a success.

        Raises:
            RefusedCallError: The master refuses.
            FollowError: It does not answer.
        """
        opaque = next(self._opaques) & 0x7FFFFFFF
        command = Command(
            code,
            opaque=opaque,
            language=LanguageCode.JAVA,
            version=VERSION,
            ext=dict(ext or {}),
        )
        with trio.move_on_after(ANSWER_TIMEOUT):
            try:
                await self._stream.send_all(self._frames.encode(self._sign(command)))
                answer = await self._answer(opaque)
            except (trio.BrokenResourceError, trio.ClosedResourceError) as error:
                raise FollowError("MASTER", f"{_CLOSED} ({error})") from error
            except RemoteProtocolError as error:
                raise FollowError("MASTER", error.remark) from error
            if answer.code == ResponseCode.NO_PERMISSION:
                raise FollowError(
                    "ACCOUNT",
                    f"request {code} is refused: {answer.remark}: expected an administrator's "
                    "account (credentials_file), or a white address at the master",
                )
            if answer.code != ResponseCode.SUCCESS:
                raise RefusedCallError(
                    "MASTER", f"request {code} is refused with {answer.code}: {answer.remark}"
                )
            return answer
        raise FollowError("MASTER", f"no answer to {code} within {ANSWER_TIMEOUT:g} s")

    async def _answer(self, opaque: int) -> Command:
        while True:
            for command in self._frames.events():
                if command.is_response and command.opaque == opaque:
                    return command
            data = await self._stream.receive_some(RECEIVE_SIZE)
            if not data:
                raise FollowError("MASTER", _CLOSED)
            self._frames.receive_data(bytes(data))

    async def facts(self) -> MasterFacts:
        """The master's name, and where it feeds followers (26)."""
        answer = await self.call(RequestCode.GET_BROKER_CONFIG)
        try:
            values = decode_properties(answer.body)
        except RemoteProtocolError as error:
            raise FollowError("MASTER", error.remark) from error
        return MasterFacts(
            broker_name=values.get("brokerName", ""),
            ha_port=_number(values.get("haListenPort")),
            segment_size=_number(values.get("mappedFileSizeCommitLog")),
            is_ours=values.get(OURS) == "1",
        )

    async def log(self) -> MasterLog:
        """The ends of its log, and the time on its clock (28)."""
        code = RequestCode.GET_BROKER_RUNTIME_INFO
        table = _object(_table(code, await self.call(code)).get("table"))
        start, end = (
            _number(table.get("commitLogMinOffset")),
            _number(table.get("commitLogMaxOffset")),
        )
        if start is None or end is None:
            raise FollowError("MASTER", "runtime info: expected the ends of the log, found none")
        boot_ms, runtime_ms = _number(table.get("bootTimestamp")), _runtime_ms(table.get("runtime"))
        now_ms = None if boot_ms is None or runtime_ms is None else boot_ms + runtime_ms
        return MasterLog(start=max(start, 0), end=end, now_ms=now_ms)

    async def timer(self) -> MasterTimer | None:
        """The positions of its timers (60); None: it has none."""
        answer = await self.call(RequestCode.GET_TIMER_CHECK_POINT)
        if len(answer.body) < CHECKPOINT.size:
            return None
        read_ms, _, linked, *_ = CHECKPOINT.struct.unpack_from(answer.body)
        return MasterTimer(read_ms=read_ms, queue_offset=linked)

    async def pending(self) -> dict[str, int]:
        """Numbers of its pending messages, by topic (61)."""
        code = RequestCode.GET_TIMER_METRICS
        counts = _object(_table(code, await self.call(code)).get("timingCount"))
        found = {topic: _number(_object(one).get("count")) for topic, one in counts.items()}
        return {topic: count for topic, count in found.items() if count is not None}

    async def topics(self) -> dict[str, object]:
        """All topics, with the version of the table (21)."""
        return await self._pages(
            RequestCode.GET_ALL_TOPIC_CONFIG, "topicConfigTable", "topicSeq", "Topic"
        )

    async def groups(self) -> dict[str, object]:
        """All consumer groups, the same (201)."""
        return await self._pages(
            RequestCode.GET_ALL_SUBSCRIPTIONGROUP_CONFIG,
            "subscriptionGroupTable",
            "groupSeq",
            "Group",
        )

    async def consumer_offsets(self) -> dict[str, object]:
        """What consumers have committed (43)."""
        code = RequestCode.GET_ALL_CONSUMER_OFFSET
        return _table(code, await self.call(code))

    async def delay_offsets(self) -> dict[str, object]:
        """How far the classic levels are (45)."""
        code = RequestCode.GET_ALL_DELAY_OFFSET
        return _table(code, await self.call(code))

    async def record(self, phy_offset: int) -> bytes:
        """The record at a position of its log (33)."""
        answer = await self.call(
            RequestCode.VIEW_MESSAGE_BY_ID, {"offset": str(phy_offset), "topic": ""}
        )
        return answer.body

    async def _pages(self, code: int, name: str, seq: str, kind: str) -> dict[str, object]:
        """A table that is read page by page; masters before 5.4 give all of it at once.

        A table that changes meanwhile is read from its first page again.
        """
        whole: dict[str, object] = {}
        entries: dict[str, object] = {}
        version: object = None
        begin = 0
        while True:
            text = "" if version is None else json.dumps(version)
            ext = {seq: str(begin), f"max{kind}Num": str(PAGE_COUNT), "dataVersion": text}
            answer = await self.call(code, ext)
            page = _table(code, answer)
            if page.get("dataVersion") != version:
                whole, entries, version, begin = page, {}, page.get("dataVersion"), 0
            found = _object(page.get(name))
            entries |= found
            begin += len(found)
            total = _number(answer.ext.get(f"total{kind}Num"))
            if total is None or begin >= total or not found:
                return {**whole, name: entries}


def _table(code: int, answer: Command) -> dict[str, object]:
    """The object in a body, as RocketMQ's JSON writer has it."""
    try:
        return _object(parse_table(f"answer to {code}", answer.body))
    except StoreFormatError as error:
        raise FollowError("MASTER", str(error)) from error


def _object(value: object) -> dict[str, object]:
    """An object, keys as texts; an empty one for anything else."""
    if not isinstance(value, dict):
        return {}
    return {str(key): item for key, item in cast("dict[object, object]", value).items()}


def _runtime_ms(value: object) -> int | None:
    """How long a broker runs, rounded up to seconds; None of another text.

    Java groups the digits of many days by a sign of its locale.
    """
    found = _RUNTIME.search(str(value))
    if found is None:
        return None
    days, hours, minutes, seconds = (int(re.sub(r"\D", "", part)) for part in found.groups())
    return (((days * 24 + hours) * 60 + minutes) * 60 + seconds + 1) * 1000


def _number(value: object) -> int | None:
    """A number, or the text of one; None for anything else."""
    text = str(value)
    is_number = text.removeprefix("-").isdecimal() and len(text) <= NUMBER_DIGITS_MAX
    return int(text) if is_number else None
