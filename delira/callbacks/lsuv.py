"""First weights with which every layer gives values of one spread, measured on data."""

import contextlib
import logging
import math
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from delira import state as keys
from delira.callbacks.initialisers import LayerInit
from delira.callbacks.mixing.randomness import seed_and_fold
from delira.errors import ConfigError, NetworkError
from delira.state import State
from delira.utils.arrays import ops_of
from delira.utils.checks import check_flags, check_functions, check_numbers, check_whole
from delira.utils.seeding import derive_int
from delira.utils.trees import map_leaves

_log = logging.getLogger("delira")


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
        if weight_lambda is not None:
            check_functions(self, weight_lambda=weight_lambda)
        check_numbers(self, above=0, needed_std=needed_std, std_tol=std_tol)
        check_whole(self, at_least=1, max_attempts=max_attempts)
        check_flags(self, do_orthonorm=do_orthonorm)
        self.data_item, self.weight_of = data_item, weight_lambda or (lambda layer: layer.weight)
        self.needed_std, self.std_tol, self.max_attempts = needed_std, std_tol, max_attempts
        self.do_orthonorm = do_orthonorm

    def on_init(self, state: State) -> None:
        """Measure and scale."""
        network = state[keys.MODEL]
        if not hasattr(network, "register_forward_hook"):  # which only PyTorch has
            raise ConfigError(
                f"LsuvInit is for PyTorch, and the network is a {type(network).__name__}; use KaimingNormal, or "
                "XavierNormal"
            )
        layers = self._layers(state)
        with state[keys.SELF].backend.calls.evaluating(network):
            if self.do_orthonorm:
                for name, layer in layers.items():
                    self._make_orthonormal(layer, derive_int(*seed_and_fold(state), stream=f"LSUV {name}"))
            for name in self._called(state, layers):
                self._scale(state, name, layers[name])

    def _make_orthonormal(self, layer: Any, seed: int) -> None:
        weight = self.weight_of(layer)
        xp = ops_of(weight).xp
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
        with _watching({name: layer}, lambda _, output: seen.append(output)):
            self._call(state)
        deviation = float(seen[0].float().std())
        if not deviation > 0 or math.isinf(deviation):
            raise NetworkError(f"LsuvInit: the layer {name!r} gives values of the standard deviation {deviation}")
        return deviation

    def _called(self, state: State, layers: Mapping[str, Any]) -> list[str]:
        """Return names of the layers in the order in which they are called; those that are not are left out."""
        called: dict[str, None] = {}
        with _watching(layers, lambda name, _: called.setdefault(name)):
            self._call(state)
        return list(called)

    def _call(self, state: State) -> None:
        from delira.contract.calls import ModelCall  # it imports callbacks

        network = state[keys.MODEL]
        like = next(network.parameters())
        item = map_leaves(lambda leaf: ops_of(like).xp.as_tensor(leaf, device=like.device), self.data_item)
        ModelCall()(network, item, state)


@contextlib.contextmanager
def _watching(layers: Mapping[str, Any], see: Callable[[str, Any], Any]) -> Iterator[None]:
    """Scope in which what the layers give is shown, with their names."""

    def hook(name: str) -> Callable[..., None]:
        def show(layer: object, args: object, output: object) -> None:
            see(name, output)

        return show

    handles = [layer.register_forward_hook(hook(name)) for name, layer in layers.items()]
    try:
        yield
    finally:
        for handle in handles:
            handle.remove()
