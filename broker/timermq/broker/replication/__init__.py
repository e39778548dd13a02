"""A second machine: roles, epochs, and what follows a master."""
