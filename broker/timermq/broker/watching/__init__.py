"""Watching a broker: snapshots for ``top``, and the clock."""
