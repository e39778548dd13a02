"""A second machine: the log of this broker copied to others, and theirs to it."""
