"""Messages that cannot be delivered."""
