"""Networks taken apart into arrays by name, and put together again inside of compiled functions."""

import contextlib
import dataclasses
import functools
import weakref
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import jax
import jax.numpy as jnp
from flax import nnx

from delira.errors import NetworkError

#: in the metadata of a weight that is not to be learned: ``network.encoder.kernel.set_metadata(frozen=True)``
FROZEN = "frozen"
#: attributes of flax' layers that say whether they learn
_MODES = ("deterministic", "use_running_average")
#: variables that are no part of a network's state: random streams have their keys from the backend's generator
_PASSING = (nnx.RngState, nnx.Intermediate, nnx.Perturbation)


def is_frozen(variable: nnx.Variable) -> bool:
    """Return True for weights that stay as they are, whatever their gradients are."""
    return bool(variable.get_metadata(FROZEN, False))


def is_learned(path: Sequence[Any], variable: nnx.Variable) -> bool:
    """Return True for weights that gradients change; a filter of flax."""
    return isinstance(variable, nnx.Param) and not is_frozen(variable)


@dataclasses.dataclass(frozen=True, eq=False)
class Parts:
    """A network taken apart."""

    graphdef: Any
    """Everything but the arrays."""
    paths: tuple[tuple[Any, ...], ...]
    leaves: tuple[Any, ...]
    """The variables of the network itself, in the order of ``paths``; arrays that are no variables as they are."""

    @functools.cached_property
    def variables(self) -> list[Any]:
        """The variables in their places; ``None`` for random streams, and for arrays that are no variables."""
        return [
            leaf if isinstance(leaf, nnx.Variable) and not isinstance(leaf, nnx.RngState) else None
            for leaf in self.leaves
        ]

    def values(self) -> list[Any]:
        """The arrays as they are now; ``None`` for the random streams."""
        return [None if isinstance(leaf, nnx.RngState) else raw(leaf) for leaf in self.leaves]

    def arrays(self) -> list[Any]:
        """The arrays that are no variables; ``None`` for all variables."""
        return [None if isinstance(leaf, nnx.Variable) else leaf for leaf in self.leaves]

    def variable_values(self) -> list[Any]:
        """The arrays of variables, no two of which share memory; ``None`` for all else."""
        values = [None if variable is None else variable.get_raw_value() for variable in self.variables]
        seen: set[int] = set()
        for number, value in enumerate(values):
            if value is not None and id(value) in seen:  # a callback gave two variables one array
                values[number] = jax.tree.map(jnp.copy, value)
            seen.add(id(value))
        return values

    def set_values(self, values: Sequence[Any]) -> None:
        """Put arrays into the network's variables."""
        for variable, value in zip(self.variables, values, strict=True):
            if variable is not None:
                variable.set_raw_value(value)


@dataclasses.dataclass(frozen=True)
class Mould:
    """What a compiled function keeps of a network: everything but its arrays."""

    graphdef: Any
    paths: tuple[tuple[Any, ...], ...]
    kinds: tuple[Any, ...]
    """Class and metadata of each variable, and the shape of random states; ``None`` for a bare array."""

    @classmethod
    def of(cls, parts: Parts) -> "Mould":
        kinds = tuple(
            (type(leaf), leaf.get_metadata(), leaf.shape if isinstance(leaf, nnx.RngState) else None)
            if isinstance(leaf, nnx.Variable)
            else None
            for leaf in parts.leaves
        )
        return cls(parts.graphdef, parts.paths, kinds)

    def build(self, values: Sequence[Any], key: jax.Array) -> Any:
        """A network of these arrays, whose random streams begin with ``key``; may be traced."""
        leaves = []
        for number, (kind, value) in enumerate(zip(self.kinds, values, strict=True)):
            if kind is not None:
                cls, metadata, shape = kind
                fresh = value if shape is None else fresh_stream(cls, shape, key, number)
            leaves.append(value if kind is None else cls.from_metadata(fresh, metadata))
        return nnx.merge(self.graphdef, nnx.from_flat_state(list(zip(self.paths, leaves, strict=True))))

    def values_of(self, network: nnx.Module, before: Sequence[Any]) -> list[Any]:
        """The arrays of a network that :meth:`build` made; variables that came to it since are left out.

        Raises
        ------
        NetworkError
            If an array that is no variable has changed.
        """
        now = dict(nnx.to_flat_state(nnx.split(network)[1]))
        for kind, path, value in zip(self.kinds, self.paths, before, strict=True):
            if kind is None and now.get(path) is not value:
                raise NetworkError(
                    f"the step changed {type(network).__name__}.{dotted(path)}, which is an array that nobody keeps; "
                    "make it a variable, e.g. nnx.BatchStat(array), or a class of your own derived from nnx.Variable"
                )
        return [
            None if kind is None or kind[2] is not None else raw(now[path]) if path in now else value
            for kind, path, value in zip(self.kinds, self.paths, before, strict=True)
        ]


#: what a network was like -> the functions that were compiled for it: others when a layer's settings have changed
Compiled = list[tuple[Any, dict[Any, Callable[..., Any]]]]


def functions_of(known: Compiled, parts: Parts) -> dict[Any, Callable[..., Any]]:
    """Return the compiled functions of networks with this structure, by key; the caller adds missing ones."""
    for graphdef, functions in known:
        if graphdef == parts.graphdef:
            return functions
    known.append((parts.graphdef, {}))
    return known[-1][1]


def fresh_stream(cls: type, shape: tuple[int, ...], key: jax.Array, number: int) -> jax.Array:
    """Key or counter of a random stream that begins."""
    if issubclass(cls, nnx.RngCount):
        return jnp.zeros(shape, jnp.uint32)
    own = jax.random.fold_in(key, number)
    return jax.random.split(own, shape) if shape else own


def raw(leaf: object) -> Any:
    """The array of a variable, or the array itself."""
    return leaf.get_raw_value() if isinstance(leaf, nnx.Variable) else leaf


def dotted(path: Sequence[Any]) -> str:
    """A path of attributes as one name."""
    return ".".join(map(str, path))


def take_apart(network: nnx.Module) -> Parts:
    """The parts of a network as it is."""
    graphdef, state = nnx.split(network)
    flat = list(nnx.to_flat_state(state))
    return Parts(graphdef, tuple(path for path, _ in flat), tuple(leaf for _, leaf in flat))


#: networks inside of a scope; what is taken apart there is used at every step of it
_OPEN: weakref.WeakKeyDictionary[Any, Parts | None] = weakref.WeakKeyDictionary()


def parts_of(network: nnx.Module) -> Parts:
    """The parts of a network; inside of a scope of :func:`mode` it is taken apart once."""
    parts = _OPEN.get(network)
    if parts is None:
        parts = take_apart(network)
        if network in _OPEN:
            _OPEN[network] = parts
    return parts


def forget_parts(network: nnx.Module) -> None:
    """Take the network apart anew: its weights were frozen, say."""
    if network in _OPEN:
        _OPEN[network] = None


@contextlib.contextmanager
def mode(network: nnx.Module, learns: bool) -> Iterator[None]:
    """Scope in which a network learns or predicts; afterwards every layer is in its own mode again."""
    before = [
        (module, name, getattr(module, name))
        for _, module in nnx.iter_modules(network)
        for name in _MODES
        if hasattr(module, name)
    ]
    is_nested = network in _OPEN
    try:
        network.train() if learns else network.eval()
        _OPEN[network] = None
        yield
    finally:
        for module, name, value in before:
            setattr(module, name, value)
        _OPEN.pop(network, None)
        if is_nested:
            _OPEN[network] = None


# ------------------------------------------------------------------ weights by name


def state_variables(network: nnx.Module) -> dict[str, Any]:
    """The variables that a checkpoint keeps, each under the first of its names."""
    parts = parts_of(network)
    return {
        dotted(path): leaf
        for path, leaf in zip(parts.paths, parts.leaves, strict=True)
        if isinstance(leaf, nnx.Variable) and not isinstance(leaf, _PASSING)
    }


def weights_of(module: nnx.Module) -> dict[str, Any]:
    """The weights of a module or of its gradients, learned and frozen ones, by name."""
    flat = nnx.to_flat_state(nnx.state(module, nnx.Param)) if isinstance(module, nnx.Module) else flat_state(module)
    return {dotted(path): variable for path, variable in flat}


def weight_values(module: nnx.Module) -> dict[str, Any]:
    """The arrays of the weights of a module by name."""
    return {name: variable.get_raw_value() for name, variable in weights_of(module).items()}


def flat_state(state: object) -> Any:
    """The entries of an ``nnx.State`` by path."""
    if not isinstance(state, nnx.State):
        raise NetworkError(
            f"the gradients are a {type(state).__name__}; pass what nnx.grad or nnx.value_and_grad gave of the module"
        )
    return nnx.to_flat_state(state)


def aliases(network: nnx.Module) -> dict[str, str]:
    """Further names of variables that several modules share -> the name under which they are kept."""
    first: dict[int, str] = {id(variable): name for name, variable in state_variables(network).items()}
    found: dict[str, str] = {}

    def walk(node: object, path: tuple[Any, ...], above: tuple[int, ...]) -> None:
        if isinstance(node, nnx.Variable):
            name = dotted(path)
            if id(node) in first and first[id(node)] != name:
                found[name] = first[id(node)]
        elif isinstance(node, nnx.Pytree) and id(node) not in above:
            for name, child in _children(node):
                walk(child, (*path, name), (*above, id(node)))

    walk(network, (), ())
    return found


def _children(node: object) -> list[tuple[Any, Any]]:
    if isinstance(node, nnx.List):
        return list(enumerate(node))
    if isinstance(node, Mapping):
        return list(node.items())
    return [(name, child) for name, child in vars(node).items() if isinstance(child, (nnx.Variable, nnx.Pytree))]


def learned_weights(network: nnx.Module) -> dict[str, Any]:
    """The arrays of the learned weights by name, which have no values yet where a step is compiled."""
    return {dotted(path): leaf.get_raw_value() for path, leaf in nnx.to_flat_state(nnx.state(network, is_learned))}


# ------------------------------------------------------------------ number formats and streams


@contextlib.contextmanager
def computing_in(network: nnx.Module, dtype: object) -> Iterator[None]:
    """Scope in which layers that leave their number format open compute in ``dtype``; weights stay as they are."""
    layers = [] if dtype is None else open_layers(network)
    before = [layer.dtype for layer in layers]
    try:
        for layer in layers:
            layer.dtype = dtype
        yield
    finally:
        for layer, own in zip(layers, before, strict=True):
            layer.dtype = own


def open_layers(network: nnx.Module) -> list[Any]:
    """The layers whose ``dtype`` nobody chose."""
    return [
        module
        for _, module in nnx.iter_modules(network)
        if hasattr(module, "param_dtype") and getattr(module, "dtype", 0) in (None, jnp.float32)
    ]


def reseed(network: nnx.Module, key: jax.Array) -> None:
    """Let the random streams of a network begin with ``key``, as :meth:`Mould.build` does."""
    for number, leaf in enumerate(parts_of(network).leaves):
        if isinstance(leaf, nnx.RngState):
            leaf.set_raw_value(fresh_stream(type(leaf), leaf.shape, key, number))
