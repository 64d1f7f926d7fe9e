"""Claims: exactly one process drives a run at a time, across machines."""
