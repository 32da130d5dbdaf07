"""Fixtures of small cross-validations."""

from small_results import data, result, validate

__all__ = ["data", "result", "validate"]
