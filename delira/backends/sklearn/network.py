"""The network of the backend: a scikit-learn estimator, with names for what goes in and comes out; and files of it."""

import functools
import inspect
from collections.abc import Collection, Hashable, Iterable, Iterator, Mapping, Sequence, Set
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.base import clone, is_classifier

from delira import contract
from delira.backends.sklearn.backend import BACKEND
from delira.contract.kinds import Array, ByName, Network
from delira.data_loading._exact import as_rows
from delira.errors import (
    CheckpointError,
    ConfigError,
    DataError,
    MissingKeyError,
    NetworkError,
    check_flags,
    check_texts,
)
from delira.io.checkpoint import check_format
from delira.io.container import check_model, check_saved, verify_zip
from delira.models.abstract_network import AbstractNetwork
from delira.utils.arrays import map_leaves
from delira.utils.files import as_path, as_target, publish
from delira.utils.seeding import fix_random_states


class SklearnEstimator(AbstractNetwork):
    """Any scikit-learn estimator: classifiers, regressors, pipelines, searches, all with ``fit`` and ``predict``.

    Regressors predict ``pred`` in the shape of the labels. Classifiers predict ``pred``, scores of shape
    (B, n_classes): probabilities if they have them, else what ``decision_function`` says (of two classes 0 and the
    score), else 1 for the predicted class; and ``label_pred``, what ``predict`` says, in the shape of the labels.
    Integer labels from 0 are numbers of columns of ``pred``, as in the other backends; other labels have one column
    each, in sorted order. Where the training data are a part of a data set, as in a fold, they are those of the whole:
    every fold has the same columns. With several labels a sample (or pixels), both are what ``predict`` says.

    Parameters
    ----------
    estimator
        The estimator. ``random_state=None`` anywhere in it gets a number made from seed and fold in a training.
    target
        Entry of a batch that it learns to predict; ``None``: it learns without labels.
    classes
        Labels in the order of the columns of ``pred``, and all that ``partial_fit`` will ever see; found in the
        data if ``None``.
    partial_fit
        Whether it learns batch by batch, in every epoch, by ``partial_fit``. If not, it is fitted once, at the end
        of the first epoch, on all of its samples. ``None``: batch by batch, if it can.
    trusted
        Further classes and functions, or their full names, that a checkpoint may hold: those that third parties'
        estimators make while they learn.
    """

    __delira_backend__ = BACKEND

    def __init__(
        self,
        estimator: Network,
        *,
        target: str | None = "label",
        classes: Sequence[Any] | None = None,
        partial_fit: bool | None = None,
        trusted: Iterable[Any] = (),
    ):
        if isinstance(estimator, type):
            name = estimator.__name__
            raise NetworkError(f"the estimator {name} is a class, pass an instance: {name}()")
        if not is_estimator(estimator):
            raise NetworkError(f"{type(estimator).__name__} is no scikit-learn estimator: it has no fit and get_params")
        if not hasattr(type(estimator), "predict"):  # an instance may get it by fit
            raise NetworkError(
                f"{type(estimator).__name__} has no predict, so there is nothing to test; put it into a "
                "pipeline before an estimator that has"
            )
        _check_arguments(target, classes, partial_fit, trusted)
        if partial_fit and not hasattr(estimator, "partial_fit"):
            raise NetworkError(f"{type(estimator).__name__} has no partial_fit; leave partial_fit=True out")
        super().__init__(
            estimator=clone(estimator), target=target, classes=classes, partial_fit=partial_fit, trusted=tuple(trusted)
        )
        self.estimator, self.target = estimator, target
        self.classes = None if classes is None else [*classes]
        self.partial_fit, self.trusted = partial_fit, tuple(trusted)
        #: shape of the labels of one sample, once it has seen any
        self.label_shape: tuple[int, ...] | None = None
        #: labels that were found in the data
        self.found_classes: Any = None
        #: all labels of the data set that it was trained on a part of, which columns of ``pred`` stand for
        self.columns: list[Any] | None = None
        #: what skops does not know of the checkpoints that this process has written itself
        self.written: set[str] = set()

    @property
    def is_incremental(self) -> bool:
        """Return True if it learns batch by batch."""
        return hasattr(self.estimator, "partial_fit") if self.partial_fit is None else self.partial_fit

    @property
    def needs_classes(self) -> bool:
        """Return True if its next ``partial_fit`` must be told all classes."""
        return (
            self.is_incremental
            and "classes" in inspect.signature(self.estimator.partial_fit).parameters
            and not BACKEND.calls.is_ready(self)
        )

    @property
    def output_kind(self) -> str:
        """Return what ``pred`` is, also before it was fitted: ``"probabilities"``, ``"scores"`` or ``"numbers"``."""
        if not is_classifier(self.estimator):
            return "numbers"
        return "probabilities" if hasattr(self.estimator, "predict_proba") else "scores"

    @property
    def needs_columns(self) -> bool:
        """Return True if the columns of ``pred`` are to be found in the data."""
        return self.target is not None and self.classes is None and is_classifier(self.estimator)

    def set_random_states(self, seed: int, fold: int) -> None:
        """Give every ``random_state`` that is ``None`` a number made from seed and fold."""
        fix_random_states(self.estimator, seed, fold)

    def forget(self) -> None:
        """Replace the estimator, if it was fitted, by a new one with the same parameters."""
        if BACKEND.calls.is_ready(self):
            self.estimator = clone(self.estimator)

    # ------------------------------------------------------------------ learning and predicting

    def learn(self, x: np.ndarray, y: np.ndarray | None, *, batch: bool) -> None:
        """Learn from samples.

        Parameters
        ----------
        x
            Inputs of shape (B, ...); everything behind the first axis is one row of features.
        y
            Labels of shape (B, ...), or ``None``.
        batch
            Whether to learn on, from these samples too (``partial_fit``), or anew, from these alone (``fit``).
        """
        x = np.array(x) if batch else x  # the rows of a whole fit are a copy already
        labels: list[np.ndarray] = []
        if y is not None:
            self.label_shape = y.shape[1:]
            labels = [y.reshape(len(y)) if y.size == len(y) else y.reshape(len(y), -1)]
        told: dict[str, Any] = {}
        if batch and self.needs_classes:
            told["classes"] = self.found_classes if self.classes is None else np.asarray(self.classes)
        learn = self.estimator.partial_fit if batch else self.estimator.fit
        learn(_rows(x), *labels, **told)

    def __call__(self, x: np.ndarray) -> dict[str, np.ndarray]:
        """Predict: ``x`` of shape (B, ...) gives ``pred``, and ``label_pred`` of classifiers."""
        # copies: StandardScaler(copy=False) and its like work in place
        labels = np.asarray(self.estimator.predict(_rows(np.array(x))))
        shaped = labels.reshape(len(labels), *(self.label_shape or labels.shape[1:]))
        if not is_classifier(self.estimator):
            return {"pred": shaped}
        has_scores = labels.ndim == 1 and hasattr(self.estimator, "classes_")
        return {"pred": class_scores(self, _rows(np.array(x)), labels) if has_scores else shaped, "label_pred": shaped}

    @staticmethod
    @contract.backend_default
    def prepare_batch(batch: ByName, input_device: Any = None, output_device: Any = None) -> dict[str, Any]:
        """Numpy arrays, as they are."""
        return {key: map_leaves(np.asarray, value) for key, value in batch.items()}

    @staticmethod
    @contract.backend_default
    def closure(
        model: Network,
        data_dict: dict[str, Any],
        optimizers: ByName,
        losses: ByName | None = None,
        metrics: ByName | None = None,
        fold: int = 0,
        **kwargs: Any,
    ) -> tuple[dict[str, Any], dict[str, Any], ByName]:
        """Learn from the batch, or keep it until the estimator is fitted; predictions are made if they are read."""
        hooks: contract.StepHooks = kwargs.get("hooks") or contract.NO_HOOKS
        step = contract.Step(model, data_dict)
        contract.run_hooks(hooks.sample, step)
        inputs = contract.select_inputs(kwargs.get("key_mapping") or BACKEND.calls.key_mapping(model), step.batch)
        if model.target is not None and model.target not in step.batch:
            raise MissingKeyError(
                f"the estimator learns {model.target!r}, but the batch has only {sorted(step.batch)}; name the entry: "
                "SklearnEstimator(estimator, target=…), or target=None for one that learns without labels"
            )
        target = None if model.target is None else step.batch[model.target]
        if model.is_incremental:
            model.learn(inputs["x"], target, batch=True)
        else:
            optimizers["default"].append(step.batch, inputs, target)
        step.predictions = _Predictions(model, inputs) if BACKEND.calls.is_ready(model) else {}
        contract.run_hooks(hooks.forward, step)
        values = contract.call_metrics(metrics or {}, kwargs.get("metric_keys") or {}, step.predictions, step.batch)
        return values, {}, step.predictions


class _Predictions(Mapping[str, Any]):
    """Predictions of a step that are computed when somebody reads them, which few trainings do."""

    def __init__(self, network: Network, inputs: ByName):
        self._network, self._inputs = network, inputs

    @functools.cached_property
    def _values(self) -> ByName:
        return contract.named_outputs(self._network, self._network(**self._inputs))

    def __getitem__(self, name: str) -> Any:
        return self._values[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._values)

    def __len__(self) -> int:
        return len(self._values)


def _check_arguments(target: Array, classes: Any, partial_fit: Any, trusted: Any) -> None:
    if target is not None:
        check_texts("SklearnEstimator", target=target)
    if partial_fit is not None:
        check_flags("SklearnEstimator", partial_fit=partial_fit)
    if classes is not None and not _are_labels(classes):
        raise ConfigError(
            f"SklearnEstimator: classes is a list of all labels, each of them once, e.g. [0, 1], got {classes!r}"
        )
    is_list = isinstance(trusted, Collection) and not isinstance(trusted, (str, bytes, Mapping))
    if not is_list or not all(callable(each) or (isinstance(each, str) and each) for each in trusted):
        raise ConfigError(
            "SklearnEstimator: trusted is a list of classes and functions, or of their full names, e.g. "
            f"['package.Class'], got {trusted!r}"
        )


def _are_labels(classes: object) -> bool:
    if not isinstance(classes, Collection) or isinstance(classes, (str, bytes, Mapping, Set)):  # sets have no order
        return False
    labels = [*classes]
    are_single = all(isinstance(label, Hashable) and label == label for label in labels)  # NaN is unequal
    return are_single and 0 < len(labels) == len(set(labels))


def as_network(network: object) -> Any:
    """The network of an estimator that is passed as it is; others as they are."""
    return SklearnEstimator(network) if is_estimator(network) and not hasattr(network, "closure") else network


def is_estimator(value: object) -> bool:
    """Return True if a value has what every scikit-learn estimator has."""
    return not isinstance(value, type) and callable(getattr(value, "fit", None)) and hasattr(value, "get_params")


def _rows(x: np.ndarray) -> np.ndarray:
    return as_rows(x, "the input of an estimator")


#: labels from here on are names of classes, not numbers of columns
_MAX_COLUMNS = 1 << 12


def class_scores(network: Network, rows: np.ndarray, labels: np.ndarray) -> np.ndarray:
    """Scores of shape ``(n, n_classes)`` of a fitted classifier with one label a sample.

    Parameters
    ----------
    network
        The :class:`SklearnEstimator`.
    rows
        Inputs of shape ``(n, n_features)``.
    labels
        What it predicts for them, of shape ``(n,)``.
    """
    estimator = network.estimator
    classes = np.asarray(estimator.classes_)
    for method, is_probability in (("predict_proba", True), ("decision_function", False)):
        if not hasattr(estimator, method):
            continue
        scores = np.asarray(getattr(estimator, method)(rows))
        if scores.ndim == 1 and len(classes) == 2:
            scores = np.stack([np.zeros_like(scores), scores], axis=1)
        if scores.shape == (len(rows), len(classes)) and (is_probability or not _has_pairs(estimator, classes)):
            return _spread(scores, _columns(classes, network), is_probability)
    return _spread((labels[:, None] == classes).astype(np.float64), _columns(classes, network), True)


def _has_pairs(estimator: Network, classes: np.ndarray) -> bool:
    """Return True if scores are of pairs of classes (``SVC(decision_function_shape="ovo")``): of 3 there are 3, too."""
    parameters = estimator.get_params(deep=True).items()
    return len(classes) == 3 and any(
        n.rpartition("__")[2] == "decision_function_shape" and v == "ovo" for n, v in parameters
    )


def _spread(scores: np.ndarray, places: tuple[np.ndarray, int], is_probability: bool) -> np.ndarray:
    """The scores in their columns; a class that the estimator never saw is the least likely one."""
    columns, n_columns = places
    if n_columns == len(columns) and (columns == np.arange(n_columns)).all():
        return scores
    least = 0 if is_probability else scores.min(axis=1, keepdims=True) - 1
    spread = np.broadcast_to(least, (len(scores), n_columns)).astype(scores.dtype)
    spread[:, columns] = scores
    return spread


def _columns(own: np.ndarray, network: Network) -> tuple[np.ndarray, int]:
    """The column of each class, and their number."""
    learned, given, found = own.tolist(), network.classes, network.columns
    if given is not None and (unknown := [name for name in learned if name not in given]):
        raise DataError(f"the estimator has learned the labels {unknown}, which are not among classes={given}")
    if given is None:  # a transform may have made other labels than those of the data set
        given = found if found is not None and set(learned) <= set(found) else learned
        if _are_numbers(np.asarray(given)):
            return own.astype(np.int64), int(max(given)) + 1
    places = {name: column for column, name in enumerate(given)}
    return np.array([places[name] for name in learned]), len(given)


def _are_numbers(classes: np.ndarray) -> bool:
    """Return True if labels are numbers of columns."""
    if classes.dtype.kind not in "iuf" or not len(classes):
        return False
    return bool(classes.min() >= 0 and classes.max() < _MAX_COLUMNS and (classes == classes.astype(np.int64)).all())


_MODEL = "a SklearnEstimator"


def save_checkpoint_sklearn(file: str | Path, model: object, epoch: int | None = None) -> Path:
    """Write an estimator to a file, completely or not at all; returns the file.

    Parameters
    ----------
    file
        Its name; ``.zip`` is added if it has no ending.
    model
        The :class:`SklearnEstimator`.
    epoch
        Number of finished epochs.

    Raises
    ------
    ConfigError
        If an argument is of no use, e.g. ``file`` is a folder.
    CheckpointError
        If it holds what skops cannot write.
    """
    check_model("save_checkpoint_sklearn", model, SklearnEstimator, _MODEL)
    check_saved("save_checkpoint_sklearn", None, epoch)
    path = as_target(_named(as_path(file, "file")), "file")
    tree = {**BACKEND.checkpoints.state_tree(model, {}), "epoch": epoch}
    return publish(path, lambda opened: BACKEND.checkpoints.write(opened, tree))


def load_checkpoint_sklearn(file: str | Path, model: object) -> dict[str, Any]:
    """Read an estimator into a network; nothing in the file is executed.

    Parameters
    ----------
    file
        A checkpoint of a training or of :func:`save_checkpoint_sklearn`.
    model
        A :class:`SklearnEstimator` of the same class and parameters; its ``trusted`` says what else may be in it.

    Returns
    -------
    dict
        ``{"model": model, "epoch": number of finished epochs}``.

    Raises
    ------
    ConfigError
        If an argument is of no use.
    CheckpointError
        If the file is missing, damaged, of a later format, of another estimator, or holds classes that are not trusted.
    """
    check_model("load_checkpoint_sklearn", model, SklearnEstimator, _MODEL)
    path = _named(as_path(file, "file"))
    verify_zip(path)
    tree = BACKEND.checkpoints.read(path)
    check_format(path, tree)
    try:
        BACKEND.checkpoints.load_state_tree(tree, model, {})
    except CheckpointError as error:
        raise CheckpointError(f"{path}: {error}") from error
    return {"model": model, "epoch": tree.get("epoch")}


def _named(path: Path) -> Path:
    return path if path.suffix else path.with_name(path.name + BACKEND.checkpoint_suffix)
