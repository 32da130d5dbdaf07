"""The moments of a fit at which functions of its state may run."""

from typing import Any

from delira.training.callbacks.abstract_callback import HOOKS, AbstractCallback

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


def _add_hooks() -> None:
    """Give :class:`Callback` a method that does nothing for each hook."""
    for name, moment in HOOKS.items():

        def hook(self: Any, state: Any) -> None: ...

        hook.__name__, hook.__qualname__ = name, f"Callback.{name}"
        hook.__doc__, hook.does_nothing = f"Called when {moment}.", True  # type: ignore[attr-defined]
        setattr(Callback, name, hook)


_add_hooks()
