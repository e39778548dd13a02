"""Pending messages: listing, cancelling, moving, explaining them; and the quarantine."""
