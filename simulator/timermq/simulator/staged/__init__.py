"""The surroundings of a simulated broker: clients, network, clock, jobs."""
