"""The weights with which a training begins."""

import abc
import contextlib
import functools
import logging
import math
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import numpy as np

from delira import errors
from delira.callbacks.abstract_callback import Callback
from delira.state import MODEL, SELF, State
from delira.utils import arrays, seeding

_log = logging.getLogger("delira")
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
        errors.check_that(
            modules is None or isinstance(modules, Iterable), self, "modules are layers, or their names", modules
        )
        errors.check_names(self, targets=targets)
        self.modules = None if modules is None else [modules] if isinstance(modules, str) else list(modules)
        self.targets = (targets,) if isinstance(targets, str) else tuple(targets)

    def _layers(self, state: State) -> dict[str, Any]:
        """Return the layers that are meant, by name."""
        known = state[SELF].backend.weights.layers(state[MODEL])
        named = [one for one in self.modules or () if isinstance(one, str)]
        errors.check_known(named, known, f"{type(self).__name__}: there is no layer")
        found = {
            name: layer
            for name, layer in known.items()
            if self.modules is None or any(one is layer or one == name for one in self.modules)
            if any(target in _class_of(layer) for target in self.targets)
        }
        if not found:
            there = ", ".join(sorted({_class_of(layer) for layer in known.values()})) or "none with weights"
            raise errors.ConfigError(
                f"{type(self).__name__}: no layer of modules has a class with {' or '.join(self.targets)} in its name "
                f"(targets); those of the network are: {there}. A network of Keras has weights once it is built"
            )
        return found

    def _seeds(self, state: State, name: str) -> np.random.SeedSequence:
        return seeding.derive(state[SELF].seed, state[SELF].fold, stream=f"first weights of {name}")


class WeightInit(LayerInit):
    """Give layers their first weights, when a trial or a trainer is made: what is continued has its checkpoint's.

    Parameters
    ----------
    initialiser
        Called with each layer, changes its weights; by default it leaves them. Random numbers of Python, numpy and
        PyTorch (on the CPU) that it draws depend on the run's seed and fold, and on the layer.
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
        initialiser: Callable[[Any], Any] = lambda layer: None,
        modules: Iterable[Any] | None = None,
        targets: Iterable[str] = TARGETS,
    ):
        super().__init__(modules, targets)
        errors.check_that(callable(initialiser), "WeightInit", "the initialiser is a function of a layer", initialiser)
        self.initialiser = initialiser

    def on_init(self, state: State) -> None:
        """Change the layers."""
        for name, layer in self._layers(state).items():
            with seeding.seeded_globals(self._seeds(state, name)):
                self.initialiser(layer)


class _ArrayInit(LayerInit, abc.ABC):
    """Computes weights as arrays in PyTorch's layout, the same for every framework."""

    #: what it changes of a layer
    entry = "weight"

    def on_init(self, state: State) -> None:
        """Change the layers."""
        backend, network, layers = state[SELF].backend, state[MODEL], self._layers(state)
        weights = backend.weights.portable(network)
        for layer in layers:
            name = f"{layer}.{self.entry}" if layer else self.entry
            if name in weights:
                weights[name] = self._changed(weights[name], self._seeds(state, layer))
        backend.weights.load_portable(network, weights)

    @abc.abstractmethod
    def _changed(self, before: np.ndarray, seeds: np.random.SeedSequence) -> np.ndarray:
        """Return another array for one."""


class ZeroBias(_ArrayInit):
    """Begin with biases of 0, where layers have one.

    Parameters
    ----------
    modules, targets
        As for :class:`WeightInit`.
    """

    entry = "bias"

    def _changed(self, before: np.ndarray, seeds: np.random.SeedSequence) -> np.ndarray:
        return np.zeros_like(before)


class _Drawn(_ArrayInit):
    """Draws weights by the numbers of connections that go into and out of a unit."""

    is_normal = True

    def _changed(self, before: np.ndarray, seeds: np.random.SeedSequence) -> np.ndarray:
        if before.ndim < 2:
            return before
        n_out, n_in, *kernel = before.shape
        deviation = self._deviation(n_in * math.prod(kernel), n_out * math.prod(kernel))
        rng, bound = np.random.default_rng(seeds), math.sqrt(3.0) * deviation
        drawn = rng.normal(0.0, deviation, before.shape) if self.is_normal else rng.uniform(-bound, bound, before.shape)
        return drawn.astype(before.dtype)

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
        errors.check_numbers(self, a=a)
        errors.check_choice(self, ("fan_in", "fan_out"), mode=mode)
        gains = {**_GAINS, "leaky_relu": math.sqrt(2.0 / (1.0 + a**2))}
        errors.check_choice(self, gains, nonlinearity=nonlinearity)
        self.mode, self.gain = mode, gains[nonlinearity]
        self._gained_by = a, nonlinearity  # the manifest has the gain

    @property
    def a(self) -> float:
        """The slope that it was made with."""
        return self._gained_by[0]

    @property
    def nonlinearity(self) -> str:
        """What follows each layer."""
        return self._gained_by[1]

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
        errors.check_numbers(self, above=0, gain=gain)
        self.gain = gain

    def _deviation(self, fan_in: int, fan_out: int) -> float:
        return self.gain * math.sqrt(2.0 / (fan_in + fan_out))


class XavierUniform(XavierNormal):
    """Begin with uniform weights of the same standard deviation as :class:`XavierNormal`'s; arguments as there."""

    is_normal = False


def _weight_of(layer: Any) -> Any:
    return layer.weight


class LsuvInit(LayerInit):
    """Begin with orthonormal weights, scaled layer by layer until each gives values of one standard deviation.

    Layers are taken in the order in which the network calls them, in evaluation mode, when a trial or a trainer is
    made; what is continued has the weights of its checkpoint. For PyTorch.

    Parameters
    ----------
    data_item
        A batch of inputs as the network is called with it: a tensor or an array, or a tuple of them for several
        arguments.
    weight_lambda
        Gives the weight of a layer; None: its ``weight``.
    needed_std
        The standard deviation of all values that a layer gives for the batch.
    std_tol
        How far from it they may be.
    max_attempts
        How often a layer is scaled at most; if that is not enough, a warning is logged.
    do_orthonorm
        Whether weights are made orthonormal, and biases 0, before; else they are scaled as they are.

    Raises
    ------
    ConfigError
        If a number is impossible; when the trial is made, if the network is none of PyTorch, or has no such layer.
    NetworkError
        When the trial is made, if a layer gives the same value everywhere, or none that is a number.

    References
    ----------
    Mishkin and Matas, All you need is a good init, ICLR 2016, arXiv:1511.06422.
    """

    def __init__(
        self,
        data_item: object,
        weight_lambda: Callable[[Any], Any] | None = None,
        needed_std: float = 1.0,
        std_tol: float = 0.1,
        max_attempts: int = 10,
        do_orthonorm: bool = True,
    ):
        super().__init__()
        errors.check_functions(self, **errors.if_given(weight_lambda=weight_lambda))
        errors.check_numbers(self, above=0, needed_std=needed_std, std_tol=std_tol)
        errors.check_whole(self, at_least=1, max_attempts=max_attempts)
        errors.check_flags(self, do_orthonorm=do_orthonorm)
        self.data_item, self.weight_of = data_item, weight_lambda or _weight_of
        self.needed_std, self.std_tol, self.max_attempts = needed_std, std_tol, max_attempts
        self.do_orthonorm = do_orthonorm

    @property
    def weight_lambda(self) -> Callable[[Any], Any] | None:
        """As it was given."""
        return None if self.weight_of is _weight_of else self.weight_of

    def on_init(self, state: State) -> None:
        """Measure and scale."""
        network, owner = state[MODEL], state[SELF]
        if not hasattr(network, "register_forward_hook"):  # which only PyTorch has
            raise errors.ConfigError(
                f"LsuvInit is for PyTorch, and the network is a {type(network).__name__}; use KaimingNormal, or "
                "XavierNormal"
            )
        layers = self._layers(state)
        with owner.backend.calls.evaluating(network):
            if self.do_orthonorm:
                for name, layer in layers.items():
                    self._make_orthonormal(layer, seeding.derive_int(owner.seed, owner.fold, stream=f"LSUV {name}"))
            called: dict[str, None] = {}  # in their order
            self._watch(state, layers, lambda name, _: called.setdefault(name))
            for name in called:
                self._scale(state, name, layers[name])

    def _make_orthonormal(self, layer: Any, seed: int) -> None:
        weight = self.weight_of(layer)
        xp = arrays.ops_of(weight).xp
        drawn = xp.empty(weight.shape)  # on the CPU: the same numbers wherever the network is
        xp.nn.init.orthogonal_(drawn, generator=xp.Generator().manual_seed(seed))
        weight.copy_(drawn)
        if getattr(layer, "bias", None) is not None:
            layer.bias.zero_()

    def _scale(self, state: State, name: str, layer: object) -> None:
        """Scale one layer's weight until what it gives has the wanted deviation."""
        deviation = 0.0
        for attempt in range(self.max_attempts + 1):
            deviation = self._deviation(state, name, layer)
            if abs(deviation - self.needed_std) < self.std_tol:
                return
            if attempt < self.max_attempts:
                self.weight_of(layer).mul_(self.needed_std / deviation)
        _log.warning(
            "LsuvInit: after %d attempts the layer %r gives a standard deviation of %.3g, not %.3g",
            self.max_attempts, name, deviation, self.needed_std,
        )  # fmt: skip

    def _deviation(self, state: State, name: str, layer: object) -> float:
        seen: list[Any] = []
        self._watch(state, {name: layer}, lambda _, output: seen.append(output))
        deviation = float(seen[0].float().std())
        if not deviation > 0 or math.isinf(deviation):
            raise errors.NetworkError(
                f"LsuvInit: the layer {name!r} gives values of the standard deviation {deviation}"
            )
        return deviation

    def _watch(self, state: State, layers: Mapping[str, Any], see: Callable[[str, Any], Any]) -> None:
        """Call the network on the batch, and show what layers give, with their names."""
        from delira.contract.calls import ModelCall  # it imports callbacks

        def show(name: str, layer: object, args: object, output: object) -> None:
            see(name, output)

        network = state[MODEL]
        like = next(network.parameters())
        item = arrays.map_leaves(lambda one: arrays.ops_of(like).xp.as_tensor(one, device=like.device), self.data_item)
        with contextlib.ExitStack() as hooks:
            for name, layer in layers.items():
                hooks.callback(layer.register_forward_hook(functools.partial(show, name)).remove)
            ModelCall()(network, item, state)


def _class_of(layer: object) -> str:
    name: str = getattr(layer, "original_name", type(layer).__name__)  # of TorchScript
    return "Linear" if name == "Dense" else name
