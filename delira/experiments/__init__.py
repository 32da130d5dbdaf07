"""Experiments: parameters, independent runs, cross-validation and its splits, and the results."""
