"""The state in the files after the last run, and the writes to the disk."""
