"""The simulator: a broker, its clients and its faults from one seed, and the rules that judge them."""
