"""The moments of a fit at which functions of its state may run."""

from delira.callbacks.abstract_callback import HOOKS, AbstractCallback
from delira.state import State

PHASES = ("fit", "evaluate", "predict", "replay")
#: hooks that run inside the step, where the loss is differentiated
IN_STEP = ("on_sample", "on_forward", "on_criterion", "on_backward")


class Callback(AbstractCallback):
    """Override any hook: each is a function of the :class:`delira.state.State`; none must be.

    The moments of :class:`AbstractCallback`, which get the trainer, may be overridden as well. The same callbacks
    serve a :class:`delira.Trial` and an experiment.

    Attributes
    ----------
    phases
        The phases in which it acts, of ``"fit"``, ``"evaluate"``, ``"predict"`` and ``"replay"``. One that only
        concerns learning has ``("fit",)``.
    traceable
        Whether the hooks inside the step (``on_sample`` to ``on_backward``) may become part of a compiled one: they
        only compute with arrays, and Python need not run at every step. An ``on_sample`` that may not runs before the
        step; if another hook may not, the steps of the run are not compiled.
    needs_gradients
        Whether it is refused where nothing is differentiated, as for estimators of scikit-learn.

    Examples
    --------
    >>> from delira.state import LOSS
    >>> class Doubled(Callback):
    ...     traceable = True
    ...
    ...     def on_criterion(self, state):
    ...         state[LOSS] = 2 * state[LOSS]
    """

    phases: tuple[str, ...] = PHASES
    traceable = False
    needs_gradients = False
    #: methods that are called ``on_…`` and no hooks
    not_hooks: tuple[str, ...] = ()

    def on_init(self, state: State) -> None:
        """Called when the trial, or the trainer, is complete: ``MODEL``, ``OPTIMIZER`` and ``CRITERION`` are there."""

    def on_start(self, state: State) -> None:
        """Called when a fit, an evaluation or a prediction begins; ``PHASE`` says which."""

    def on_start_epoch(self, state: State) -> None:
        """Called when an epoch begins, ``EPOCH`` of ``MAX_EPOCHS``."""

    def on_start_training(self, state: State) -> None:
        """Called when the training pass of an epoch begins, over ``GENERATOR`` in ``STEPS`` batches."""

    def on_sample(self, state: State) -> None:
        """Called when the batch number ``BATCH`` is there: change ``X`` and ``Y_TRUE``."""

    def on_forward(self, state: State) -> None:
        """Called when the network was called: change ``Y_PRED``."""

    def on_criterion(self, state: State) -> None:
        """Called when the loss is there, and not differentiated yet: change ``LOSS``."""

    def on_backward(self, state: State) -> None:
        """Called when the gradients are there, and no update was made yet: change ``GRADIENTS``."""

    def on_step_training(self, state: State) -> None:
        """Called when a step is done: ``LOSS``, ``Y_PRED`` and the running ``METRICS`` are its values."""

    def on_end_training(self, state: State) -> None:
        """Called when the training pass is done: ``METRICS`` are those of the pass."""

    def on_start_validation(self, state: State) -> None:
        """Called when a pass without learning begins: a validation, evaluation or prediction, of ``DATA``."""

    def on_sample_validation(self, state: State) -> None:
        """As :meth:`on_sample`, in a pass without learning."""

    def on_forward_validation(self, state: State) -> None:
        """As :meth:`on_forward`, in a pass without learning."""

    def on_criterion_validation(self, state: State) -> None:
        """As :meth:`on_criterion`, in a pass without learning; not without targets."""

    def on_step_validation(self, state: State) -> None:
        """Called when a batch of a pass without learning is done: ``LOSS``, ``Y_PRED``, ``METRICS``."""

    def on_end_validation(self, state: State) -> None:
        """Called when the pass is done: ``METRICS`` are those of the pass."""

    def on_end_epoch(self, state: State) -> None:
        """Called when an epoch is done and not recorded yet: changes of ``METRICS`` are recorded."""

    def on_checkpoint(self, state: State) -> None:
        """Called when an epoch is recorded in ``HISTORY``: the moment to store it."""

    def on_end(self, state: State) -> None:
        """Called when the fit, evaluation or prediction ends, whatever ended it."""


for _hook in HOOKS:
    getattr(Callback, _hook).does_nothing = True
