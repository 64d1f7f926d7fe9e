"""From the queue to the repository."""
