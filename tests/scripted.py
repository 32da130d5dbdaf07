"""A metric that follows a script."""

import collections


class scripted:
    """Takes these values, one call after the other; a copy begins where the original is."""

    def __init__(self, *values):
        self.remaining = collections.deque(values)

    def __call__(self, y_true, y_pred):
        return self.remaining.popleft()
