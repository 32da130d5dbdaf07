"""Preprocessing that learns: transformers of scikit-learn, fitted on the training part of each fold alone."""

import contextlib
import copy
import dataclasses
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from delira.contract import DEFAULT_LOSS_KEYS
from delira.data_loading import BaseDataManager, SequentialSampler
from delira.data_loading._exact import as_rows
from delira.data_loading.transforms import FittedPreprocessing, attach, missing
from delira.errors import CheckpointError, ConfigError, MissingKeyError, expect, noting, positive
from delira.io import container, estimators
from delira.metrics.scoring import keys_of
from delira.runs.results import PREPROCESSING as FILE
from delira.training.run import own_generators
from delira.training.trainer import BaseNetworkTrainer
from delira.utils import files, seeding
from delira.utils.threads import single_threaded

FORMAT = 1
#: 2 GiB
MAX_BYTES = 2**31
#: a part of what may be gathered, that ``partial_fit`` gets at a time
_CHUNKS = 8
_VOUCH = "preprocessing=Preprocessing({…}, trusted={names})"


class Preprocessing:
    """Transformers of scikit-learn by entry of a batch, to be fitted anew on the training part of every fold.

    ``kfold`` and ``run`` take one as ``preprocessing=``, or the dict alone. Samples are flattened to rows and get
    their shape back if the number of columns stays; it is done before the ``transforms`` of the data manager, in
    training, validation, test and prediction. ``random_state=None`` anywhere in a transformer gets a number made from
    seed and fold.

    Parameters
    ----------
    transformers
        Entry -> transformer or pipeline of transformers; each is cloned, so that what it has learned before is lost.
    trusted
        Names of classes and functions besides those of scikit-learn that the transformers may be made of, e.g.
        ``["my_package.MyScaler"]``: what was fitted is stored in the fold's folder, and reading it runs their code.
    max_bytes
        The training part of an entry is gathered, and fitted at once, if it takes no more (2 GiB). If it takes more,
        the transformer learns piece by piece, by its ``partial_fit``.

    Raises
    ------
    ConfigError
        If something is no transformer, learns from labels, or is made of what is not trusted.

    Examples
    --------
    >>> from sklearn.preprocessing import StandardScaler
    >>> preprocessing = Preprocessing({"data": StandardScaler()})
    >>> result = experiment.kfold(data, num_splits=5, preprocessing=preprocessing)  # doctest: +SKIP
    """

    def __init__(self, transformers: Mapping[str, Any], *, trusted: Iterable[Any] = (), max_bytes: int = MAX_BYTES):
        if not isinstance(transformers, Mapping) or not transformers:
            raise ConfigError(
                f"preprocessing must be a dict of transformers by entry, e.g. {{'data': StandardScaler()}}, got "
                f"{transformers!r}"
            )
        self.trusted, self.max_bytes = _checked_trusted(trusted), max_bytes
        expect(positive("max_bytes", max_bytes, "bytes"))
        self.transformers = {entry: self._checked(entry, each) for entry, each in transformers.items()}

    def _checked(self, entry: object, transformer: object) -> Any:
        """Return a clone of a transformer that can be fitted and stored."""
        from sklearn.base import clone

        what = f"preprocessing[{entry!r}]"
        if not isinstance(entry, str):
            raise ConfigError(f"preprocessing must name entries of the batch, got {entry!r}")
        if isinstance(transformer, type):
            raise ConfigError(f"{what} is the class {transformer.__name__}; pass an instance: {transformer.__name__}()")
        if isinstance(transformer, (list, tuple)):
            raise ConfigError(f"{what} is a {type(transformer).__name__}; make one of several with make_pipeline(…)")
        if absent := [name for name in ("fit", "transform", "get_params") if not hasattr(transformer, name)]:
            raise ConfigError(
                f"{what} is a {type(transformer).__name__}, which is no transformer of scikit-learn: it has no "
                f"{absent[0]}; functions that learn nothing belong into the transforms of the data manager"
            )
        if _learns_from_labels(transformer):
            raise ConfigError(
                f"{what} is a {type(transformer).__name__}, which learns from labels; a preprocessing is fitted on its "
                "entry alone: put it into a pipeline with an estimator (SklearnExperiment)"
            )
        unfitted = clone(transformer)
        try:
            names = estimators.dump(unfitted)[1]
        except CheckpointError as error:
            raise ConfigError(f"{what}, which is stored with each fold, cannot be: {error}") from error
        if strange := estimators.strange(names, self.trusted):
            if nameless := [name for name in strange if "<" in name]:
                raise ConfigError(
                    f"{what} is made of {nameless[0]}, which no file can name, and it is stored with each fold; write "
                    "functions by def and classes in a module"
                )
            raise ConfigError(
                f"{what} is made of {', '.join(strange)}, which could run code when the file of a fold is read. If you "
                f"trust that: {_VOUCH.replace('{names}', repr(strange))}"
            )
        return unfitted

    def describe(self) -> dict[str, Any]:
        """Return what decides the numbers, for manifests and fingerprints."""
        return {**self.transformers, **({} if self.max_bytes == MAX_BYTES else {"max_bytes": self.max_bytes})}

    def __repr__(self) -> str:
        return f"Preprocessing({self.transformers!r})"

    # ------------------------------------------------------------------ of one fold

    def of_fold(self, trainer: Any, train_data: BaseDataManager) -> FittedPreprocessing:
        """Return what the training of a fold uses: the stored one if it is continued, else fitted now, and stored.

        It becomes that of the trainer and of its network.

        Parameters
        ----------
        trainer
            With the network of the fold, its seed and its folder.
        train_data
            The training part; nothing else is looked at.

        Raises
        ------
        ConfigError
            If an entry is a target, or an entry is too large to be fitted.
        MissingKeyError
            If the data lack an entry.
        CheckpointError
            If the stored one is damaged, or what was learned could not be read back.
        """
        _refuse_targets(trainer, self.transformers)
        path = trainer.save_path / FILE
        if not path.exists():
            with trainer.backend.devices.threads(trainer.config.num_threads), own_generators(trainer.backend):
                learned = self._fit(train_data, trainer.seed, trainer.fold)
            _store(path, learned, self.trusted)
        fitted = load_preprocessing(path, self.trusted)
        trainer.preprocessing = fitted
        attach(trainer.module, fitted)
        return fitted

    def _fit(self, data: BaseDataManager, seed: int, fold: int) -> dict[str, Any]:
        """Fitted clones, by entry; every sample is read once, in order and without the transforms."""
        from sklearn.base import clone

        plain = copy.copy(data)
        plain.update_state_from_dict({"transforms": None, "sampler_cls": SequentialSampler, "drop_last": False})
        if plain.dataset.is_deterministic():
            plain.n_process_augmentation = 0  # it lies in memory: workers would only start
        fits: dict[str, _Fit] = {}
        for entry, template in self.transformers.items():
            fitted = clone(template)
            seeding.fix_random_states(fitted, seed, fold, stream=f"preprocessing {entry} ")
            fits[entry] = _Fit(entry, fitted, len(plain.dataset), self.max_bytes)
        try:
            where = f"in the fit of the preprocessing on the training part of fold {fold}"
            with seeding.seeded_globals(seeding.derive(seed, fold, stream="preprocessing")), noting(where):
                for batch in plain.epoch(seed, fold, 0):
                    for entry, fit in fits.items():
                        if entry not in batch:
                            raise MissingKeyError(missing(entry, batch))
                        fit.add(batch[entry])
                return {entry: fit.finished() for entry, fit in fits.items()}
        finally:
            plain.close()


@dataclasses.dataclass
class _Fit:
    """The fit of one transformer, that is given the samples batch by batch."""

    entry: str
    transformer: Any
    n_samples: int
    max_bytes: int
    size: int | None = None
    """Rows that ``partial_fit`` gets at a time; ``None``: all are fitted at once."""
    rows: list[np.ndarray] = dataclasses.field(default_factory=list)

    def add(self, values: object) -> None:
        rows = as_rows(values, f"entry {self.entry!r}")
        if not self.rows:
            self.size = self._choose_size(rows)
        self.rows.append(rows)
        # the last piece is never a small rest, of which some cannot learn
        while self.size is not None and sum(map(len, self.rows)) >= 2 * self.size:
            whole = np.concatenate(self.rows)
            self._learn(whole[: self.size], self.transformer.partial_fit)
            self.rows = [whole[self.size :]]

    def finished(self) -> Any:
        method = self.transformer.fit if self.size is None else self.transformer.partial_fit
        self._learn(np.concatenate(self.rows), method)
        return self.transformer

    def _learn(self, rows: np.ndarray, method: Callable[[np.ndarray], Any]) -> None:
        what = f"preprocessing[{self.entry!r}] ({type(self.transformer).__name__})"
        where = f"while {what} was fitted on training rows of shape {rows.shape}, {rows.dtype}"
        with noting(where), single_threaded():  # the same bits wherever the fold is
            method(rows)

    def _choose_size(self, rows: np.ndarray) -> int | None:
        n_bytes = self.n_samples * rows.nbytes // max(len(rows), 1)
        if n_bytes <= self.max_bytes:
            return None
        name = type(self.transformer).__name__
        if not hasattr(self.transformer, "partial_fit"):
            raise ConfigError(
                f"preprocessing[{self.entry!r}]: the training part takes {_gib(n_bytes)} as rows ({self.n_samples:,} "
                f"samples of {rows.dtype}), more than the {_gib(self.max_bytes)} that are gathered, and {name} has no "
                "partial_fit to learn from it piece by piece. Use one that has (StandardScaler, IncrementalPCA; a "
                "pipeline has none), smaller samples, or, if memory suffices, "
                f"preprocessing=Preprocessing({{…}}, max_bytes={n_bytes})"
            )
        n_pieces = -(-n_bytes * _CHUNKS // self.max_bytes)
        return max(1, self.n_samples // n_pieces)


def as_preprocessing(asked: Any) -> Preprocessing | None:
    """Return what ``preprocessing=`` was given, checked; ``None`` stays."""
    return asked if asked is None or isinstance(asked, Preprocessing) else Preprocessing(asked)


def check_manager(data: object, role: str) -> None:
    """Refuse data that nothing can be fitted on or done to."""
    if data is not None and not isinstance(data, BaseDataManager):
        raise ConfigError(
            f"preprocessing needs a BaseDataManager, and the {role} data are a {type(data).__name__}; wrap the "
            "dataset: BaseDataManager(dataset, batch_size=…)"
        )


def _learns_from_labels(transformer: Any) -> bool:
    with contextlib.suppress(Exception):  # of others than scikit-learn's own nobody knows; then fit says so
        return bool(transformer.__sklearn_tags__().target_tags.required)
    return False


def _refuse_targets(trainer: BaseNetworkTrainer, entries: Iterable[str]) -> None:
    """Refuse to rescale what losses and metrics compare with: their numbers would have other units in every fold."""
    config = trainer.config
    losses = [tuple(config.loss_keys.get(name, DEFAULT_LOSS_KEYS)) for name in config.losses]
    metrics = keys_of(config.epoch_metrics, config.keys_of(config.epoch_metrics)).values()
    targets = {key for keys in losses for key in keys[1:]} | {key for keys in metrics for key in tuple(keys)[:-1]}
    for entry in entries:
        if entry in targets and entry not in trainer.key_mapping.values():
            raise ConfigError(
                f"preprocessing names {entry!r}, which losses or metrics compare the predictions with: their numbers "
                "would have other units in every fold. Let the network scale its outputs, or scale the target by "
                "constants in the dataset"
            )


def _gib(n_bytes: int) -> str:
    return f"{n_bytes / 2**30:.3g} GiB"


# ------------------------------------------------------------------ on disk


def _store(path: Path, learned: Mapping[str, Any], trusted: Iterable[Any]) -> None:
    """Write what was fitted, completely or not at all; refuse first what could not be read back."""
    import sklearn

    packed = {}
    for entry, transformer in learned.items():
        packed[entry], names = estimators.dump(transformer)
        if strange := estimators.strange(names, trusted):
            raise CheckpointError(
                f"preprocessing[{entry!r}], a {type(transformer).__name__}, has learned objects of "
                f"{', '.join(strange)}, which could run code when the file of the fold is read. If you trust that: "
                f"{_VOUCH.replace('{names}', repr(strange))}"
            )
    tree = {"format": FORMAT, "sklearn": sklearn.__version__, "transformers": packed}
    files.publish(path, lambda file: container.write_tree(file, tree))


def load_preprocessing(path: str | Path, trusted: Iterable[Any] = ()) -> FittedPreprocessing:
    """Read what was fitted on the training part of a fold; nothing in the file is executed.

    Parameters
    ----------
    path
        ``preprocessing.zip``, the folder of the fold that it is in, or a checkpoint of that fold.
    trusted
        As of :class:`Preprocessing`.

    Raises
    ------
    ConfigError
        If there is none.
    CheckpointError
        If the file is damaged, of a later version, or holds what is not trusted.
    """
    trusted = _checked_trusted(trusted)
    file = _find(files.as_path(path, "path"))
    tree = container.read_tree(file)
    packed = tree.get("transformers")
    if tree.get("format") != FORMAT or not isinstance(packed, Mapping):
        raise CheckpointError(f"{file} has the format {tree.get('format')!r}; this version of delira reads {FORMAT}")
    vouch = (
        "load_preprocessing(path, trusted={names}), and Preprocessing({…}, trusted={names}); to predict, hand it over: "
        "objects={name: class} (for a command: --import its module)"
    )
    transformers = {}
    for entry, content in packed.items():
        try:
            transformers[entry] = estimators.load(content, trusted, vouch)
        except (AttributeError, CheckpointError) as error:
            raise CheckpointError(f"{file}, entry {entry!r}: {error}") from error
    return FittedPreprocessing(transformers)


def _checked_trusted(trusted: object) -> tuple[Any, ...]:
    if isinstance(trusted, str):
        raise ConfigError(f"trusted must be a list of names, got {trusted!r}; write trusted=[{trusted!r}]")
    names = tuple(trusted) if isinstance(trusted, Iterable) else (trusted,)
    are_names = isinstance(trusted, Iterable) and all(isinstance(one, str) or hasattr(one, "__name__") for one in names)
    expect(("trusted", trusted, are_names, "a list of names, or of classes and functions"))
    return names


def _find(path: Path) -> Path:
    places = [path] if path.name == FILE else []
    places += [path / FILE] + ([path.parent.parent / FILE] if path.parent.name == "checkpoints" else [])
    if found := [place for place in places if place.is_file()]:
        return found[0]
    raise ConfigError(
        f"there is no {FILE} in {str(path)!r}: pass the folder of a fold that was trained with preprocessing="
    )
