"""The way in: sends are read, checked, stored and answered."""
