"""What a seed draws: operations, faults and settings."""
