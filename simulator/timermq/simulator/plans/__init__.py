"""The plans drawn by a seed: operations, faults and settings."""
