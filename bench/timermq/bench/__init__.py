"""The questions of the bench: a broker process, its load, and what was measured."""
