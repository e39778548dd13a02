"""Requests and answers of bulk scheduling."""

from __future__ import annotations

import cbor2
import pytest
from hypothesis import given
from hypothesis import strategies as st

from timermq.remoting.bulk import (
    PARTS_MAX,
    AskStatus,
    BlockStaged,
    BulkLimits,
    CommitJob,
    DropParts,
    JobOpened,
    JobState,
    JobStatus,
    OpenJob,
    PartsDropped,
    StageBlock,
    bulk_request,
    job_of,
    stage_request,
)
from timermq.remoting.command import Command
from timermq.remoting.errors import RemoteProtocolError

LIMITS = BulkLimits(
    precision_ms=1000,
    delay_max_ms=86_400_000,
    level_ms=(1_000, 5_000),
    body_size_max=4 << 20,
    properties_size_max=32_000,
    own_properties_size=120,
    block_size_max=4 << 20,
    block_rows_max=65_536,
    part_size_max=1 << 30,
    parts_max=10_000,
)
BODIES = [
    OpenJob(topics=("A", "B"), owner="stream-7"),
    JobOpened(
        state=JobState.OPEN,
        job_ms=7,
        limits=LIMITS,
        queue_counts={"A": 8, "B": 0},
        refused_topics={"B": "TOPIC_NOT_EXIST: there is no B"},
    ),
    BlockStaged(rows=3, is_whole=True),
    CommitJob(parts=(("run-0", 3), ("run-1", 0)), fingerprint="00ff"),
    AskStatus(after=3, limit=10, fingerprint="00ff"),
    JobStatus(
        state=JobState.DONE,
        job_ms=7,
        rows=4,
        adopted=3,
        refused=1,
        taken=True,
        refused_rows=(("run-0", 2, "TIMER_DELAY_TOO_LONG", "TIMER_DELAY_TOO_LONG: far"),),
        next=1,
    ),
    DropParts(parts=("run-0",), prefix="run-"),
    PartsDropped(dropped=2),
]
STAGE = StageBlock(job="J", part="run-0", block=3, is_last=True, topic="T")


@pytest.mark.parametrize("body", BODIES, ids=lambda body: type(body).__name__)
def test_bodies_in_both_directions(body: OpenJob) -> None:
    """What one side encodes is what the other one reads."""
    assert type(body).decode(body.encode()) == body


def test_a_body_is_a_map_with_the_names_of_its_fields() -> None:
    """Names that are not known are passed over; what is left out has its default."""
    said = {"parts": [["p", 1]], "fingerprint": "f"}
    body = CommitJob(parts=(("p", 1),), fingerprint="f").encode()
    assert said == cbor2.loads(body)  # pyright: ignore[reportUnknownMemberType]  # of no stubs
    assert CommitJob(parts=(("p", 1),)) == CommitJob.decode(cbor2.dumps({"parts": [["p", 1]]}))
    assert AskStatus() == AskStatus.decode(cbor2.dumps({"more": 1}))
    assert AskStatus() == AskStatus.decode(b"")


def test_a_block_is_named_by_its_parameters() -> None:
    """And the body is the block alone."""
    command = stage_request(STAGE, b"block")

    assert command.ext == {"job": "J", "part": "run-0", "block": "3", "last": "true", "topic": "T"}
    assert command.body == b"block"
    assert StageBlock.of(command) == STAGE


def test_a_request_names_its_job() -> None:
    """In a parameter, whatever its body is."""
    assert job_of(bulk_request("J.1", DropParts())) == "J.1"


@pytest.mark.parametrize("name", ["", ".", "..", "a/b", "-a", "a b", "ä", "x" * 101, "a\n"])
def test_names_are_those_of_files(name: str) -> None:
    """Nothing that leads out of a directory, is hidden or cannot be seen."""
    with pytest.raises(RemoteProtocolError, match=r"^BULK_JOB: expected a name|^FIELD"):
        job_of(Command(9020, ext={"job": name}))
    with pytest.raises(RemoteProtocolError, match="BULK_PART: expected a name"):
        CommitJob(parts=((name, 1),))


@pytest.mark.parametrize(
    ("kind", "item", "text"),
    [
        (CommitJob, {"parts": [["p", 1], ["p", 1]]}, "BULK_PART: a part is named twice"),
        (CommitJob, {"parts": [[str(n), 1] for n in range(PARTS_MAX + 1)]}, "Length of 'parts'"),
        (CommitJob, {"parts": [["p"]]}, "Expected `array` of length 2"),
        (CommitJob, {"parts": [], "fingerprint": "f" * 129}, "Length of 'fingerprint'"),
        (CommitJob, {}, "missing required field `parts`"),
        (AskStatus, {"limit": 1001}, "'limit' must be <= 1000"),
        (AskStatus, {"after": -1}, "'after' must be >= 0"),
        (OpenJob, {"topics": ["T"] * 257}, "Length of 'topics'"),
        (JobStatus, {"state": "lost", "job_ms": 1}, "Invalid enum value 'lost'"),
        (OpenJob, [1], "Expected `object`"),
    ],
)
def test_values_out_of_range_are_refused(kind: type[OpenJob], item: object, text: str) -> None:
    """With one error, which says what is wrong."""
    with pytest.raises(RemoteProtocolError, match=text):
        kind.decode(cbor2.dumps(item))


@given(st.binary(max_size=60))
def test_random_bytes_are_refused_or_read(data: bytes) -> None:
    """With the one error, whatever they are."""
    for body in BODIES:
        try:
            found = type(body).decode(data)
        except RemoteProtocolError as error:
            assert error.remark.startswith(("BULK_BODY: ", "BULK_PART: "))  # noqa: PT017 - either
        else:
            assert type(body).decode(found.encode()) == found


@pytest.mark.parametrize("block", ["-1", "65536", "x", ""])
def test_numbers_of_blocks(block: str) -> None:
    """The number of a block is refused below 0, above 65535, and where it is no number."""
    with pytest.raises(RemoteProtocolError):
        StageBlock.of(Command(9021, ext={**STAGE.to_ext(), "block": block}))
