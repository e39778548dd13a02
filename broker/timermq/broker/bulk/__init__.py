"""Bulk scheduling: staged jobs, their hand-over, and the task that adopts their rows."""
