"""The records that consumers are shown: with confirm=replicated, replicas that count have them.

Looked at as a broker reads them for a pull, on the disks themselves: an answer is on its way for a
while, and by then a follower may have what it lacked when it was shown.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from contextlib import closing

import attrs

from timermq.timerstore.record_layout import PHY_OFFSET_AT

from ..process import ROOT
from .replica_log import NAMES, log_of, records_in
from .replica_process import ReplicaNode

REPLICAS_MIN = 2
"""Disks that have a record before a consumer sees it, as ``min_in_sync_replicas`` of the plans."""


@attrs.define(eq=False)
class ShownRecords:
    """The rule about what one simulation's consumers are shown."""

    nodes: Sequence[ReplicaNode]
    in_sync: Callable[[ReplicaNode], list[ReplicaNode]]
    """The followers of a master that its operator would promote."""
    segment_size: int
    """Bytes of a segment of the log."""
    judged: int = attrs.field(default=0, init=False)
    """Records that the rule was held against."""
    _replicated: set[tuple[int, bytes]] = attrs.field(factory=set[tuple[int, bytes]], init=False)
    """Positions and bytes of what stood on enough disks once: what is lost later, was shown."""

    def look(self, node: ReplicaNode, items: Iterable[bytes]) -> None:
        """Hold the rule against what a broker has read for consumers.

        Args:
            node: Whose broker.
            items: Records; neighbours are one item.
        """
        for item in items:
            begin = 0
            while begin < len(item):
                record = bytes(item[begin : begin + int.from_bytes(item[begin : begin + 4])])
                begin += len(record)
                position = int.from_bytes(record[PHY_OFFSET_AT : PHY_OFFSET_AT + 8])
                if (position, record) not in self._replicated:
                    self._judge(node, position, record)

    def note_before_loss(self) -> None:
        """Remember what stands on enough disks, before one of them loses something."""
        seen: set[tuple[int, bytes]] = set()
        for node in self.nodes:
            found = set(records_in(log_of(node.disk, ROOT), self.segment_size))
            self._replicated |= seen & found
            seen |= found

    def _judge(self, node: ReplicaNode, position: int, record: bytes) -> None:
        self.judged += 1
        have = [one for one in self.nodes if self._has(one, position, record)]
        lacking = [one.name for one in self._counted(node) if one not in have]
        if len(have) >= REPLICAS_MIN and not lacking:
            self._replicated.add((position, record))
            return
        names = sorted(set(NAMES.findall(record.decode("latin-1"))))
        where = f"on {[one.name for one in have]} alone"
        node.complain(
            f"consumers see what is not replicated: {node.name} shows {names} at {position}, "
            + (f"{where}, and in sync are {lacking}" if lacking else where)
        )

    def _counted(self, node: ReplicaNode) -> Iterable[ReplicaNode]:
        return self.in_sync(node) if node.broker is not None and node.broker.role.is_master else ()

    def _has(self, node: ReplicaNode, position: int, record: bytes) -> bool:
        begin = position - position % self.segment_size
        path = f"{ROOT}/commitlog/{begin:020d}"
        if not node.disk.exists(path):
            return False
        with closing(node.disk.open(path, read_only=True)) as file:
            return file.read(position - begin, len(record)) == record
