"""Records of the timer topic: what they say, and what became of them."""
