"""GitHub's limits, and what of them is left."""
