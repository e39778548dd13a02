"""The statistics of a store at one moment, for metrics, the terminal and tests."""

import attrs


@attrs.frozen(kw_only=True)
class StoreStatistics:
    """Counters since the store was opened, and positions now; sizes in bytes."""

    put_count: int
    """Messages stored."""
    put_size: int
    """Bytes of their records."""
    refused_count: int
    """Messages refused, for whatever reason."""
    flush_count: int
    """Syncs of the commit log."""
    min_phy_offset: int
    max_phy_offset: int
    flushed_where: int
    """Log position up to which everything is durable."""
    dispatched_to: int
    """Log position up to which the consume queues are complete."""
    indexed_to: int
    """Log position up to which the key index is complete."""
    queue_count: int
    last_store_ms: int
    """Store time of the newest message, 0 for an empty log."""
    disk_used_ratio: float
    """Used part of the disk, 0 to 1, as last measured."""
    refusal: str | None
    """Why sends are refused, None when they are taken."""
