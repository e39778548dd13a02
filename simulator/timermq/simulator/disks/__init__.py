"""Disks in memory that lose power, fail and rot, and the damage that is done to them."""
