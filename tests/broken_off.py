"""What ends a training before its time, and a callback that tells how far it came."""

from delira.training.callbacks import AbstractCallback


class Interrupted(Exception):
    """Whatever ends a run before its time."""


class InterruptOnce:
    """Ends a run in one step of one epoch, the first time that it comes by."""

    def __init__(self, epoch, iter_num=1, fold=0):
        self.place = (fold, epoch, iter_num)

    def at_iter_end(self, trainer, *, curr_epoch, iter_num, **facts):
        if (trainer.fold, curr_epoch, iter_num) == self.place:
            self.place = None
            raise Interrupted(f"in epoch {curr_epoch}, step {iter_num}")


class StopAt:
    """Ends a run before one of its epochs, of any fold or of one."""

    def __init__(self, epoch, fold=None):
        self.epoch, self.fold = epoch, fold

    def at_epoch_begin(self, trainer, *, curr_epoch, **facts):
        if curr_epoch == self.epoch and self.fold in (None, trainer.fold):
            raise Interrupted


class Break:
    """Ends the process after a step, once."""

    def __init__(self, step):
        self.step = step

    def at_iter_end(self, trainer, *, global_iter_num, **facts):
        if global_iter_num + 1 == self.step:
            self.step = None
            raise KeyboardInterrupt


class Counting(AbstractCallback):
    """A callback with a state."""

    def __init__(self):
        self.epochs = []

    def at_epoch_end(self, trainer, *, curr_epoch, **facts):
        self.epochs = [*self.epochs, curr_epoch]

    def state_dict(self):
        return {"epochs": self.epochs}

    def load_state_dict(self, state):
        self.epochs = list(state["epochs"])
