"""The rule of the lease: while one broker leads, no other one writes to its log."""

from __future__ import annotations

from collections.abc import Sequence

import attrs

from .replica_process import ReplicaNode


@attrs.define(eq=False)
class LeaseRule:
    """The rule, held against every batch that a broker of one simulation writes by itself."""

    nodes: Sequence[ReplicaNode]
    judged: int = attrs.field(default=0, init=False)
    """Batches that the rule was held against."""

    def wrote(self, node: ReplicaNode) -> None:
        """Take note of a batch that a broker has written."""
        self.judged += 1
        for other in self.nodes:
            lease = None if other.broker is None else other.broker.lease
            if other is not node and lease is not None and lease.leads:
                node.complain(
                    f"two lead: {node.name} writes while {other.name} holds the lease, in epoch "
                    f"{lease.status().epoch}"
                )
