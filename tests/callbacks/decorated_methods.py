"""A callback whose methods are decorated in every way."""

from delira.training.callbacks import (
    Callback,
    add_to_loss,
    bind_to,
    on_end_epoch,
    on_start,
    on_step_training,
    once,
    once_per_epoch,
    only_if,
)


class Decorated(Callback):
    def __init__(self):
        self.seen = []

    def on_start_epoch(self, state):
        self.seen.append("plain")

    @bind_to("on_start_epoch")  # in the body of the class its name is the method's
    @on_end_epoch
    def both(self, state):
        self.seen.append("both")

    @on_start
    def on_start(self, state):
        self.seen.append("start")

    @once
    @on_step_training
    def first(self, state):
        self.seen.append("first")

    @once_per_epoch
    def on_step_training(self, state):
        self.seen.append("step")

    @add_to_loss
    @only_if(lambda self, state: "step" not in self.seen)
    def penalty(self, state):
        return 100.0
