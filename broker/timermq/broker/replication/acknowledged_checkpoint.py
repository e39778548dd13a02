"""The timer checkpoint as slaves may know it: only what their logs have the deliveries of.

A slave of RocketMQ's takes the read time of its master as its own, by a request of its own, while
the log comes on the link. Told a time that its log has not reached, it would pass over slots whose
deliveries it never got, and lose them when it leads. So a checkpoint is told when all followers
have acknowledged the log as it was when the checkpoint was first asked for, and an older one until
then.

Source: Java ``TimerMessageStore.syncLastReadTimeMs``, ``SlaveSynchronize.syncTimerCheckPoint``.
"""

from __future__ import annotations

from collections import deque

import attrs

SAMPLES_MAX = 256
"""Checkpoints that wait for their acknowledgement; a slave asks every three seconds."""


@attrs.frozen
class _Sample:
    end: int
    """End of the log when the checkpoint was looked at: all that it tells of stands before."""
    page: bytes


@attrs.define(eq=False)
class AcknowledgedCheckpoint:
    """The checkpoints of the last requests."""

    _samples: deque[_Sample] = attrs.field(factory=deque[_Sample])
    _known: _Sample | None = None
    """The newest that all have acknowledged."""

    def answer(self, page: bytes, end: int, acknowledged: int | None) -> bytes | None:
        """The checkpoint to tell.

        Args:
            page: The checkpoint as it is.
            end: End of the log.
            acknowledged: Everything before it is in the logs of all followers; None without any.

        Returns:
            None while the followers have acknowledged none.
        """
        if acknowledged is None:
            return page
        if len(self._samples) < SAMPLES_MAX:
            self._samples.append(_Sample(end, page))
        while self._samples and self._samples[0].end <= acknowledged:
            self._known = self._samples.popleft()
        if self._known is None or self._known.end > acknowledged:
            return None
        return self._known.page
