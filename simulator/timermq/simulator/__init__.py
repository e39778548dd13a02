"""A simulated broker, its clients and its faults, all from one seed, and the rules that judge."""
