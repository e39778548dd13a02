"""What an operator's tools ask for: topics, groups, connections, progress, settings."""
