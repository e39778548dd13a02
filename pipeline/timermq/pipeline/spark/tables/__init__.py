"""Tables of Spark on the files of a store."""
