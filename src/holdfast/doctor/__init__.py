"""Looks at a set-up as a whole, and says of each part whether it is in order and what to do if not."""

from holdfast.doctor.examination import examine
from holdfast.doctor.judgement import Check, Diagnosis

__all__ = ["Check", "Diagnosis", "examine"]
