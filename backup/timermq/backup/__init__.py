"""Backups of a store in a directory or an object store: shipped, restored, used by repairs."""
