"""The clock, and what happens when it is set."""
