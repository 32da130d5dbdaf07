"""The weights with which a training begins."""

import abc
import math
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np

from delira import state as keys
from delira.callbacks.hooks import Callback
from delira.callbacks.mixing.randomness import seed_and_fold
from delira.errors import ConfigError
from delira.state import State
from delira.utils.checks import check_choice, check_names, check_numbers
from delira.utils.seeding import derive, seeded_globals
from delira.utils.suggest import did_you_mean

#: parts of the names of classes whose layers are meant; Keras' Dense counts as a Linear one
TARGETS = ("Conv", "Linear", "Bilinear")
#: nonlinearity -> what it makes smaller is made up for by this factor, as ``torch.nn.init.calculate_gain`` has it
_GAINS = {
    "linear": 1.0, "sigmoid": 1.0, "tanh": 5 / 3, "relu": math.sqrt(2), "selu": 0.75,
    **{f"conv{mode}{dims}d": 1.0 for mode in ("", "_transpose") for dims in (1, 2, 3)},
}  # fmt: skip


class LayerInit(Callback):
    """Changes the weights of layers when a trial or a trainer is made.

    Parameters
    ----------
    modules
        Which layers: themselves, or their names; None: all of the network's.
    targets
        Of these, the ones whose classes have one of the texts in their names.
    """

    phases = ("fit",)

    def __init__(self, modules: Iterable[Any] | None = None, targets: Iterable[str] = TARGETS):
        if modules is not None and not isinstance(modules, Iterable):
            raise ConfigError(f"{type(self).__name__}: modules are layers, or their names, got {modules!r}")
        check_names(self, targets=targets)
        self.modules = None if modules is None else [modules] if isinstance(modules, str) else list(modules)
        self.targets = (targets,) if isinstance(targets, str) else tuple(targets)

    def _layers(self, state: State) -> dict[str, Any]:
        """Return the layers that are meant, by name."""
        known = state[keys.SELF].backend.weights.layers(state[keys.MODEL])
        if missing := [one for one in self.modules or () if isinstance(one, str) and one not in known]:
            who = type(self).__name__
            raise ConfigError(f"{who}: there is no layer {missing[0]!r}{did_you_mean(missing[0], known)}")
        found = {name: layer for name, layer in known.items() if self._is_meant(name, layer)}
        if not found:
            there = ", ".join(sorted({_class_of(layer) for layer in known.values()})) or "none with weights"
            raise ConfigError(
                f"{type(self).__name__}: no layer of modules has a class with {' or '.join(self.targets)} in its name "
                f"(targets); those of the network are: {there}. A network of Keras has weights once it is built"
            )
        return found

    def _is_meant(self, name: str, layer: object) -> bool:
        is_named = self.modules is None or any(one is layer or one == name for one in self.modules)
        return is_named and any(target in _class_of(layer) for target in self.targets)

    def _seeds(self, state: State, name: str) -> np.random.SeedSequence:
        return derive(*seed_and_fold(state), stream=f"first weights of {name}")


class WeightInit(LayerInit):
    """Give layers their first weights, when a trial or a trainer is made: what is continued has its checkpoint's.

    Parameters
    ----------
    initialiser
        Called with each layer, changes its weights. Random numbers of Python, numpy and PyTorch (on the CPU) that it
        draws depend on the run's seed and fold, and on the layer.
    modules
        Which layers: themselves, or their names; None: all of the network's.
    targets
        Of these, the ones whose classes have one of the texts in their names.

    Raises
    ------
    ConfigError
        If the initialiser cannot be called; when the trial is made, if there is no such layer.

    Examples
    --------
    >>> import torch
    >>> import delira
    >>> net = torch.nn.Linear(3, 2)
    >>> ones = WeightInit(lambda layer: torch.nn.init.ones_(layer.weight), targets=["Linear"])
    >>> trial = delira.Trial(net, callbacks=[ones, ZeroBias()])
    >>> net.weight.sum().item(), net.bias.sum().item()
    (6.0, 0.0)
    """

    def __init__(
        self,
        initialiser: Callable[[Any], Any],
        modules: Iterable[Any] | None = None,
        targets: Iterable[str] = TARGETS,
    ):
        super().__init__(modules, targets)
        if not callable(initialiser):
            raise ConfigError(f"WeightInit: the initialiser is a function of a layer, got {initialiser!r}")
        self.initialiser = initialiser

    def on_init(self, state: State) -> None:
        """Change the layers."""
        for name, layer in self._layers(state).items():
            with seeded_globals(self._seeds(state, name)):
                self.initialiser(layer)


class _ArrayInit(LayerInit, abc.ABC):
    """Computes weights as arrays in PyTorch's layout, the same for every framework."""

    def on_init(self, state: State) -> None:
        """Change the layers."""
        backend, network, layers = state[keys.SELF].backend, state[keys.MODEL], self._layers(state)
        weights = backend.weights.portable(network)
        for name in layers:
            weights.update(self._changed(weights, f"{name}." if name else "", self._seeds(state, name)))
        backend.weights.load_portable(network, weights)

    @abc.abstractmethod
    def _changed(
        self, weights: dict[str, np.ndarray], prefix: str, seeds: np.random.SeedSequence
    ) -> dict[str, np.ndarray]:
        """New arrays for a layer's, which are called ``<prefix>weight`` and ``<prefix>bias`` if it has them."""


class ZeroBias(_ArrayInit):
    """Begin with biases of 0, where layers have one.

    Parameters
    ----------
    modules, targets
        As for :class:`WeightInit`.
    """

    def _changed(
        self, weights: dict[str, np.ndarray], prefix: str, seeds: np.random.SeedSequence
    ) -> dict[str, np.ndarray]:
        name = f"{prefix}bias"
        return {name: np.zeros_like(weights[name])} if name in weights else {}


class _Drawn(_ArrayInit):
    """Draws weights by the numbers of connections that go into and out of a unit."""

    is_normal = True

    def _changed(
        self, weights: dict[str, np.ndarray], prefix: str, seeds: np.random.SeedSequence
    ) -> dict[str, np.ndarray]:
        name = f"{prefix}weight"
        if name not in weights or weights[name].ndim < 2:
            return {}
        before, rng = weights[name], np.random.default_rng(seeds)
        n_out, n_in, *kernel = before.shape
        deviation = self._deviation(n_in * math.prod(kernel), n_out * math.prod(kernel))
        if self.is_normal:
            drawn = rng.normal(0.0, deviation, before.shape)
        else:
            bound = math.sqrt(3.0) * deviation
            drawn = rng.uniform(-bound, bound, before.shape)
        return {name: drawn.astype(before.dtype)}

    @abc.abstractmethod
    def _deviation(self, fan_in: int, fan_out: int) -> float:
        """Return the standard deviation."""


class KaimingNormal(_Drawn):
    """Begin with normal weights of the standard deviation ``gain / sqrt(fan)``; the same in every framework.

    Parameters
    ----------
    a
        Slope of the leaky rectifier below 0.
    mode
        ``"fan_in"``: values keep their size on the way forward; ``"fan_out"``: gradients on the way back.
    nonlinearity
        What follows a layer: ``"relu"``, ``"leaky_relu"``, ``"tanh"``, ``"selu"``, ``"sigmoid"``, ``"linear"``, with
        the gain of ``torch.nn.init.calculate_gain``.
    modules, targets
        As for :class:`WeightInit`.

    Raises
    ------
    ConfigError
        If a mode or a nonlinearity is unknown.

    References
    ----------
    He et al., Delving deep into rectifiers, ICCV 2015, arXiv:1502.01852.
    """

    def __init__(
        self,
        a: float = 0.0,
        mode: str = "fan_in",
        nonlinearity: str = "leaky_relu",
        modules: Iterable[Any] | None = None,
        targets: Iterable[str] = TARGETS,
    ):
        super().__init__(modules, targets)
        check_numbers(self, a=a)
        check_choice(self, ("fan_in", "fan_out"), mode=mode)
        gains = {**_GAINS, "leaky_relu": math.sqrt(2.0 / (1.0 + a**2))}
        check_choice(self, gains, nonlinearity=nonlinearity)
        self.mode, self.gain = mode, gains[nonlinearity]

    def _deviation(self, fan_in: int, fan_out: int) -> float:
        return self.gain / math.sqrt(fan_in if self.mode == "fan_in" else fan_out)


class KaimingUniform(KaimingNormal):
    """Begin with uniform weights of the same standard deviation as :class:`KaimingNormal`'s; arguments as there."""

    is_normal = False


class XavierNormal(_Drawn):
    """Begin with normal weights of the standard deviation ``gain * sqrt(2 / (fan_in + fan_out))``.

    Parameters
    ----------
    gain
        For what follows a layer; above 0.
    modules, targets
        As for :class:`WeightInit`.

    Raises
    ------
    ConfigError
        If the gain is impossible.

    References
    ----------
    Glorot and Bengio, Understanding the difficulty of training deep feedforward neural networks, AISTATS 2010.
    """

    def __init__(self, gain: float = 1.0, modules: Iterable[Any] | None = None, targets: Iterable[str] = TARGETS):
        super().__init__(modules, targets)
        check_numbers(self, above=0, gain=gain)
        self.gain = gain

    def _deviation(self, fan_in: int, fan_out: int) -> float:
        return self.gain * math.sqrt(2.0 / (fan_in + fan_out))


class XavierUniform(XavierNormal):
    """Begin with uniform weights of the same standard deviation as :class:`XavierNormal`'s; arguments as there."""

    is_normal = False


def _class_of(layer: object) -> str:
    name: str = getattr(layer, "original_name", type(layer).__name__)  # of TorchScript
    return "Linear" if name == "Dense" else name
