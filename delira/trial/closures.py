"""Closures made of state keys: a forward pass, a criterion and gradients, for each of several networks."""

import inspect
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from delira import state as keys
from delira.contract.calls import ModelCall, takes_state_only
from delira.contract.kinds import Array, Criterion, Network, Optimizer, Tree
from delira.errors import ConfigError, check_functions, check_texts, check_that, did_you_mean, if_given
from delira.state import State, StateFunction, StateKey
from delira.training.step import SETTLED, written
from delira.utils.arrays import map_leaves, ops_of


def base_closure(
    x: StateFunction = keys.X,
    model: Network = keys.MODEL,
    y_pred: StateKey = keys.Y_PRED,
    y_true: StateFunction = keys.Y_TRUE,
    criterion: Criterion = keys.CRITERION,
    loss: StateKey = keys.LOSS,
    optimizer: str = keys.OPTIMIZER,
    **historic: Any,
) -> "Closure":
    """Make a closure for :meth:`delira.Trial.with_closure` that reads and writes the given entries of the state.

    Parameters
    ----------
    x, model, y_true
        Where input, network and target are: keys, or functions of the state, e.g.
        ``lambda state: state[MODEL].generator``. The network may be given itself.
    criterion
        Key of the criterion, or the criterion itself, as a trial takes it. For ``criterion(state)`` ``y_true`` is not
        read.
    y_pred, loss
        Keys under which prediction and loss are set. With another ``y_pred`` than Y_PRED, Y_PRED is the prediction
        only while the closure runs, and what it was before afterwards.
    optimizer
        Name of one of the trial's optimizers, or a key of the state under which an optimizer is: the trial takes it
        over, so that it is stored, too.
    **historic
        ``crit`` and ``opt``, other names of ``criterion`` and ``optimizer``.

    Returns
    -------
    Closure
        Sets prediction, loss and gradients; :meth:`Closure.step` updates.

    Raises
    ------
    TypeError
        If an argument is unknown, or given under both of its names.
    ConfigError
        If an argument is neither a key nor a function where it must be.

    Examples
    --------
    >>> from delira.state import MODEL, state_key
    >>> G_LOSS, D_LOSS = state_key("g_loss"), state_key("d_loss")
    >>> generator = base_closure(model=lambda s: s[MODEL].generator, loss=G_LOSS, optimizer="generator")
    >>> judge = base_closure(model=lambda s: s[MODEL].judge, loss=D_LOSS, optimizer="judge")
    >>> both = combined_closure(judge, generator)
    """
    criterion = _of_either(historic, "crit", "criterion", criterion, keys.CRITERION)
    optimizer = _of_either(historic, "opt", "optimizer", optimizer, keys.OPTIMIZER)
    if historic:
        name = next(iter(historic))
        names = inspect.signature(base_closure).parameters
        raise TypeError(f"base_closure has no argument {name!r}{did_you_mean(name, [*names, 'crit', 'opt'])}")
    # keys are functions of the state, too
    check_functions("base_closure", x=x, y_true=y_true, model=model, **if_given(criterion=criterion))
    model = model if inspect.isroutine(model) or isinstance(model, StateKey) else _always(model)
    criterion = criterion if isinstance(criterion, StateKey) else _always(criterion)
    return Closure({"x": x, "model": model, "y_true": y_true, "criterion": criterion}, y_pred, loss, optimizer)


def _of_either(historic: dict[str, Any], old: str, name: str, given: Any, default: Any) -> Any:
    """An argument that has two names."""
    if old not in historic:
        return given
    if given is not default:
        raise TypeError(f"base_closure got {name} twice: {name}= and {old}=")
    return historic.pop(old)


def _always(value: Tree) -> StateFunction:
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
        is_right = isinstance(sources, Mapping) and sources.keys() >= {"x", "model", "y_true", "criterion"}
        check_that(is_right, self, "sources says where x, model, y_true and criterion are", sources)
        check_functions(self, **{f"sources {name}": source for name, source in sources.items()})
        check_texts(self, y_pred=y_pred, loss=loss, optimizer=optimizer)
        self._sources, self._y_pred = sources, y_pred
        self.loss, self.optimizer = loss, optimizer
        self._call = ModelCall()
        self._checked: Any = None

    def __call__(self, state: State) -> None:
        """Compute prediction, loss and gradients; nothing is updated."""
        before = state.get(keys.Y_PRED)
        state[keys.CLOSURE] = str(self.optimizer)
        self._learn(self._sources["model"](state), self._own_optimizer(state), state)
        if self._y_pred == keys.Y_PRED:
            return
        if before is None:  # it belongs to the closures that do not name another key
            del state[keys.Y_PRED]
        else:
            state[keys.Y_PRED] = before

    def _learn(self, network: Network, optimizer: Optimizer, state: State) -> None:
        if optimizer is None:
            self._compute(network, state)
            return
        trainer = state[keys.SELF].trainer
        self._check_is_stored(network, trainer)
        loss, more, gradients = trainer.backend.step.differentiate(
            network, optimizer, lambda network: self._compute(network, state)
        )
        state.update(more)
        state[self.loss] = state[keys.LOSS] = loss
        state[keys.GRADIENTS] = dict(gradients)
        trainer.events.fire("on_backward")
        trainer.backend.step.leave_gradients(network, optimizer, {**gradients, **state.pop(keys.GRADIENTS)})

    def step(self, state: State) -> None:
        """Update the network with the gradients of the last call."""
        if (optimizer := self._own_optimizer(state)) is not None:
            trainer = state[keys.SELF].trainer
            trainer.backend.step.update_after({"": optimizer})
            trainer.objective.is_updated = True

    def _compute(self, network: Network, state: State) -> tuple[Any, dict[Any, Any]]:
        """The loss, and what else was written into the state."""
        trainer, read, before = state[keys.SELF].trainer, self._sources, dict(state)
        with _replaced(state, {read["model"]: network}):
            found = map_leaves(_precise, self._call(network, read["x"](state), state))
            state[keys.Y_PRED] = state[self._y_pred] = found
            trainer.events.fire("on_forward")
            changed = self._y_pred if state[self._y_pred] is not found else keys.Y_PRED
            state[keys.Y_PRED] = state[self._y_pred] = state[changed]
            given = {keys.CRITERION: read["criterion"](state)}
            if not takes_state_only(given[keys.CRITERION]):
                given[keys.Y_TRUE] = read["y_true"](state)
            with _replaced(state, given):
                state[keys.LOSS] = trainer.objective.loss()
            for added in trainer.backend.calls.added_losses(network).values():
                state[keys.LOSS] = state[keys.LOSS] + added
            trainer.events.fire("on_criterion")
            state[self.loss] = state[keys.LOSS]
        own = {keys.Y_PRED, self._y_pred, keys.X, keys.Y_TRUE}
        return state[keys.LOSS], {key: state[key] for key in written(state, before) if key not in SETTLED or key in own}

    def _check_is_stored(self, network: Network, trainer: Any) -> None:
        """Refuse a network that no checkpoint would hold."""
        if self._checked is network:
            return
        layers = trainer.backend.weights.layers
        if not set(map(id, layers(network).values())) <= set(map(id, layers(trainer.module).values())):
            raise ConfigError(
                f"the network of the closure {str(self.optimizer)!r}, a {type(network).__name__}, is no part of the "
                "trial's model, so that no checkpoint would hold it; put all networks into one, e.g. "
                "torch.nn.ModuleDict({'generator': ..., 'judge': ...})"
            )
        self._checked = network

    def _own_optimizer(self, state: State) -> Any:
        """The optimizer as the trainer has it; None for that of a trial without any."""
        trial, wanted = state[keys.SELF], self.optimizer
        there = trial.trainer.optimizers
        given = state.get(wanted) if isinstance(wanted, StateKey) else None
        if given is None and wanted == keys.OPTIMIZER:
            return None
        if given is not None and not isinstance(given, Mapping):
            for name, optimizer in there.items():
                if given is optimizer or given is trial.built_optimizers.get(name):
                    return optimizer
        elif wanted in there:
            return there[wanted]
        known = ", ".join(trial.built_optimizers) or "it has none"
        raise ConfigError(
            f"a closure updates with the optimizer {str(wanted)!r}, which is none of the trial's: {known}"
            f"{did_you_mean(str(wanted), there)}; give the trial all of them, "
            "Trial(model, {name: optimizer, ...}), so that they are stored, too"
        )


def combined_closure(*closures: Closure) -> Callable[[State], None]:
    """A closure that calls others in turn, and updates after each; LOSS is the sum of their losses then.

    Parameters
    ----------
    *closures
        From :func:`base_closure`; one at least.

    Raises
    ------
    ConfigError
        If there is none, or something else among them.
    """
    if not closures or not all(isinstance(closure, Closure) for closure in closures):
        raise ConfigError(f"combined_closure takes one or more closures made by base_closure, got {closures!r}")

    def run(state: State) -> None:
        losses = []
        for closure in closures:
            closure(state)
            closure.step(state)
            losses.append(state[closure.loss])
        state[keys.LOSS] = sum(losses[1:], start=losses[0])

    run.closures = closures  # type: ignore[attr-defined]
    return run


def optimizers_of(closure: Any, state: State) -> dict[str, Any]:
    """The optimizers that closures find under keys of their own, by the texts of these.

    Parameters
    ----------
    closure
        One of :func:`base_closure` or :func:`combined_closure`; of any other function nobody knows.
    state
        Of the trial.
    """
    closures = [closure] if isinstance(closure, Closure) else getattr(closure, "closures", ())
    named = [one.optimizer for one in closures if isinstance(one.optimizer, StateKey)]
    found = {str(key): state.get(key) for key in named if key != keys.OPTIMIZER}
    return {name: one for name, one in found.items() if one is not None and not isinstance(one, Mapping)}


def standard_closure(state: State | None = None) -> Closure | None:
    """The step as it comes, as a closure of the state that others may call.

    Parameters
    ----------
    state
        Of a trial with one network and one optimizer; without it, such a closure is returned.
    """
    if state is None:
        return base_closure()
    if not isinstance(state, State) or not hasattr(state.get(keys.SELF), "own_standard_closure"):
        raise ConfigError(f"standard_closure takes the state of a trial, or nothing, got a {type(state).__name__}")
    state[keys.SELF].own_standard_closure(state)
    return None


def _precise(leaf: Array) -> Any:
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
