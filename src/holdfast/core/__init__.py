"""Decisions without input or output: time, sizes and limits come in, plans come out."""
