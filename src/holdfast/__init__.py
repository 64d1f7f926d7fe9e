"""Durable workflow checkpoints in a GitHub repository."""

__version__ = "0.1.0"
