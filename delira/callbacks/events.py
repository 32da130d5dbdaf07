"""The events of a training. Each may have two spellings, since callbacks of two kinds hear it."""

from typing import NamedTuple


class Event(NamedTuple):
    """One event."""

    when: str
    """What has happened by then."""
    hook: str | None = None
    """Method of a callback that gets the state."""
    at: str | None = None
    """Method of a callback that gets the trainer, and what is to be known by keyword; called first."""


#: in the order of one epoch
ALL_EVENTS = (
    Event("the trial, or the trainer, is complete", "on_init"),
    Event("a fit, an evaluation or a prediction begins", "on_start", "at_training_begin"),
    Event("an epoch begins", "on_start_epoch", "at_epoch_begin"),
    Event("the training pass of an epoch begins", "on_start_training"),
    Event("a batch is there: change X and Y_TRUE", "on_sample", "at_iter_begin"),
    Event("the network was called: change Y_PRED", "on_forward"),
    Event("the loss is there, and not differentiated yet: change LOSS", "on_criterion"),
    Event("the gradients are there, and no update was made yet", "on_backward"),
    Event("a step is done", "on_step_training", "at_iter_end"),
    Event("the training pass is done", "on_end_training"),
    Event("a pass without learning begins: a validation, an evaluation, a prediction", "on_start_validation"),
    Event("as on_sample, in a pass without learning", "on_sample_validation"),
    Event("as on_forward, in a pass without learning", "on_forward_validation"),
    Event("as on_criterion, in a pass without learning; not without targets", "on_criterion_validation"),
    Event("a batch of a pass without learning is done", "on_step_validation"),
    Event("the pass is done", "on_end_validation"),
    Event("an epoch is done and not recorded yet: changes of METRICS are recorded", "on_end_epoch"),
    Event("an epoch is recorded: the moment to store it", "on_checkpoint", "at_epoch_end"),
    Event("the fit, evaluation or prediction ends, whatever ended it", "on_end", "at_training_end"),
)
#: hook -> what has happened by then
HOOKS = {event.hook: event.when for event in ALL_EVENTS if event.hook is not None}
_BEGINNINGS = [event.at for event in ALL_EVENTS if event.at is not None and event.at.endswith("begin")]
#: events that callbacks hear with the trainer: of training, epoch and step the beginning and the end
EVENTS = tuple(name for begin in _BEGINNINGS for name in (begin, f"{begin.removesuffix('begin')}end"))
