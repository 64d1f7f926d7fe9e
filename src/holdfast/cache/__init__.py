"""The local copy of what was last seen of the repository."""
