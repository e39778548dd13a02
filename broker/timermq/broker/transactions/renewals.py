"""Renewals: half messages are written again at the end of their queue.

They go in batches, one write each. A batch that is refused for ever is tried one by one, so that
what can never be renewed holds up nothing else: it keeps its place, and the log from there on. Its
checks count as any other's, in memory, so that it ends as any other: by its producer, or discarded.
A new process counts from the record again. There are such half messages because older versions and
Java brokers took properties up to the last byte.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import attrs
import structlog

from timermq.pipeline.quarantine.quarantine import HOPELESS
from timermq.timerstore.message import Message
from timermq.timerstore.message_store import MessageStore
from timermq.timerstore.put_status import PutResult

from .half_message import HalfMessage, decode_half, renewed
from .op_message import Ending, Mark
from .open_transactions import OpenTransactions

log = structlog.get_logger("timermq.broker.transactions")


@attrs.frozen(eq=False)
class Renewals:
    """Renews half messages, and counts checks that no record has."""

    _store: MessageStore
    _open: OpenTransactions
    _put: Callable[[Sequence[Message], Mark], list[PutResult]]
    """Stores messages and an op message behind them, all or none."""
    _uncounted: dict[int, int] = attrs.field(factory=dict[int, int], init=False)
    """Checks by name, of half messages that cannot be renewed."""

    def counted(self, half: HalfMessage) -> HalfMessage:
        """A half message with all its checks, also those that its record does not tell."""
        uncounted = self._uncounted.get(half.name, 0)
        return attrs.evolve(half, check_times=half.check_times + uncounted) if uncounted else half

    def end(self, name: int) -> None:
        """Drop the checks of a transaction that has ended."""
        self._uncounted.pop(name, None)

    def renew(self, halves: Sequence[HalfMessage], *, is_check: bool) -> list[HalfMessage]:
        """Store half messages again; see ``Transactions.renew``."""
        if not halves:
            return []
        copies = [renewed(half, is_check=is_check) for half in halves]
        offsets = tuple(half.queue_offset for half in halves)
        results = self._put(copies, Mark(ending=Ending.RENEWED, offsets=offsets))
        refusal = results[0]
        if refusal.status in HOPELESS:
            if len(halves) > 1:
                return self._renew_each(halves, is_check=is_check)
            return [self._keep(halves[0], refusal, is_check=is_check)]
        if not refusal.status.is_stored:
            log.warning("half messages not renewed", reason=refusal.remark)
            return []
        return [self._take(*pair) for pair in zip(halves, results, strict=False)]

    def _take(self, half: HalfMessage, result: PutResult) -> HalfMessage:
        """Note a renewed half message as the newest of its transaction."""
        self._open.put(half.name, result.queue_offset)
        self._uncounted.pop(half.name, None)
        data = self._store.commit_log.record_at(result.phy_offset, result.size)
        assert data is not None, "a record that was just written"
        return decode_half(data)

    def _renew_each(self, halves: Sequence[HalfMessage], *, is_check: bool) -> list[HalfMessage]:
        """A write each, until the store takes no more for a while."""
        found: list[HalfMessage] = []
        for half in halves:
            some = self.renew([half], is_check=is_check)
            if not some:
                break
            found += some
        return found

    def _keep(self, half: HalfMessage, refusal: PutResult, *, is_check: bool) -> HalfMessage:
        """The half message as it is, since no renewal of it can be stored."""
        log_stuck("half message not renewed: it keeps its place in the log", half, refusal)
        if not is_check:
            return half
        self._uncounted[half.name] = self._uncounted.get(half.name, 0) + 1
        return attrs.evolve(half, check_times=half.check_times + 1)


def log_stuck(text: str, half: HalfMessage, refusal: PutResult) -> None:
    """Say what the store refuses for ever, and of which transaction."""
    log.error(
        text,
        topic=half.topic,
        group=half.group,
        unique_key=half.unique_key,
        phy_offset=half.phy_offset,
        reason=refusal.remark,
    )
