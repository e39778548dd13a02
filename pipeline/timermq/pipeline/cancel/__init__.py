"""Pending timers, and their cancels."""
