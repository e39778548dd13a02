"""Several brokers of one name in one simulation: their links, their losses, and who leads."""
