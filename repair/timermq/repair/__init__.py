"""Check and repair of a stopped store: what is wrong with it, and what a repair does."""
