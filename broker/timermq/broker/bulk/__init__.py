"""Bulk scheduling: staged jobs, their commit, and the task that ingests their rows."""
