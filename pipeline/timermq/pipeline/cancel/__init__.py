"""Pending timers, and taking them back."""
