"""What the files hold after the last run, and what goes to the disk."""
