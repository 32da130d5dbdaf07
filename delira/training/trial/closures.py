"""Closures made of state keys: a forward pass, a criterion and gradients, for each of several networks."""

import inspect
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from delira import state as keys
from delira.errors import ConfigError
from delira.state import State, StateFunction, StateKey
from delira.training.compiled_facts import SETTLED, written
from delira.training.trial.calls import ModelCall
from delira.utils.arrays import ops_of
from delira.utils.suggest import did_you_mean
from delira.utils.trees import map_leaves


def base_closure(
    x: StateFunction = keys.X,
    model: Any = keys.MODEL,
    y_pred: StateKey = keys.Y_PRED,
    y_true: StateFunction = keys.Y_TRUE,
    criterion: Any = keys.CRITERION,
    loss: StateKey = keys.LOSS,
    optimizer: str = keys.OPTIMIZER,
) -> "Closure":
    """Make a closure for :meth:`delira.Trial.with_closure` that reads and writes the given entries of the state.

    Parameters
    ----------
    x, model, y_true
        Where input, network and target are: keys, or functions of the state, e.g.
        ``lambda state: state[MODEL].generator``. The network may be given itself.
    criterion
        Key of the criterion, or the criterion itself, as a trial takes it.
    y_pred, loss
        Keys under which prediction and loss are set.
    optimizer
        Name of one of the trial's optimizers, or a key under which one of them is.

    Returns
    -------
    Closure
        Sets prediction, loss and gradients; :meth:`Closure.step` updates.

    Examples
    --------
    >>> from delira.state import MODEL, state_key
    >>> G_LOSS, D_LOSS = state_key("g_loss"), state_key("d_loss")
    >>> generator = base_closure(model=lambda s: s[MODEL].generator, loss=G_LOSS, optimizer="generator")
    >>> judge = base_closure(model=lambda s: s[MODEL].judge, loss=D_LOSS, optimizer="judge")
    >>> both = combined_closure(judge, generator)
    """
    model = model if inspect.isroutine(model) or isinstance(model, StateKey) else _always(model)
    criterion = criterion if isinstance(criterion, StateKey) else _always(criterion)
    return Closure({"x": x, "model": model, "y_true": y_true, "criterion": criterion}, y_pred, loss, optimizer)


def _always(value: Any) -> StateFunction:
    return lambda state: value


class Closure:
    """One forward pass with its criterion and its gradients; made by :func:`base_closure`.

    The gradients are those of its own loss, for its own network: no other network gets any. It calls ``on_forward``,
    ``on_criterion`` and ``on_backward``; in these, LOSS is its loss, and CLOSURE the name of its optimizer.

    Parameters
    ----------
    sources
        Where ``x``, ``model``, ``y_true`` and ``criterion`` are.
    y_pred, loss, optimizer
        As for :func:`base_closure`.
    """

    def __init__(self, sources: Mapping[str, StateFunction], y_pred: StateKey, loss: StateKey, optimizer: str):
        self._sources, self._y_pred, self._optimizer = sources, y_pred, optimizer
        self.loss = loss
        self._call = ModelCall()
        self._checked: Any = None

    def __call__(self, state: State) -> None:
        """Compute prediction, loss and gradients; nothing is updated."""
        trainer = state[keys.SELF].trainer
        state[keys.CLOSURE] = str(self._optimizer)
        network = self._sources["model"](state)
        if state[keys.OPTIMIZER] is None:
            self._compute(network, state)
            return
        optimizer = self._own_optimizer(state)
        self._check_is_stored(network, trainer)
        loss, more, gradients = trainer.backend.differentiate(
            network, optimizer, lambda network: self._compute(network, state)
        )
        state.update(more)
        state[self.loss] = state[keys.LOSS] = loss
        state[keys.GRADIENTS] = dict(gradients)
        trainer._fire("on_backward")
        trainer.backend.leave_gradients(network, optimizer, {**gradients, **state.pop(keys.GRADIENTS)})

    def step(self, state: State) -> None:
        """Update the network with the gradients of the last call."""
        if state[keys.OPTIMIZER] is not None:
            state[keys.SELF].trainer.backend.update_after({"": self._own_optimizer(state)})

    def _compute(self, network: Any, state: State) -> tuple[Any, dict[Any, Any]]:
        """The loss, and what else was written into the state."""
        trainer, read, before = state[keys.SELF].trainer, self._sources, dict(state)
        with _replaced(state, {read["model"]: network}):
            found = map_leaves(_precise, self._call(network, read["x"](state), state))
            state[keys.Y_PRED] = state[self._y_pred] = found
            trainer._fire("on_forward")
            with _replaced(state, {keys.Y_TRUE: read["y_true"](state), keys.CRITERION: read["criterion"](state)}):
                state[keys.LOSS] = trainer._loss(state)
            trainer._fire("on_criterion")
            state[self.loss] = state[keys.LOSS]
        own = {keys.Y_PRED, self._y_pred, keys.X, keys.Y_TRUE}
        return state[keys.LOSS], {key: state[key] for key in written(state, before) if key not in SETTLED or key in own}

    def _check_is_stored(self, network: Any, trainer: Any) -> None:
        """Refuse a network that no checkpoint would hold."""
        if self._checked is network:
            return
        layers = trainer.backend.layers
        if not set(map(id, layers(network).values())) <= set(map(id, layers(trainer.module).values())):
            raise ConfigError(
                f"the network of the closure {str(self._optimizer)!r}, a {type(network).__name__}, is no part of the "
                "trial's model, so that no checkpoint would hold it; put all networks into one, e.g. "
                "torch.nn.ModuleDict({'generator': ..., 'judge': ...})"
            )
        self._checked = network

    def _own_optimizer(self, state: State) -> Any:
        """The optimizer as the trainer has it."""
        there, wanted = state[keys.SELF].trainer.optimizers, self._optimizer
        given = state.get(wanted) if isinstance(wanted, StateKey) else None
        if given is not None and not isinstance(given, Mapping):
            for optimizer in there.values():
                if given is optimizer or given is getattr(optimizer, "optimizer", None) or len(there) == 1:
                    return optimizer
        if wanted in there:
            return there[wanted]
        raise ConfigError(
            f"a closure updates with the optimizer {str(wanted)!r}, which is none of the trial's: {', '.join(there)}"
            f"{did_you_mean(str(wanted), there)}; give the trial all of them, Trial(model, {{name: optimizer, ...}}), "
            "so that they are stored, too"
        )


def combined_closure(*closures: Closure) -> Callable[[State], None]:
    """A closure that calls others in turn, and updates after each; LOSS is the sum of their losses then.

    Parameters
    ----------
    *closures
        From :func:`base_closure`.
    """

    def run(state: State) -> None:
        losses = []
        for closure in closures:
            closure(state)
            closure.step(state)
            losses.append(state[closure.loss])
        state[keys.LOSS] = sum(losses[1:], start=losses[0])

    return run


def standard_closure(state: State | None = None) -> Closure | None:
    """The step as it comes, as a closure of the state that others may call.

    Parameters
    ----------
    state
        Of a trial with one network and one optimizer; without it, such a closure is returned.
    """
    if state is None:
        return base_closure()
    state[keys.SELF].own_standard_closure(state)
    return None


def _precise(leaf: Any) -> Any:
    """Losses are computed in float32, except in PyTorch, whose autocast knows what is exact enough."""
    kind = getattr(getattr(leaf, "dtype", None), "name", "")
    return ops_of(leaf).as_float(leaf) if kind in ("bfloat16", "float16") else leaf


@contextmanager
def _replaced(state: State, values: Mapping[Any, Any]) -> Iterator[None]:
    """Scope in which the state has other values under its keys; functions that stand for keys are left."""
    before = {key: state.get(key) for key in values if isinstance(key, StateKey)}
    state.update({key: values[key] for key in before})
    try:
        yield
    finally:
        state.update(before)
