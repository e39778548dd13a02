"""Looking on: snapshots for ``top``, and the clock."""
