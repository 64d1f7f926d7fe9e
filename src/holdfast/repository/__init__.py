"""What a run's folder holds, read from GitHub, the cache and the queue."""
