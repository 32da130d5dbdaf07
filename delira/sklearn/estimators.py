"""The estimators: scikit-learn's words for a training of a network."""

from collections.abc import Callable, Mapping
from numbers import Real
from pathlib import Path
from typing import Any, Self

import numpy as np
from sklearn.base import ClassifierMixin, RegressorMixin
from sklearn.exceptions import NotFittedError
from sklearn.model_selection import train_test_split
from sklearn.utils import check_random_state
from sklearn.utils.metaestimators import available_if
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted, validate_data

from delira.errors import ConfigError, expect, is_count, positive
from delira.metrics.tree import criteria
from delira.sklearn.fitting import Fit, Samples, Settings
from delira.sklearn.networks import Task, backend_of, is_estimator_class, make_plan
from delira.sklearn.parameters import NestedParameters


def _can_go_on(estimator: Any) -> bool:
    """Whether it has ``partial_fit``: every network has, of scikit-learn's estimators some."""
    return not is_estimator_class(estimator.model_cls) or hasattr(estimator.model_cls, "partial_fit")


class NetworkEstimator(NestedParameters):
    """What the estimators of both tasks share.

    Parameters
    ----------
    model_cls
        A network class of any backend, or an estimator class of scikit-learn; a multilayer perceptron of the first
        framework that is installed (PyTorch, JAX, TensorFlow) if ``None``.
    model
        Arguments of the class. Of those that are not given, ``n_features``, ``in_features`` and ``in_channels`` are
        ``X.shape[1]``, ``n_outputs`` and ``out_features`` the number of classes or of columns of ``y``, ``n_classes``
        and ``num_classes`` that of classes.
    losses
        Loss functions by name, called as ``loss(prediction, target)``; cross-entropy of logits, or the mean squared
        error, of the backend if ``None``.
    optimizer_cls, optimizer_params
        Class of the optimizer, and its keywords; Adam with a rate of 1e-3 if ``None``.
    num_epochs
        How often ``fit`` sees all samples, at most.
    batch_size
        Samples in a batch, of training and of prediction.
    val_split
        Share of the samples, between 0 and 1, that are not learned from but say which epoch is the best, whose weights
        are kept; ``None``: all are learned from, and the last weights are kept.
    patience
        Epochs in a row without a better score after which ``fit`` ends; ``None``: it does not.
    training
        Any other setting of the trainer (``print(delira.training.settings_help())``), ``callbacks`` and
        ``key_mapping``.
    random_state
        An integer: the same gives the same bits; a ``RandomState``; ``None`` draws from numpy's global generator.
    verbose
        0: nothing is shown; 1 and 2 as of the trainer.
    save_path
        Folder that each ``fit`` writes a run to, with its checkpoints, history and manifest; ``None``: no file is left.
    """

    _kind: str

    def __init__(  # noqa: PLR0913 - scikit-learn reads the parameters of an estimator off its constructor
        self,
        model_cls: type[Any] | None = None,
        model: Mapping[str, Any] | None = None,
        *,
        losses: Mapping[str, Any] | None = None,
        optimizer_cls: Callable[..., Any] | None = None,
        optimizer_params: Mapping[str, Any] | None = None,
        num_epochs: int = 20,
        batch_size: int = 32,
        val_split: float | None = None,
        patience: int | None = None,
        training: Mapping[str, Any] | None = None,
        random_state: int | np.random.RandomState | None = None,
        verbose: int = 0,
        save_path: str | Path | None = None,
    ) -> None:
        self.model_cls = model_cls
        self.model = model
        self.losses = losses
        self.optimizer_cls = optimizer_cls
        self.optimizer_params = optimizer_params
        self.num_epochs = num_epochs
        self.batch_size = batch_size
        self.val_split = val_split
        self.patience = patience
        self.training = training
        self.random_state = random_state
        self.verbose = verbose
        self.save_path = save_path

    # ------------------------------------------------------------------ what is learned

    @property
    def network_(self) -> Any:
        """The trained network, in evaluation mode."""
        return self._fitted().network

    @property
    def history_(self) -> list[dict[str, float]]:
        """One record for each epoch: losses and metrics by name, those of the validation with ``val_``."""
        return self._fitted().history

    def __sklearn_is_fitted__(self) -> bool:
        """Return True if there is a network."""
        return hasattr(self, "_fit")

    def _fitted(self) -> Fit:
        if not hasattr(self, "_fit"):
            raise NotFittedError(f"This {type(self).__name__} instance is not fitted yet. Call 'fit' first.")
        fit: Fit = self._fit
        return fit

    # ------------------------------------------------------------------ arguments and data

    def _validated(self, *data: Any, reset: bool, **told: Any) -> Any:
        """Arrays of what users give, by scikit-learn's own checks; of 32 bits where networks compute with these."""
        dtype = np.float32 if backend_of(self.model_cls).is_differentiable else "numeric"
        with np.errstate(over="ignore"):  # what is too large for 32 bits is refused
            return validate_data(self, *data, reset=reset, dtype=dtype, allow_nd=True, **told)

    def _check(self) -> None:
        """Refuse arguments that mean nothing; scikit-learn does not let the constructor do it."""
        split, patience = self.val_split, self.patience
        is_share = isinstance(split, Real) and 0 < split < 1  # True is 1
        expect(
            positive("num_epochs", self.num_epochs, "epoch"),
            positive("batch_size", self.batch_size, "sample"),
            ("val_split", split, split is None or is_share, "a number between 0 and 1 (exclusive), or None"),
            ("patience", patience, patience is None or is_count(patience), "a number of epochs, or None"),
        )
        if patience is not None and split is None:
            raise ConfigError(
                f"patience={patience} waits for a better score of a validation, and there is none; say val_split=0.2"
            )
        if split is None and isinstance(self.training, Mapping) and self.training.get("val_score_key") is not None:
            raise ConfigError(
                f"training names val_score_key={self.training['val_score_key']!r}, and there is no validation that has "
                "it; say val_split=0.2, or leave it out"
            )

    def _settings(self) -> Settings:
        return Settings(
            losses=self.losses,
            optimizer_cls=self.optimizer_cls,
            optimizer_params=self.optimizer_params,
            batch_size=self.batch_size,
            verbose=self.verbose,
            patience=self.patience,
            training={} if self.training is None else self.training,
        )

    def _begin(self, x: np.ndarray, n_outputs: int, *, in_batches: bool) -> Fit:
        """What trains a new network."""
        self._check()
        task = Task(
            kind=self._kind,
            n_inputs=x.shape[1],
            n_outputs=n_outputs,
            is_yes_or_no=self._kind == "classification" and _says_yes_or_no(self.losses, n_outputs),
            in_batches=in_batches,
        )
        seed = int(check_random_state(self.random_state).randint(np.iinfo(np.int32).max))
        return Fit(make_plan(self.model_cls, self.model, task), task, self._settings(), seed)

    def _train(self, x: np.ndarray, y: np.ndarray, n_outputs: int) -> Self:
        fit = self._begin(x, n_outputs, in_batches=False)
        samples, validation = Samples(x, y), None
        if self.val_split is not None:
            parts = _divided(y, float(self.val_split), fit.seed, is_of_classes=self._kind == "classification")
            samples, validation = (Samples(x[part], y[part]) for part in parts)
        is_once = is_estimator_class(self.model_cls)  # by its own method
        fit.train(samples, validation, 1 if is_once else self.num_epochs, self.save_path)
        self._fit = fit
        return self

    def _train_on(self, x: np.ndarray, y: np.ndarray, n_outputs: int) -> Self:
        fit = self._fit if hasattr(self, "_fit") else self._begin(x, n_outputs, in_batches=True)
        fit.go_on(Samples(x, y))
        self._fit = fit
        return self


def _says_probabilities(estimator: Any) -> bool:
    """Whether the outputs of the network are known to be probabilities, or logits that they are made of."""
    if not hasattr(estimator, "_fit"):
        return True
    known = estimator._fit.known
    if known.output in ("logits", "probabilities"):
        return True
    if is_estimator_class(estimator.model_cls):
        name = estimator.model_cls.__name__
        raise AttributeError(
            f"{name} has no predict_proba; calibrate it: model_cls=CalibratedClassifierCV, "
            f"model={{'estimator': {name}()}}"
        )
    name = estimator._fit.plan.network_cls.__name__
    why = (
        f"the outputs of {name} are {known.output}, and no probabilities are made of these"
        if known.output
        else f"nothing says whether the outputs of {name} are logits or probabilities, since its loss is not known"
    )
    raise AttributeError(f"{why}; say training={{'output': 'logits'}} or training={{'output': 'probabilities'}}")


def _says_yes_or_no(losses: Any, n_classes: int) -> bool:
    """Return True if losses compare one output with two classes."""
    given = [*losses.values()] if isinstance(losses, Mapping) else []
    if not given or not criteria.combined([*map(criteria.describe_criterion, given)]).is_of_each:
        return False
    if n_classes != 2:
        raise ConfigError(f"the loss {next(iter(losses))!r} tells two classes apart, and y has {n_classes}")
    return True


class Classifier(ClassifierMixin, NetworkEstimator):
    """A classifier of scikit-learn that is a network of any backend, or an estimator of scikit-learn.

    It has ``classes_``, ``n_features_in_``, ``feature_names_in_`` (of data frames), ``network_`` and ``history_`` when
    it is fitted. Every parameter that is a dict is set entry by entry, too, e.g. by a search: ``model__hidden=32``,
    ``optimizer_params__lr=0.01``, ``training__gradient_clip_norm=1.0``.

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> X, y = load_digits(return_X_y=True)
    >>> classifier = Classifier(model={"hidden": 64}, num_epochs=10, random_state=0).fit(X / 16, y)
    >>> classifier.score(X / 16, y) > 0.9
    True
    """

    _kind = "classification"

    def fit(self, X: Any, y: Any) -> Self:
        """Train a new network.

        Parameters
        ----------
        X
            Array, data frame or nested list of shape (n, n_features), or (n, channels, ...) for a network of images.
        y
            Labels of any kind, of shape (n,).

        Raises
        ------
        ValueError
            If the data are none: not finite, sparse, of other lengths, targets of a regression.
        ConfigError
            If an argument means nothing, or one of the network is missing.
        """
        X, y = self._validated(X, y, reset=True)
        check_classification_targets(y)
        self.classes_, numbers = np.unique(y, return_inverse=True)
        return self._train(X, numbers.astype(np.int64), len(self.classes_))

    @available_if(_can_go_on)
    def partial_fit(self, X: Any, y: Any, classes: Any = None) -> Self:
        """Train on for one epoch over these samples, from where the network is; a new one if there is none.

        Parameters
        ----------
        X, y
            As of :meth:`fit`.
        classes
            All labels that there will ever be, of shape (n_classes,); the first call needs them.

        Raises
        ------
        ValueError
            If the first call names no classes, a later one others, or ``y`` has a label that is not among them.
        """
        is_first = not hasattr(self, "_fit")
        X, y = self._validated(X, y, reset=is_first)
        check_classification_targets(y)
        if is_first and classes is None:
            raise ValueError("classes must be passed on the first call to partial_fit")
        known = np.unique(np.asarray(classes)) if is_first else self.classes_
        if not is_first and classes is not None and not np.array_equal(np.unique(np.asarray(classes)), known):
            raise ValueError(f"classes={classes!r} are not those of the first call to partial_fit: {known!r}")
        if len(unknown := np.setdiff1d(y, known)):
            raise ValueError(f"y has the labels {unknown.tolist()}, which are not among the classes {known.tolist()}")
        self.classes_ = known
        return self._train_on(X, np.searchsorted(known, y).astype(np.int64), len(known))

    def predict(self, X: Any) -> np.ndarray:
        """Predict labels.

        Parameters
        ----------
        X
            As of :meth:`fit`.

        Returns
        -------
        ndarray
            Labels of shape (n,), of the type of those in ``y``.
        """
        check_is_fitted(self)
        return np.asarray(self.classes_[self._fit.labels(self._validated(X, reset=False))])

    @available_if(_says_probabilities)
    def predict_proba(self, X: Any) -> np.ndarray:
        """Predict probabilities: of logits the softmax.

        It is there where the loss, or ``training={"output": ...}``, says what the outputs of the network are.

        Parameters
        ----------
        X
            As of :meth:`fit`.

        Returns
        -------
        ndarray
            Float64 of shape (n, n_classes), in the order of ``classes_``.
        """
        check_is_fitted(self)
        return self._fit.probabilities(self._validated(X, reset=False))


class Regressor(RegressorMixin, NetworkEstimator):
    """A regressor of scikit-learn that is a network of any backend, or an estimator of scikit-learn.

    It has ``n_features_in_``, ``feature_names_in_`` (of data frames), ``network_`` and ``history_`` when it is fitted.
    Parameters that are dicts are set as those of :class:`Classifier`. Large targets take long to learn: put it into
    ``sklearn.compose.TransformedTargetRegressor``.

    Examples
    --------
    >>> from sklearn.datasets import load_diabetes
    >>> X, y = load_diabetes(return_X_y=True)
    >>> regressor = Regressor(optimizer_params={"lr": 0.01}, random_state=0).fit(X, y / 100)
    >>> regressor.predict(X).shape
    (442,)
    """

    _kind = "regression"

    def fit(self, X: Any, y: Any) -> Self:
        """Train a new network.

        Parameters
        ----------
        X
            Array, data frame or nested list of shape (n, n_features), or (n, channels, ...) for a network of images.
        y
            Numbers of shape (n,), or (n, n_outputs).

        Raises
        ------
        ValueError
            If the data are none: not finite, sparse, of other lengths.
        ConfigError
            If an argument means nothing, or one of the network is missing.
        """
        X, y = self._validated(X, y, reset=True, multi_output=True, y_numeric=True)
        self._is_flat = y.ndim == 1
        return self._train(X, y, 1 if y.ndim == 1 else y.shape[1])

    @available_if(_can_go_on)
    def partial_fit(self, X: Any, y: Any) -> Self:
        """Train on for one epoch over these samples, from where the network is; a new one if there is none.

        Parameters
        ----------
        X, y
            As of :meth:`fit`.
        """
        is_first = not hasattr(self, "_fit")
        X, y = self._validated(X, y, reset=is_first, multi_output=True, y_numeric=True)
        n_outputs = 1 if y.ndim == 1 else y.shape[1]
        if not is_first and n_outputs != self._fit.task.n_outputs:
            raise ValueError(f"y has {n_outputs} outputs, and the network has learned {self._fit.task.n_outputs}")
        self._is_flat = y.ndim == 1
        return self._train_on(X, y, n_outputs)

    def predict(self, X: Any) -> np.ndarray:
        """Predict values.

        Parameters
        ----------
        X
            As of :meth:`fit`.

        Returns
        -------
        ndarray
            Float64 of shape (n,) or (n, n_outputs), as ``y`` was.
        """
        check_is_fitted(self)
        values = self._fit.predict(self._validated(X, reset=False)).astype(np.float64)
        return values.reshape(len(values)) if self._is_flat else values.reshape(len(values), -1)

    def __sklearn_tags__(self) -> Any:
        """Tell scikit-learn that it takes several targets."""
        tags = super().__sklearn_tags__()
        tags.target_tags.multi_output = True
        return tags


def _divided(y: np.ndarray, share: float, seed: int, *, is_of_classes: bool) -> tuple[np.ndarray, np.ndarray]:
    """Numbers of the samples that are learned from and of those that are not, with all classes in both if possible."""
    counts = np.bincount(y) if is_of_classes else np.zeros(0, np.int64)
    n_held_out = int(np.ceil(share * len(y)))
    can_be = len(counts) > 0 and counts.min() > 1 and len(counts) <= min(n_held_out, len(y) - n_held_out)
    first, second = train_test_split(
        np.arange(len(y)), test_size=share, random_state=seed, stratify=y if can_be else None
    )
    return first, second
