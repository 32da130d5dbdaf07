"""What is done to batches: transforms, called as their signatures ask for, and fitted preprocessing; on one thread."""

import contextlib
import inspect
import random
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import numpy as np

from delira.data_loading._content import OpaqueError, fingerprint_of
from delira.data_loading._exact import as_rows, check_mapping, common_dtype, parameters_of, refuse_masked
from delira.data_loading.abstract_dataset import Batch
from delira.errors import ConfigError, DataError, MissingKeyError, check_flags, did_you_mean, expect, noting
from delira.utils.references import safe_repr
from delira.utils.threads import single_threaded

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


def describe_transform(transform: Transform) -> str:
    """Name a transform, and the content of its code and parameters as far as that can be told.

    Returns
    -------
    str
        The same in every process, and another one after a change of the user's code or of a parameter.
    """
    from delira.data_loading import _cache_key  # it reads datasets, which this file is below of

    name = safe_repr(transform)
    with contextlib.suppress(OpaqueError):
        content = fingerprint_of(_cache_key.Describer(looks_at_files=False)(transform))
        name = f"{name[:200]} sha256 {content[:16]}"
    return name


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
        expect(("convert", convert, convert is None or callable(convert), "a callable or None"))
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
        is_list = isinstance(transforms, Iterable) and not isinstance(transforms, (str, Mapping))
        expect(("Compose: transforms", transforms, is_list, "a list of transforms"))
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


_ATTRIBUTE = "_delira_preprocessing"


class FittedPreprocessing:
    """Fitted transformers of scikit-learn by entry of a batch; calling it transforms a batch.

    Samples are flattened to rows. What comes out has the shape of the samples if the number of columns is still the
    same (``StandardScaler``), else it is one vector a sample (``PCA``). ``float32`` stays ``float32``; of other types
    it is what the transformer makes of them.

    Parameters
    ----------
    transformers
        Entry -> fitted transformer.

    Raises
    ------
    ConfigError
        If something else is named.

    Examples
    --------
    >>> from sklearn.preprocessing import StandardScaler
    >>> fitted = FittedPreprocessing({"data": StandardScaler().fit([[0.0, 1.0], [2.0, 3.0]])})
    >>> fitted({"data": np.array([[1.0, 2.0]]), "label": np.array([0])})["data"].tolist()
    [[0.0, 0.0]]
    """

    def __init__(self, transformers: Mapping[str, Any]) -> None:
        if not isinstance(transformers, Mapping):
            raise ConfigError(f"transformers must be a dict {{entry: fitted transformer}}, got {transformers!r:.100}")
        self.transformers = dict(transformers)
        for entry, each in self.transformers.items():
            if not callable(getattr(each, "transform", None)):
                raise ConfigError(
                    f"transformers[{entry!r}] must be a fitted transformer of scikit-learn, with transform(), got "
                    f"{each!r:.100}"
                )
        #: entries whose transformers were told to work in place
        self._in_place = {entry for entry, each in self.transformers.items() if works_in_place(each)}

    def __call__(self, batch: Mapping[str, Any]) -> dict[str, Any]:
        """Transform a batch of arrays of shape ``(B, ...)``; its own arrays stay as they are.

        Raises
        ------
        MissingKeyError
            If the batch lacks an entry.
        DataError
            If a transformer does not make one row of each sample, or one of scikit-learn cannot transform the batch.
        """
        if not isinstance(batch, Mapping):
            raise DataError(f"batch must be a dict of arrays, got {batch!r:.100}")
        done = dict(batch)
        with single_threaded():  # the same bits in a worker, which has one thread
            for entry, transformer in self.transformers.items():
                if entry not in done:
                    raise MissingKeyError(missing(entry, done))
                done[entry] = self._transformed(entry, transformer, np.asarray(done[entry]))
        return done

    def _transformed(self, entry: str, transformer: Any, values: np.ndarray) -> np.ndarray:
        what = f"preprocessing[{entry!r}] ({type(transformer).__name__})"
        rows = as_rows(values, f"entry {entry!r}")
        try:
            made = transformer.transform(rows.copy() if entry in self._in_place else rows)
        except Exception as error:
            doing = f"{what} transformed rows of shape {rows.shape}, {rows.dtype}"
            if isinstance(error, ValueError) and type(transformer).__module__.startswith("sklearn."):
                raise DataError(f"while {doing}: {error}") from error
            error.add_note(f"while {doing}")
            raise
        made = np.asarray(made.toarray() if hasattr(made, "toarray") else made)  # sparse matrices have it
        if made.ndim not in (1, 2) or len(made) != len(rows):
            raise DataError(
                f"{what} made shape {made.shape} of rows of shape {rows.shape}; it must make one row of each sample"
            )
        if values.dtype == np.float32 and made.dtype.kind == "f":
            made = made.astype(np.float32, copy=False)
        return made.reshape(values.shape) if made.shape == rows.shape else made

    def describe(self) -> dict[str, Any]:
        """Transformers by entry and a mark of all that they have learned, for fingerprints."""
        learned = {entry: _state(transformer) for entry, transformer in self.transformers.items()}
        return {"transformers": self.transformers, "sha256": fingerprint_of(learned)}

    def __repr__(self) -> str:
        kinds = ", ".join(f"{entry!r}: {type(each).__name__}" for entry, each in self.transformers.items())
        return f"FittedPreprocessing({{{kinds}}})"


def attach(network: object, fitted: FittedPreprocessing) -> None:
    """Let a network know what its inputs have gone through; predictors and experiments ask it."""
    # past what frameworks do with attributes: it is no part of the network's state
    object.__setattr__(network, _ATTRIBUTE, fitted)


def attached(network: object) -> FittedPreprocessing | None:
    """Return what the inputs of a network have gone through; ``None`` if nothing is known."""
    return vars(network).get(_ATTRIBUTE) if hasattr(network, "__dict__") else None


def missing(entry: str, batch: Mapping[str, Any]) -> str:
    """Say that there is nothing for a transformer to work on."""
    return f"preprocessing names {entry!r}, but a batch has only {[*batch]}{did_you_mean(entry, map(str, batch))}"


def works_in_place(transformer: object) -> bool:
    """Return True if a transformer, or one inside of it, was told not to copy what it is given."""
    parameters = transformer.get_params(deep=True) if hasattr(transformer, "get_params") else {}
    return any(name.rpartition("__")[2] == "copy" and value is False for name, value in parameters.items())


def _state(value: object) -> Any:
    """Return what a transformer is and has learned, with those inside of it."""
    if isinstance(value, (list, tuple)):
        return [_state(item) for item in value]
    if not hasattr(value, "get_params") or isinstance(value, type):
        return value
    return (type(value).__qualname__, {name: _state(item) for name, item in vars(value).items()})
