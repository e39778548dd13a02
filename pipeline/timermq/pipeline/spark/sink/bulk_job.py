"""One job of bulk scheduling, as its driver and its tasks see it: requests and their answers."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from typing import TypeVar

from timermq.remoting import RemoteProtocolError
from timermq.remoting.bulk import (
    PARTS_MAX,
    REFUSED_ROWS_MAX,
    TOPICS_MAX,
    AskStatus,
    BlockStaged,
    BulkRequest,
    CommitJob,
    DropParts,
    JobOpened,
    JobState,
    JobStatus,
    OpenJob,
    PartsDropped,
    RefusedRow,
    StageBlock,
    bulk_request,
    stage_request,
)

from ..errors import BulkRefusedError, SparkJobError
from .broker_link import BrokerLink

_Answer = TypeVar("_Answer")

LOOK_SECONDS = 0.1
"""Between two looks at a job that is being adopted."""


class BulkJob:
    """A job at a broker.

    Args:
        link: To the broker.
        name: Of the job.
        owner: Of the stream that the job belongs to; empty for a batch job.
    """

    def __init__(self, link: BrokerLink, name: str, *, owner: str = "") -> None:
        self.name = name
        self._link = link
        self._owner = owner

    def open(self) -> JobOpened:
        """Begin the job, or ask how it stands.

        Raises:
            SparkJobError: The broker refuses (another owner), or there is none.
        """
        return self._open(())

    def topic_refusals(self, topics: Sequence[str]) -> dict[str, str]:
        """Which of some topics take no messages, and the broker's remark.

        Raises:
            SparkJobError: The broker refuses, or has gone.
        """
        found: dict[str, str] = {}
        for first in range(0, len(topics), TOPICS_MAX):
            opened = self._open(tuple(topics[first : first + TOPICS_MAX]))
            found.update(opened.refused_topics)
        return found

    def _open(self, topics: tuple[str, ...]) -> JobOpened:
        request = OpenJob(topics=topics, owner=self._owner)
        return self._read(JobOpened.decode, self._ask(request))

    def stage(self, part: str, block: int, topic: str, data: bytes, *, is_last: bool) -> int:
        """Stage a block; the rows of the part so far.

        Raises:
            SparkJobError: The broker refuses, or has gone.
        """
        stage = StageBlock(job=self.name, part=part, block=block, is_last=is_last, topic=topic)
        return self._read(
            lambda body: BlockStaged.decode(body).rows,
            self._link.call(stage_request(stage, data)).body,
        )

    def hand_over(self, parts: Sequence[tuple[str, int]], *, fingerprint: str = "") -> JobStatus:
        """Decide what the job is made of, unless that is decided.

        Args:
            parts: Of this run.
            fingerprint: Of their rows; empty: whatever was handed over before counts.

        Raises:
            BulkRefusedError: Other rows were handed over under the name (BULK_JOB_DIFFERS).
            SparkJobError: The broker refuses, or has gone: perhaps it is decided, a rerun tells.
        """
        if len(parts) > PARTS_MAX:
            raise SparkJobError(
                f"job {self.name}: expected at most {PARTS_MAX} parts, found {len(parts)}: give it "
                "fewer partitions"
            )
        return self._status(CommitJob(parts=tuple(parts), fingerprint=fingerprint))

    def status(self, after: int = 0, *, limit: int = 0, fingerprint: str = "") -> JobStatus:
        """How far the job is, with a page of the rows that the broker refused.

        Args:
            after: Where the page begins.
            limit: Rows of it.
            fingerprint: Of the rows that the job is expected to have; empty: any.

        Raises:
            BulkRefusedError: Other rows were handed over under the name (BULK_JOB_DIFFERS).
            SparkJobError: There is no such job, or no broker.
        """
        limit = min(limit, REFUSED_ROWS_MAX)
        return self._status(AskStatus(after=after, limit=limit, fingerprint=fingerprint))

    def refused_rows(self) -> Iterator[list[RefusedRow]]:
        """All rows that the broker refused, page by page.

        Raises:
            SparkJobError: There is no such job, or no broker.
        """
        after: int | None = 0
        while after is not None:
            page = self.status(after, limit=REFUSED_ROWS_MAX)
            if page.refused_rows:
                yield list(page.refused_rows)
            after = page.next

    def known_status(self) -> JobStatus | None:
        """The same, or None when the broker does not know the job.

        Raises:
            SparkJobError: There is no broker, or it refuses for another reason.
        """
        try:
            return self.status()
        except BulkRefusedError as error:
            if error.rule == "BULK_JOB":
                return None
            raise

    def until_done(self, *, sleep: Callable[[float], None] = time.sleep) -> JobStatus:
        """Wait until every row is stored for good or refused.

        Raises:
            SparkJobError: The broker has gone: it goes on when it is back.
        """
        while (status := self.status()).state is not JobState.DONE:
            sleep(LOOK_SECONDS)
        return status

    def drop(self, parts: Sequence[str]) -> int:
        """Let parts go that will not be committed; how many there were.

        Raises:
            SparkJobError: The broker has gone.
        """
        dropped = 0
        for first in range(0, len(parts), PARTS_MAX):
            answer = self._ask(DropParts(parts=tuple(parts[first : first + PARTS_MAX])))
            dropped += self._read(lambda body: PartsDropped.decode(body).dropped, answer)
        return dropped

    def _status(self, request: CommitJob | AskStatus) -> JobStatus:
        return self._read(JobStatus.decode, self._ask(request))

    def _ask(self, request: BulkRequest) -> bytes:
        return self._link.call(bulk_request(self.name, request)).body

    def _read(self, read: Callable[[bytes], _Answer], body: bytes) -> _Answer:
        try:
            return read(body)
        except RemoteProtocolError as error:
            raise SparkJobError(
                f"broker {self._link.address}: expected an answer about job {self.name}: "
                f"{error.remark}"
            ) from None
