"""Upkeep of a stopped store: what is wrong with it, and how it is mended."""
