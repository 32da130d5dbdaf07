"""Transforms: how a user's callable is called, and adapters of single samples to batches, of several to one."""

import inspect
import random
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import numpy as np

from delira.data_loading._checks import parameters_of
from delira.data_loading._exact import check_mapping, common_dtype, refuse_masked
from delira.data_loading.data_loader import Batch
from delira.errors import ConfigError, DataError, MissingKeyError, noting
from delira.utils.checks import check_flags

Transform = Callable[..., Mapping[str, Any]]


class TransformCall:
    """Calls a transform the way its signature asks for; which way is decided once.

    A signature with ``**kwargs`` is called as ``transform(**batch)`` (batchgenerators), any other as
    ``transform(batch)``; a parameter ``rng`` gets a ``numpy.random.Generator`` by keyword.

    Raises
    ------
    ConfigError
        If the transform cannot be called.
    """

    def __init__(self, transform: Transform) -> None:
        if not callable(transform):
            raise ConfigError(
                f"transforms must be a callable or None, got a {type(transform).__name__}; "
                "make one of several with delira.data_loading.Compose"
            )
        self.transform = transform
        # of a torch module the call takes anything, and forward says what it really takes
        parameters = parameters_of(getattr(transform, "forward", transform))
        self.takes_keywords = any(p.kind is p.VAR_KEYWORD for p in parameters.values())
        self.takes_rng = "rng" in parameters

    def __call__(self, entries: Mapping[str, Any], rng: np.random.Generator | None, what: str) -> dict[str, Any]:
        """Transform a batch or a sample.

        Parameters
        ----------
        entries
            Arrays by name.
        rng
            Not needed unless ``takes_rng``.
        what
            Names the entries in messages, e.g. ``"batch 3"``.

        Raises
        ------
        DataError
            If the result is no dict, lacks a key that there was, or holds a masked array.
        """
        keys = tuple(entries)  # before the call: it may change them in place
        extra = {"rng": rng} if self.takes_rng else {}
        try:
            result = self.transform(**entries, **extra) if self.takes_keywords else self.transform(entries, **extra)
        except Exception as error:
            error.add_note(f"while transform {self.name} worked on {what} with the keys {list(keys)}")
            raise
        if not isinstance(result, Mapping):
            raise DataError(
                f"transform {self.name} made a {type(result).__name__} of {what}; it must return a dict of arrays"
            )
        if missing := [key for key in keys if key not in result]:
            raise DataError(
                f"transform {self.name} lost the keys {missing} of {what}, it returned {list(result)}; "
                "it must return all that it was given"
            )
        for key, value in result.items():
            if type(value) is not np.ndarray:
                refuse_masked(value, f"the entry {key!r} that transform {self.name} made of {what}")
        return result if type(result) is dict else dict(result)

    @property
    def name(self) -> str:
        """What the transform is called in messages."""
        return getattr(self.transform, "__name__", None) or type(self.transform).__name__


class PerSampleTransform:
    """Makes a transform of batches of one that works on single samples.

    Each sample is handed over as a dict: by keyword if the transform's signature has ``**kwargs``
    (albumentations, batchgeneratorsv2), else as one argument (MONAI, torchio, a plain function). A
    parameter ``rng`` gets a ``numpy.random.Generator``. What comes back is stacked to a batch again.

    Results are reproducible if the transform draws from ``rng``, from the global generators of Python, numpy
    or torch (CPU), or from generators of its own that it lets be set, itself or its ``transforms``, by
    ``set_random_state`` (MONAI, albumentations). These are set once per batch.

    Parameters
    ----------
    transform
        Sample in, sample out: a dict of arrays, or of what numpy can make an array of (CPU tensors).
    keys
        Entry of the batch -> its name in the transform, e.g. ``{"data": "image", "seg": "mask"}``; other
        entries pass by untouched. None hands over all arrays and takes back all that is returned.
    channels_last
        Whether the transform wants (H, W, C) instead of (C, H, W); arrays of fewer than 3 dimensions stay as
        they are.
    convert
        Called on each array before, e.g. ``torch.from_numpy``; not on single numbers.

    Raises
    ------
    ConfigError
        If the transform cannot be called, or ``keys`` is empty or names something twice.

    Examples
    --------
    >>> import numpy as np
    >>> def flip(**sample):  # is called as a transform of albumentations is
    ...     return {name: array[:, ::-1] for name, array in sample.items()}
    >>> transform = PerSampleTransform(flip, {"data": "image", "seg": "mask"}, channels_last=True)
    >>> batch = {"data": np.arange(6).reshape(1, 1, 2, 3), "seg": np.zeros((1, 1, 2, 3))}
    >>> transform(batch, np.random.default_rng(0))["data"][0, 0]
    array([[2, 1, 0],
           [5, 4, 3]])
    """

    def __init__(
        self,
        transform: Transform,
        keys: Mapping[str, str] | None = None,
        *,
        channels_last: bool = False,
        convert: Callable[[np.ndarray], Any] | None = None,
    ) -> None:
        names = list(keys.values()) if isinstance(keys, Mapping) else []
        are_names = bool(names) and all(isinstance(name, str) for name in names) and len({*names}) == len(names)
        if keys is not None and not are_names:
            raise ConfigError(
                f"keys must give each entry of the batch a name of its own in the transform, "
                f'e.g. {{"data": "image"}}, or be None for all entries; got {keys!r}'
            )
        check_flags(self, channels_last=channels_last)
        if convert is not None and not callable(convert):
            raise ConfigError(f"convert must be a callable or None, got {convert!r}")
        self.transform = transform
        self.keys = None if keys is None else dict(keys)
        self.channels_last = channels_last
        self.convert = convert
        self._call = TransformCall(transform)

    def __call__(self, batch: Batch, rng: np.random.Generator) -> Batch:
        """Transform each sample of a batch.

        Parameters
        ----------
        batch
            Arrays of shape (B, ...); the entries that the transform gets need one B.
        rng
            Handed to the transform if it takes one, and seeds the generators that it keeps.

        Raises
        ------
        DataError
            If a result is no dict, lacks an entry or differs in shape from that of the first sample.
        MissingKeyError
            If the batch lacks an entry of ``keys``.
        """
        check_mapping(batch, "the batch of a PerSampleTransform")
        names = self._names(batch)
        sizes = {entry: np.shape(batch[entry])[:1] for entry in names}
        if len({*sizes.values()}) != 1 or () in sizes.values():
            raise DataError(
                f"{self._call.name} works on samples, but the batch does not say how many there are: the arrays that "
                f"it gets have the lengths {sizes}; name those that consist of samples in keys"
            )
        _set_generators(self.transform, rng)
        samples = []
        for position in range(*min(sizes.values())):
            sample = {name: self._given(batch[entry][position]) for entry, name in names.items()}
            result = self._call(sample, rng, f"sample {position} of the batch")
            back = {key: key for key in result} if self.keys is None else names
            samples.append({entry: self._taken(result[name], position, name) for entry, name in back.items()})
        return {**batch, **_stack(samples, self._call.name)}

    def _names(self, batch: Batch) -> dict[str, str]:
        if self.keys is None:
            return {entry: entry for entry, value in batch.items() if isinstance(value, np.ndarray) and value.ndim}
        if missing := [entry for entry in self.keys if entry not in batch]:
            raise MissingKeyError(f"keys of a PerSampleTransform name {missing}, but the batch has {list(batch)}")
        return self.keys

    def _given(self, value: Any) -> Any:
        if self.channels_last and np.ndim(value) >= 3:
            value = np.ascontiguousarray(np.moveaxis(value, 0, -1))
        return self.convert(value) if self.convert and isinstance(value, np.ndarray) else value

    def _taken(self, value: object, position: int, name: str) -> np.ndarray:
        with noting(f"while {name!r} of sample {position} of the batch was turned into an array"):
            array = np.asarray(value)
        return np.moveaxis(array, -1, 0) if self.channels_last and array.ndim >= 3 else array


class Compose:
    """Transforms of batches one after the other, each called the way its signature asks for.

    Parameters
    ----------
    transforms
        What a data manager accepts as ``transforms``: batchgenerators' transforms, functions with or without
        ``rng``, :class:`PerSampleTransform`, in any mixture.

    Raises
    ------
    ConfigError
        If one of them cannot be called.
    """

    def __init__(self, transforms: Iterable[Transform]) -> None:
        if not isinstance(transforms, Iterable) or isinstance(transforms, (str, Mapping)):
            raise ConfigError(f"Compose: transforms must be a list of transforms, got {transforms!r}")
        self.transforms = list(transforms)
        self._calls = [TransformCall(transform) for transform in self.transforms]

    def __call__(self, batch: Batch, rng: np.random.Generator) -> Batch:
        """Transform a batch; all parts share ``rng``."""
        for call in self._calls:
            batch = call(batch, rng, "the batch")
        return batch


def _set_generators(transform: object, rng: np.random.Generator) -> None:
    """Set the generators that a transform keeps, or else those that its parts keep."""
    setter, parts = getattr(transform, "set_random_state", None), getattr(transform, "transforms", ())
    if setter is None:
        for part in parts if isinstance(parts, (list, tuple)) else ():
            _set_generators(part, rng)
        return
    seed = int(rng.integers(2**32))
    if "random_generator" in inspect.signature(setter).parameters:
        # albumentations; its set_random_seed gives all parts the same numbers: never one flip without the other
        setter(random_generator=np.random.default_rng(seed), py_random=random.Random(seed))
    else:
        setter(seed=seed)  # MONAI


def _stack(samples: list[dict[str, np.ndarray]], name: str) -> Batch:
    """Stack samples entry by entry; ``name`` is the transform that they come from."""
    first = samples[0]
    for position, sample in enumerate(samples):
        if sample.keys() != first.keys():
            raise DataError(
                f"{name} returned the entries {list(sample)} for sample {position} of the batch, but {list(first)} "
                "for sample 0; it must return the same entries for every sample"
            )
        for key, array in sample.items():
            if array.shape != first[key].shape:
                raise DataError(
                    f"entry {key!r} of sample {position} of the batch has shape {array.shape} after {name}, but "
                    f"{first[key].shape} was expected (that of sample 0); crop, pad or resize in the transform"
                )
    return {key: _stack_entry([sample[key] for sample in samples], f"entry {key!r} after {name}") for key in first}


def _stack_entry(arrays: list[np.ndarray], what: str) -> np.ndarray:
    dtype = common_dtype(arrays, lambda place: f"{what}, sample {place} of the batch,")
    return np.ascontiguousarray(np.stack(arrays, dtype=dtype, casting="unsafe"))  # nothing is lost
