"""Checkpoints of other programs, taken in."""
