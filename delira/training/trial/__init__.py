"""Fit anything: see :class:`Trial`."""

from delira.training.trial.trial import Trial

__all__ = ["Trial"]
