"""Writing: put checkpoints into the repository, verify them, settle conflicts with other writers."""
