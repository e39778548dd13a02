"""Consuming: pulls, filters, offsets, locks, and messages sent back for a retry."""
