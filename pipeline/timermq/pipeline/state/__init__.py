"""What the stages share: positions, options, counts, signals."""
