"""Measures Holdfast beside what people use today, side by side and interleaved."""
