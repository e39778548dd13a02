"""The shared state of the stages: positions, options, counts, signals."""
