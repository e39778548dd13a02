"""Bulk scheduling (9020 to 9024): a job's messages are staged, committed at once, and ingested.

A job is named by its driver. Any number of tasks stage parts of it; one commit names the parts
that count, and that one step decides: before it nothing of the job exists, behind it every row is
ingested by the broker exactly once, or refused by a rule and remembered::

    driver   BULK_OPEN       job                       state, the job's moment, the broker's limits
    task     BULK_STAGE      job, part, block 0        told when it has arrived
             BULK_STAGE      job, part, block 1, last  told when the whole part is on the disk
    driver   BULK_COMMIT     job, [part, rows] …       told when it is decided, for good
    driver   BULK_STATUS     job                       rows ingested and refused, until it is done

- Every request has the parameter ``job``; bodies are CBOR maps with the names of the fields below,
  but for BULK_STAGE, whose body is a block (``bulk_block``). Unknown names are passed over.
- A part belongs to one attempt of one task: its name is new with every attempt. Blocks come one
  after the other, numbered from 0. The newest one may be sent again (its answer was lost), and
  block 0 begins the part again. A part without its last block is none; a broker that restarts
  forgets it, and answers BULK_PART_UNKNOWN: the task begins again with block 0.
- The first commit of a job wins. Any further one is answered with the state of the first
  (``taken`` says whether it named the same parts), and the parts that were not taken are dropped:
  so a lost answer, a rerun of the driver and two drivers with one name change nothing.
- A driver that states a fingerprint of its rows with BULK_COMMIT, or with BULK_STATUS of a job
  that is decided, is refused (BULK_JOB_DIFFERS) where the first commit stated another one: its
  rows are not those of the job. Nothing is compared where either has stated none.
- Delays count from ``job_ms``, the moment of the first BULK_OPEN by the broker's clock, which the
  broker keeps: a rerun asks for the same moments.
- A row is named by its part and its number there, from 0. Its unique key is made by the broker.
- A refusal has one remark, its rule first: BULK_JOB, BULK_JOB_DIFFERS, BULK_OWNER, BULK_PART
  (names), BULK_BLOCK, BULK_BODY, BULK_ORDER, BULK_ROWS, BULK_PART_UNKNOWN, BULK_PART_DAMAGED,
  BULK_HANDED_OVER, BULK_DAMAGED, NO_PERMISSION, BULK_JOBS_MAX, BULK_PARTS_MAX, BULK_STAGED_MAX,
  BULK_DISK. Those with code 2 (SYSTEM_BUSY) are for a while: ask again later.
"""

from __future__ import annotations

import enum
import re
from collections.abc import Mapping
from typing import TypeVar

import attrs
import cbor2
import msgspec
from attrs.validators import and_, ge, le, max_len

from .cbor import CborError, decode_cbor
from .codes import RequestCode, ResponseCode
from .command import Coding, Command
from .errors import RemoteProtocolError
from .field import boolean, integer, text

NAME_SIZE_MAX = 100
"""Characters of the name of a job or a part."""
NAME = re.compile(rf"[A-Za-z0-9_][A-Za-z0-9_.-]{{0,{NAME_SIZE_MAX - 1}}}")
"""Names are those of files: letters, digits, ``_``, ``-`` and ``.``, which is not the first."""
PARTS_MAX = 10_000
"""Parts of one commit."""
FINGERPRINT_SIZE_MAX = 128
"""Characters of a fingerprint."""
BLOCKS_MAX = 65_536
"""Blocks of one part."""
TOPICS_MAX = 256
"""Topics that one BULK_OPEN asks for."""
REFUSED_ROWS_MAX = 1_000
"""Refused rows in one answer."""
BODY_SIZE_MAX = 2 << 20
"""Bytes of a body of any of these, blocks aside: the parts of a commit."""

RefusedRow = tuple[str, int, str, str]
"""Part, row there, rule and remark of a row that the broker refused when it ingested it."""

_NO_FIELDS = cbor2.dumps({})
_Body = TypeVar("_Body", bound="_BulkBody")


class JobState(enum.StrEnum):
    """How far a job is."""

    OPEN = "open"
    """Parts are staged; nothing of it counts yet."""
    COMMITTED = "handed over"
    """Committed: the broker ingests its rows. Those are ``adopted`` on the wire."""
    DONE = "done"
    """Every row is stored for good, or refused and remembered."""


class _BulkBody:
    """A body that is a CBOR map of its fields."""

    def encode(self) -> bytes:
        """The fields as a CBOR map."""
        return cbor2.dumps(msgspec.to_builtins(self))

    @classmethod
    def decode(cls: type[_Body], body: bytes) -> _Body:
        """Read the body; nothing at all is a map without fields.

        Raises:
            RemoteProtocolError: Malformed, too large, or a value out of its range.
        """
        try:
            item = decode_cbor(body or _NO_FIELDS, size_max=BODY_SIZE_MAX)
            return msgspec.convert(item, cls)
        except (CborError, msgspec.ValidationError, ValueError) as error:
            raise RemoteProtocolError(
                ResponseCode.INVALID_PARAMETER, f"BULK_BODY: {error}"
            ) from error


@attrs.frozen(kw_only=True)
class OpenJob(_BulkBody):
    """BULK_OPEN: begins a job, or asks how one that is known stands."""

    topics: tuple[str, ...] = attrs.field(default=(), validator=max_len(TOPICS_MAX))
    """Those that rows are to go to; they are made as a send would make them."""
    owner: str = attrs.field(default="", validator=max_len(NAME_SIZE_MAX))
    """Whom the job belongs to, from its first BULK_OPEN on: a stream. Empty: any caller."""


@attrs.frozen(kw_only=True)
class BulkLimits(_BulkBody):
    """The broker's limits; sizes in bytes, times in milliseconds.

    A row beyond these is refused when it is ingested; a sink may say so earlier.
    """

    precision_ms: int
    """Width of a slot of the wheel; moments are kept to the millisecond."""
    delay_max_ms: int
    """Farthest moment, from the time of the ingestion; 0: the broker has no wheel."""
    level_ms: tuple[int, ...]
    """Delays of the levels, level 1 first."""
    body_size_max: int
    properties_size_max: int
    """Of the text ``name 0x01 value 0x02`` of all properties, with those of the broker: see
    ``own_properties_size``."""
    own_properties_size: int
    """The properties that the broker adds to them."""
    block_size_max: int
    block_rows_max: int
    part_size_max: int
    parts_max: int


@attrs.frozen(kw_only=True)
class JobOpened(_BulkBody):
    """Answer to BULK_OPEN: how the job stands, its moment, the broker's limits, its topics."""

    state: JobState
    job_ms: int
    """The moment from which delays count, epoch milliseconds; the same whenever it is opened."""
    limits: BulkLimits
    queue_counts: dict[str, int]
    """Queues of the topics that were asked for, 0: there is no such topic yet."""
    refused_topics: dict[str, str] = attrs.Factory(dict[str, str])
    """Those of them that take no messages, and the remark of a send there, its rule first."""


@attrs.frozen(kw_only=True)
class StageBlock:
    """BULK_STAGE: the parameters of a block; the body is the block itself."""

    job: str
    part: str
    block: int
    """From 0."""
    is_last: bool
    """The part is whole with it, and durable when this is answered."""
    topic: str
    """That of the block: rights are asked for by it."""

    def to_ext(self) -> dict[str, str]:
        """The parameters of the request."""
        return {
            "job": self.job,
            "part": self.part,
            "block": str(self.block),
            "last": str(self.is_last).lower(),
            "topic": self.topic,
        }

    @classmethod
    def of(cls, command: Command) -> StageBlock:
        """Read them.

        Raises:
            RemoteProtocolError: One is missing or out of its range.
        """
        block = integer(command, "block")
        if not 0 <= block < BLOCKS_MAX:
            raise _refused("BULK_ORDER", f"block: expected 0 to {BLOCKS_MAX - 1}, found {block}")
        return cls(
            job=job_of(command),
            part=checked_name("BULK_PART", text(command, "part")),
            block=block,
            is_last=boolean(command, "last"),
            topic=text(command, "topic"),
        )


@attrs.frozen(kw_only=True)
class BlockStaged(_BulkBody):
    """Answer to BULK_STAGE: how much of the part has arrived."""

    rows: int
    """Of the part so far."""
    is_whole: bool
    """The part is on the disk, and may be committed."""


@attrs.frozen(kw_only=True)
class CommitJob(_BulkBody):
    """BULK_COMMIT: the parts that make the job, each with its number of rows."""

    parts: tuple[tuple[str, int], ...] = attrs.field(validator=max_len(PARTS_MAX))
    """None at all is a job without rows: done at once."""
    fingerprint: str = attrs.field(default="", validator=max_len(FINGERPRINT_SIZE_MAX))
    """Of the rows as the driver has them, which the broker keeps and compares: the same for the
    same rows, whatever parts they stand in. Empty: none."""

    def __attrs_post_init__(self) -> None:
        """Refuse names that are none, or stand twice."""
        for part, _ in self.parts:
            checked_name("BULK_PART", part)
        if len({part for part, _ in self.parts}) < len(self.parts):
            raise _refused("BULK_PART", "a part is named twice")


@attrs.frozen(kw_only=True)
class AskStatus(_BulkBody):
    """BULK_STATUS, with a page of the refused rows."""

    after: int = attrs.field(default=0, validator=ge(0))
    """Start of the page: 0, or ``next`` of the page before."""
    limit: int = attrs.field(default=0, validator=and_(ge(0), le(REFUSED_ROWS_MAX)))
    """Refused rows to be told."""
    fingerprint: str = attrs.field(default="", validator=max_len(FINGERPRINT_SIZE_MAX))
    """Of the rows that the job is expected to have, if it is decided. Empty: any."""


@attrs.frozen(kw_only=True)
class JobStatus(_BulkBody):
    """Answer to BULK_STATUS and BULK_COMMIT."""

    state: JobState
    job_ms: int
    rows: int = 0
    """Rows of the parts that were committed."""
    adopted: int = 0
    """Rows that are stored, and durable."""
    refused: int = 0
    """Rows that a rule of the broker refused; durable too."""
    held_up: str | None = None
    """Why nothing is ingested now (a full disk, a full slot); it goes on by itself."""
    taken: bool = False
    """To BULK_COMMIT: the parts that it named are the ones that count."""
    refused_rows: tuple[RefusedRow, ...] = ()
    """In the order in which they were refused."""
    next: int | None = None
    """Start of the next page; None: there is nothing more now."""


@attrs.frozen(kw_only=True)
class DropParts(_BulkBody):
    """BULK_DROP: parts that will not be committed; committed ones are not touched."""

    parts: tuple[str, ...] = attrs.field(default=(), validator=max_len(PARTS_MAX))
    """Those that there are not are passed over."""
    prefix: str = ""
    """All parts, too, whose names begin so: those of one run of the driver. Empty: none."""


@attrs.frozen(kw_only=True)
class PartsDropped(_BulkBody):
    """Answer to BULK_DROP: how many parts were dropped."""

    dropped: int


BulkRequest = OpenJob | CommitJob | AskStatus | DropParts
CODES: Mapping[type[BulkRequest], int] = {
    OpenJob: RequestCode.BULK_OPEN,
    CommitJob: RequestCode.BULK_COMMIT,
    AskStatus: RequestCode.BULK_STATUS,
    DropParts: RequestCode.BULK_DROP,
}


def job_of(command: Command) -> str:
    """The job that a request names.

    Raises:
        RemoteProtocolError: None, or what is no name.
    """
    return checked_name("BULK_JOB", text(command, "job"))


def bulk_request(job: str, body: BulkRequest, *, opaque: int = 0) -> Command:
    """A request about a job, for all but BULK_STAGE."""
    return Command(
        CODES[type(body)],
        opaque=opaque,
        ext={"job": job},
        body=body.encode(),
        coding=Coding.CBOR,
    )


def stage_request(stage: StageBlock, block: bytes, *, opaque: int = 0) -> Command:
    """A BULK_STAGE request, with a block as its body."""
    return Command(
        RequestCode.BULK_STAGE, opaque=opaque, ext=stage.to_ext(), body=block, coding=Coding.CBOR
    )


def checked_name(rule: str, name: str) -> str:
    """A name of a job or a part as it is.

    Raises:
        RemoteProtocolError: It is none; ``rule`` says of what.
    """
    if NAME.fullmatch(name) is None:
        raise _refused(
            rule,
            f"expected a name of 1 to {NAME_SIZE_MAX} letters, digits, '_', '-' and '.', not "
            f"beginning with '-' or '.', found {name[:NAME_SIZE_MAX]!a}",
        )
    return name


def _refused(rule: str, reason: str) -> RemoteProtocolError:
    return RemoteProtocolError(ResponseCode.INVALID_PARAMETER, f"{rule}: {reason}")
