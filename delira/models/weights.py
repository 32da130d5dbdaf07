"""Weights by name, as numpy arrays, in every backend: put in, given to other networks, and what layers make of them."""

import dataclasses
import math
from collections.abc import Hashable, Mapping, Sequence
from numbers import Integral
from typing import Any

import numpy as np

from delira.errors import CheckpointError, ConfigError, check_flags, did_you_mean
from delira.utils.frameworks import find_backend


def named_weights(network: object) -> dict[str, np.ndarray]:
    """Copies of all weights: every parameter, biases included, and what else the backend stores with them.

    Parameters
    ----------
    network
        The network of a backend.

    Returns
    -------
    dict of ndarray
        Arrays of the network's own types under the framework's names; bfloat16 as ``ml_dtypes.bfloat16``.
        Weights that two layers share are there under both names.
    """
    return find_backend(network).weights.named(network)


def load_named_weights(network: object, weights: Mapping[str, np.ndarray]) -> None:
    """Put weights into a network, in place.

    Parameters
    ----------
    network
        The network of a backend.
    weights
        Arrays by name, as :func:`named_weights` gives them.

    Raises
    ------
    CheckpointError
        If names, shapes or types differ from those of the network; it says which, and nothing is changed.
    """
    backend = find_backend(network)
    if not isinstance(weights, Mapping):
        raise ConfigError(f"load_named_weights: weights is a dict of arrays by name, got {weights!r}")
    backend.weights.load_named(network, weights)


def check_named_weights(
    network: object,
    own: Mapping[str, tuple[tuple[int, ...], str]],
    weights: Mapping[str, Any],
    memory: Mapping[str, Hashable] | None = None,
) -> None:
    """Refuse weights of another network.

    Parameters
    ----------
    network
        For the message.
    own
        Shape and name of the numpy type of each weight of the network.
    weights
        What it is to get.
    memory
        Name -> what tells the weight from others; shared weights have several names and are the same.

    Raises
    ------
    CheckpointError
        With all the names that differ, or that would give a shared weight several values.
    """
    complaints = []
    if missing := [name for name in own if name not in weights]:
        complaints.append(f"missing: {', '.join(missing)}")
    if unknown := [str(name) for name in weights if name not in own]:
        complaints.append(f"unknown to the network: {', '.join(unknown)}")
    for name, (shape, dtype) in own.items():
        if name not in weights:
            continue
        array = weights[name]
        if not isinstance(array, np.ndarray):
            complaints.append(f"{name} is a {type(array).__name__}, not a numpy array")
        elif (array.shape, array.dtype.name) != (shape, dtype):
            complaints.append(f"{name} is {array.dtype.name} {array.shape}, in the network {dtype} {shape}")
    if not complaints:
        first: dict[Hashable, str] = {}
        for name, place in (memory or {}).items():
            other = first.setdefault(place, name)
            if weights[name].tobytes() != weights[other].tobytes():
                complaints.append(f"{other} and {name} share their memory in the network, but differ in the weights")
    if complaints:
        raise CheckpointError(f"the weights do not fit the network {type(network).__name__}: " + "; ".join(complaints))


#: how many weights a message names
_SHOWN = 3


def transfer_weights(
    src: object,
    dst: object,
    mapping: Mapping[str, str] | None = None,
    *,
    flattened: Mapping[str, tuple[int, ...]] | None = None,
    check_settings: bool = True,
) -> None:
    """Give a network the weights of another one, of the same architecture, perhaps of another backend.

    The backends know how their layers keep weights: dense kernels are transposed, the axes of convolutions are put in
    order, and the entries of normalisations have their names in each framework. The weights of other layers
    are taken as they are, by name. With batch normalisation, the statistics are transferred too.

    Parameters
    ----------
    src
        The network whose weights are copied.
    dst
        The network that gets them, in place.
    mapping
        Where the layers are called otherwise: layer or weight of ``dst`` -> that of ``src``, as attribute paths, e.g.
        ``{"head": "body.3"}``. What is not named has the same path in both.
    flattened
        Dense layers of ``dst`` that read a flattened image -> its shape with the channels first, e.g.
        ``{"head": (8, 4, 4)}``. Needed if one network flattens with the channels first and the other with the channels
        last; the ready networks of all backends flatten with the channels first, and need it not.
    check_settings
        Whether to compare what layers compute with besides weights: ``epsilon`` of normalisations (1e-3 in Keras, 1e-5
        in PyTorch, 1e-6 in most of flax), groups, strides, dilation, and ``"same"`` padding.

    Raises
    ------
    ConfigError
        If ``mapping``, ``flattened`` or ``check_settings`` is of no use.
    CheckpointError
        If a weight is missing, is left over, has another shape, or would become an integer, if layers differ in a
        setting, so that they would compute something else, or if ``dst`` has one array (tied weights) where ``src`` has
        several that differ; it says which, and nothing is changed.
    """
    source, target = find_backend(src), find_backend(dst)
    _check_arguments(mapping, flattened, check_settings)
    given, wanted = source.weights.portable(src), target.weights.portable(dst)
    names = {name: _source_name(name, mapping or {}) for name in wanted}
    _check_names(names, given, mapping or {})
    images = dict(flattened or {})
    weights = {}
    for name, origin in names.items():
        layer, _, entry = name.rpartition(".")
        array = given[origin]
        if entry == "weight" and layer in images:
            reordered = _reordered(name, array, images.pop(layer), to_last=target.channels_last)
            array = array if source.channels_last == target.channels_last else reordered
        weights[name] = array
    if images:
        layer = next(iter(images))
        raise CheckpointError(f"flattened names {layer!r}, which is no dense layer{did_you_mean(layer, wanted)}")
    if wrong := [
        f"{names[name]} of the source is {array.shape}, {name} of the destination {wanted[name].shape}"
        if array.shape != wanted[name].shape
        else f"{names[name]} of the source is of {array.dtype}, {name} of the destination of {wanted[name].dtype}"
        for name, array in weights.items()
        if array.shape != wanted[name].shape or (array.dtype.kind == "f" and wanted[name].dtype.kind in "biu")
    ]:
        raise CheckpointError(
            f"the weights of {type(src).__name__} do not fit {type(dst).__name__} (shapes with the outputs first): "
            + _listed(wrong, "; ")
        )
    if check_settings:
        _check_settings(src, dst, names)
    weights = {name: array.astype(wanted[name].dtype) for name, array in weights.items()}
    target.weights.load_portable(dst, weights)
    taken = target.weights.portable(dst)
    if lost := [name for name, array in weights.items() if taken[name].tobytes() != array.tobytes()]:
        target.weights.load_portable(dst, wanted)
        raise CheckpointError(
            f"{type(dst).__name__} has one array for several of {_listed(lost, ', ')} and further names, for which "
            f"{type(src).__name__} has different ones"
        )


def _check_arguments(mapping: Any, flattened: Any, check_settings: Any) -> None:
    if mapping is not None and not (_is_named(mapping) and all(isinstance(path, str) for path in mapping.values())):
        raise ConfigError(
            "transfer_weights: mapping is a dict, layer of the destination -> layer of the source, as attribute paths, "
            f"got {mapping!r}"
        )
    if flattened is not None and not (_is_named(flattened) and all(map(_is_shape, flattened.values()))):
        raise ConfigError(
            "transfer_weights: flattened is a dict, dense layer of the destination -> shape of the image that it "
            f"reads, such as (8, 4, 4), got {flattened!r}"
        )
    check_flags("transfer_weights", check_settings=check_settings)


def _is_named(given: object) -> bool:
    return isinstance(given, Mapping) and all(isinstance(name, str) for name in given)


def _is_shape(given: object) -> bool:
    return isinstance(given, Sequence) and all(isinstance(length, Integral) and int(length) > 0 for length in given)


def _source_name(name: str, mapping: Mapping[str, str]) -> str:
    """Return the name in the source: of the longest part of the path that is mapped."""
    parts = name.split(".")
    for length in range(len(parts), 0, -1):
        prefix = ".".join(parts[:length])
        if prefix in mapping:
            return ".".join([mapping[prefix], *parts[length:]])
    return name


def _check_names(names: Mapping[str, str], given: Mapping[str, Any], mapping: Mapping[str, str]) -> None:
    complaints = []
    if missing := [name if name == origin else f"{name} (from {origin})" for name, origin in names.items()
                   if origin not in given]:  # fmt: skip
        complaints.append(f"the source has no {_listed(missing, ', ')}")
    if left := [name for name in given if name not in names.values()]:
        complaints.append(f"the destination has nothing that takes {_listed(left, ', ')}")
    if idle := [key for key in mapping if not any(name == key or name.startswith(f"{key}.") for name in names)]:
        complaints.append(f"mapping names {_listed(idle, ', ')}, which the destination does not have")
    if complaints:
        raise CheckpointError(
            "the weights cannot be transferred: " + "; ".join(complaints) + ". Say with mapping={layer of the "
            "destination: layer of the source} which belong together"
        )


def _check_settings(src: object, dst: object, names: Mapping[str, str]) -> None:
    """Refuse layers with the same weights that compute something else."""
    source, target = find_backend(src), find_backend(dst)
    try:
        given, wanted = source.layers(src), target.layers(dst)
    except ConfigError:  # a backend that does not show them
        return
    pairs = dict.fromkeys((name.rpartition(".")[0], origin.rpartition(".")[0]) for name, origin in names.items())
    wrong = [
        f"{entry} of {origin or 'the source'} is {ours}, of {name or 'the destination'} {theirs}"
        for name, origin in pairs
        if origin in given and name in wanted
        for entry, ours, theirs in differences(
            source.layer_settings(given[origin]), target.layer_settings(wanted[name])
        )
    ]
    if wrong:
        raise CheckpointError(
            f"with the weights of {type(src).__name__}, {type(dst).__name__} would compute something else: "
            f"{_listed(wrong, '; ')}. Make the layers alike, or pass check_settings=False if others make up for it"
        )


def _listed(lines: list[str], separator: str) -> str:
    shown = separator.join(lines[:_SHOWN])
    return f"{shown}{separator}and {len(lines) - _SHOWN} more" if len(lines) > _SHOWN else shown


def _reordered(name: str, weight: np.ndarray, shape: tuple[int, ...], *, to_last: bool) -> np.ndarray:
    """Return the inputs of a dense weight (out, in), which are pixels of an image, in the order of the other layout."""
    if weight.ndim != 2 or weight.shape[1] != np.prod(shape):
        raise CheckpointError(f"flattened says that {name} reads images of shape {shape}, but it is {weight.shape}")
    outputs = len(weight)
    if to_last:
        return np.moveaxis(weight.reshape(outputs, *shape), 1, -1).reshape(outputs, -1)
    return np.moveaxis(weight.reshape(outputs, *shape[1:], shape[0]), -1, 1).reshape(outputs, -1)


Settings = dict[str, Any]
"""Names of settings and plain values; ``"padding"`` as :func:`conv_settings` has it."""


def conv_settings(
    kernel: Sequence[int],
    strides: Sequence[int],
    dilation: Sequence[int],
    padding: object,
    *,
    is_transposed: bool = False,
) -> Settings:
    """Settings of a convolution.

    Parameters
    ----------
    kernel, strides, dilation
        By axis.
    padding
        ``"same"``, ``"valid"``, ``"causal"``, or pairs by axis: what is added before and after the image, or, of a
        transposed convolution, what is cut off its result.
    is_transposed
        Whether it is a transposed convolution.
    """
    word = padding.lower() if isinstance(padding, str) else None
    pairs: Any = padding
    if word == "valid":
        pairs = [(0, 0)] * len(kernel)
    elif word is not None:
        sizes = zip(kernel, strides, dilation, strict=True)
        pairs = [_added(word, *size, is_transposed) for size in sizes]
    known = pairs if pairs is None or None in pairs else tuple((int(low), int(high)) for low, high in pairs)
    ends = f'"{word}" with strides' if known is not None and None in known else known
    return {
        "strides": tuple(map(int, strides)),
        "dilation": tuple(map(int, dilation)),
        "padding": (word not in (None, "valid"), ends),
    }


def _added(word: str, size: int, stride: int, dilation: int, is_transposed: bool) -> tuple[int, int] | None:
    """Return what is added before and after an axis; ``None`` if that depends on its length."""
    reach = (size - 1) * dilation + 1
    if is_transposed:
        cut = max(reach - stride, 0)
        return cut // 2, cut - cut // 2
    if word == "causal":
        return reach - 1, 0
    if stride == 1 or reach == 1:
        return (reach - 1) // 2, reach - 1 - (reach - 1) // 2
    return None


def differences(source: Mapping[str, Any], target: Mapping[str, Any]) -> list[tuple[str, Any, Any]]:
    """Settings that both have, and that differ, each with both values.

    Explicit padding is compared only with padding by a word: layers of their own may add the rest.
    """
    found = []
    for name in source.keys() & target.keys():
        ours, theirs = source[name], target[name]
        if name == "padding":
            (is_word, ours), (is_other_word, theirs) = ours, theirs
            if not is_word and not is_other_word:
                continue
        is_close = isinstance(ours, float) and isinstance(theirs, float) and math.isclose(ours, theirs, rel_tol=1e-3)
        if ours is not None and theirs is not None and ours != theirs and not is_close:
            found.append((name, ours, theirs))
    return sorted(found)


@dataclasses.dataclass(frozen=True)
class Layout:
    """What a framework makes of a weight, as opposed to its portable form, which is PyTorch's."""

    entry: str
    """Name of the weight in the portable form."""
    first: tuple[int, ...] = ()
    """The axes of the framework's array that come first in the portable one; the others follow in their order."""
    is_mirrored: bool = False
    """Whether kernels run in the other direction."""
    is_merged: bool = False
    """Whether the first two axes become one, with an axis of one entry behind it."""

    def to_portable(self, array: np.ndarray) -> np.ndarray:
        """Return the portable form of an array of the framework."""
        array = self._mirrored(np.moveaxis(array, self.first, range(len(self.first))))
        return array.reshape(-1, 1, *array.shape[2:]) if self.is_merged else array

    def from_portable(self, array: np.ndarray, shape: Sequence[int]) -> np.ndarray:
        """Return the framework's array, which has the given shape, of a portable one."""
        if self.is_merged:
            array = array.reshape(*(shape[axis] for axis in self.first), *array.shape[2:])
        return np.moveaxis(self._mirrored(array), range(len(self.first)), self.first)

    def _mirrored(self, array: np.ndarray) -> np.ndarray:
        return np.flip(array, tuple(range(2, array.ndim))) if self.is_mirrored else array


Layouts = Sequence[tuple[type | tuple[type, ...], Mapping[str, Layout]]]
"""Classes of layers, and the layouts of those of their weights that differ from the portable form."""


def renamed(**entries: str) -> dict[str, Layout]:
    """Layouts of weights that differ in nothing but their names, by those that the framework has."""
    return {own: Layout(entry) for own, entry in entries.items()}


def layout_of(layer: object, entry: str, layouts: Layouts) -> Layout:
    """The layout of one weight of a layer; one that nothing is said of is as it is.

    Parameters
    ----------
    layer
        The layer; None if nobody knows it.
    entry
        Name of the weight in the layer.
    layouts
        Those of the framework.
    """
    found = (known[entry] for kinds, known in layouts if isinstance(layer, kinds) and entry in known)
    return next(found, Layout(entry))
