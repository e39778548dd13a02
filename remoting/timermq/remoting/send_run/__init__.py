"""Sends in runs: requests of one form that stay together from their frames to their answers."""
