"""An archive of messages as Parquet: which are read, and how files are published once."""
