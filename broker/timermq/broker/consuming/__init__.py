"""The way out: pulls, filters, offsets, locks, and what comes back for another try."""
