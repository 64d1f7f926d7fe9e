"""The version, in a module of its own so that everything may name it."""

__version__ = "1.0.0"
