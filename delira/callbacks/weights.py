"""The weights of a network, or some of them, as the step differentiates them."""

from collections.abc import Callable, Iterable
from typing import Any

from delira import state as keys
from delira.callbacks.monitor import trainer_of
from delira.errors import ConfigError
from delira.state import State
from delira.utils.suggest import did_you_mean

#: which weights: None for all that are learned, names, a function that is true for names, or the weights themselves
Selection = None | str | Iterable[Any] | Callable[[str], bool]


def learned_weights(state: State) -> dict[str, Any]:
    """Return the learned weights of the state's network by name; arrays of the framework, through which gradients go.

    Parameters
    ----------
    state
        Of the fit, at any hook.

    Raises
    ------
    ConfigError
        If it is no state of a fit.
    """
    if not isinstance(state, State) or keys.SELF not in state:
        raise ConfigError(f"learned_weights takes the state of a fit, as hooks get it, got {state!r}")
    weights: dict[str, Any] = trainer_of(state).backend.weights.learned_weights(state[keys.MODEL])
    return weights


class WeightFilter:
    """Chooses among weights by name.

    Parameters
    ----------
    params
        None: all. A name, or several; a function that is true for the names that are chosen; or the weights
        themselves, as ``network.parameters()`` of PyTorch gives them.
    who
        For messages.
    """

    def __init__(self, params: Selection, who: str):
        self._who, self._is_chosen = who, params if callable(params) and not hasattr(params, "shape") else None
        given = [] if params is None or self._is_chosen else params
        # a list: a generator, which network.parameters() is, could be read once only
        if not hasattr(given, "__iter__") and not hasattr(given, "shape"):
            raise ConfigError(f"{who}: params are names of weights, a function of a name or weights, got {params!r}")
        items = [given] if isinstance(given, str) or hasattr(given, "shape") else list(given)  # type: ignore[arg-type]
        self._is_all = params is None
        self._names = {item for item in items if isinstance(item, str)}
        self._ids = {id(item) for item in items if not isinstance(item, str)}
        self._items = items  # their ids must stay theirs
        self._known: set[str] = set()

    def chosen(self, state: State, there: Iterable[str]) -> set[str]:
        """Return those of the names that are chosen.

        Raises
        ------
        ConfigError
            If a name, or a weight, is none of the network's.
        """
        names = set(there)
        if self._is_all:
            return names
        if self._is_chosen is not None:
            return set(filter(self._is_chosen, names))
        if unknown := self._names - names:  # weights that are frozen just now are no mistake
            known = self._known_names(state)
            if missing := sorted(unknown - known):
                raise ConfigError(
                    f"{self._who}: params: there is no weight {missing[0]!r}{did_you_mean(missing[0], known)}"
                )
        return (self._names & names) | (self._of_ids(state) & names)

    def _known_names(self, state: State) -> set[str]:
        trainer = trainer_of(state)
        self._known = self._known or set(trainer.backend.checkpoints.state_tree(trainer.module, {})["model"])
        return self._known

    def _of_ids(self, state: State) -> set[str]:
        if not self._ids:
            return set()
        weights = learned_weights(state)
        found = {name for name, weight in weights.items() if id(weight) in self._ids}
        model = state[keys.MODEL]
        frozen = model.parameters() if hasattr(model, "named_parameters") else ()
        if self._ids - {id(weight) for weight in (*weights.values(), *frozen)}:
            raise ConfigError(
                f"{self._who}: params holds what is no weight of the network; pass their names: {', '.join(weights)}"
            )
        return found
