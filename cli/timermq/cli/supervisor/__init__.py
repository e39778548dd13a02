"""Several brokers on one machine: a process and a store each, started and ended together."""
