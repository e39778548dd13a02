"""What waits: listing it, taking it back, moving it, and what could not be delivered."""
