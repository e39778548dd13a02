"""The rebuild of timer log and wheel from the commit log: its reads, sorts and staging."""
