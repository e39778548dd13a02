"""Requests of operators' tools: topics, groups, connections, progress, settings."""
