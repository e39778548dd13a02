"""Timer log and wheel anew from the commit log: what Spark reads, sorts and stages for it."""
