"""The wish of a producer, and whether the wheel takes it."""
