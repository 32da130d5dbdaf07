"""The metric tree: metrics of batches, what hangs on them, and lists of them, for arrays of any framework.

:mod:`delira.metrics` has their names.
"""

__all__ = []
