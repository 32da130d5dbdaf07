"""A callback that keeps the weights of every epoch."""

from delira.callbacks.abstract_callback import Callback


class Snapshots(Callback):
    """Keeps the weights at the end of each training pass."""

    def __init__(self, fit):
        self.fit, self.seen = fit, []

    def on_end_training(self, state):
        self.seen.append(self.fit.weights(state["self"]))
