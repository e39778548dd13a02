"""Followers of a log of small segments, with trio's time set by hand."""

from __future__ import annotations

from typing import Any, cast

import attrs

from broker_rig import BROKER
from timermq.broker.options import BrokerOptions
from timermq.broker.replication.follower import Follower
from timermq.broker.replication.followers import Followers
from timermq.simulator.disks.memory_disk import MemoryDisk
from timermq.timerstore.commit_log import CommitLog, LogWrite

SEGMENT = 1_000
"""Bytes of a segment of the log."""


class Scene:
    """A master's log and its followers, without links."""

    def __init__(self, options: BrokerOptions = BROKER) -> None:
        self.options = attrs.evolve(options)
        self.now = 100.0
        self.log = CommitLog(MemoryDisk(), "/log", SEGMENT)
        self.followers = Followers(self.options, self.log, lambda: self.now)
        self.ended: dict[str, str] = {}
        """Address to the reason why its link was ended."""

    def grow(self, size: int) -> None:
        """Let the log grow; each byte tells where it stands."""
        while size:
            end = self.log.max_offset
            part = min(size, SEGMENT - end % SEGMENT)
            starts = [end] if end % SEGMENT == 0 else []
            data = bytes(at % 251 for at in range(end, end + part))
            self.log.append(starts, [LogWrite(end, data)])
            size -= part

    def link(self, first: int, broker_id: int | None = None, address: str = "h:1") -> Follower:
        """Link a follower whose log ends at ``first``."""

        def end(reason: str) -> None:
            self.ended[address] = reason

        return self.followers.add(address, broker_id, first, end)

    def copy(self, follower: Follower, upto: int | None = None) -> None:
        """Send it what it lacks, and have it acknowledge that, or a part."""
        end = self.log.max_offset
        self.followers.sent(follower, end - follower.sent)
        self.followers.acknowledge(follower, end if upto is None else upto)


def scene(**settings: object) -> Scene:
    """A scene with these settings."""
    return Scene(attrs.evolve(BROKER, **cast("Any", settings)))
