"""The lease of a broker in Prometheus' words."""

from __future__ import annotations

from collections.abc import Iterator

from prometheus_client.core import Metric

from .metrics_snapshot import MetricsSnapshot
from .series import gauge


def lease_families(snapshot: MetricsSnapshot) -> Iterator[Metric]:
    """The families of a broker with a lease; none of another one."""
    lease = snapshot.statistics.lease
    if lease is None:
        return
    yield gauge("timermq_lease_leads", "1 while this broker leads by its lease", float(lease.leads))
    yield gauge(
        "timermq_lease_left_seconds", "How long it may lead without a renewal", lease.left_ms / 1000
    )
    yield gauge("timermq_lease_epoch", "The epoch in the lease, of whatever holder", lease.epoch)
    in_sync = len(lease.in_sync)
    yield gauge("timermq_lease_in_sync", "Followers that may take the lease", in_sync)
