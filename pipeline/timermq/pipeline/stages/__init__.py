"""The five stages, each with what belongs to it alone."""
