"""Prediction: a network, batches in, numpy arrays and exact metrics out."""

import contextlib
import dataclasses
import functools
import logging
import operator
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from delira.contract import Backend, Data, Network, named_outputs, select_inputs
from delira.data_loading.dataset import Subset
from delira.data_loading.transforms import FittedPreprocessing, attached
from delira.errors import ConfigError, DataError, MissingKeyError, NetworkError, check_functions, did_you_mean, if_given
from delira.inference import Inference
from delira.metrics import MetricSet, gather, scoring
from delira.metrics.per_class import mean_of_values
from delira.metrics.tree.labels import named_samples
from delira.training.checks import check_data
from delira.training.epoch import Feed, batch_length, has_epochs
from delira.training.keeping import Keeper
from delira.training.outputs import OutputReadings, lost_rows
from delira.utils.arrays import map_leaves, ops_of
from delira.utils.frameworks import find_backend

_log = logging.getLogger("delira")


@dataclasses.dataclass(frozen=True)
class Evaluation:
    """What one pass over a data set brought."""

    predictions: dict[str, Any]
    """Tree of arrays of shape ``(n, ...)``; empty if they were not kept."""

    metrics: dict[str, np.ndarray]
    """Arrays of shape ``(1,)``, or ``(n,)`` for metrics of single samples."""

    targets: dict[str, Any]
    """The batch entries that the metrics read."""

    not_finite: tuple[int, ...] = ()
    """Indices in the data set of cases whose predictions, as metrics read them, are not finite."""

    partial: tuple[str, ...] = ()
    """Names of metrics of which a sample may have no value, NaN."""

    def means(self) -> dict[str, float]:
        """Each metric as one number: its value, or the mean over the samples that have one."""
        return {name: mean_of_values(array, name in self.partial) for name, array in self.metrics.items()}


def lost_of(arrays: Mapping[str, Any], read: Iterable[str]) -> list[int]:
    """Positions in a batch of samples whose predictions are not finite, of those predictions that are read."""
    rows = np.zeros(0, bool)
    for key in read:
        if key.split(".", 1)[0] not in arrays and key not in arrays:
            continue
        with contextlib.suppress(MissingKeyError):
            array = scoring.lookup(arrays, key)
            if isinstance(array, np.ndarray) and array.ndim and array.dtype.kind == "f":
                found = lost_rows(array)
                rows = found if len(rows) != len(found) else rows | found
    return np.flatnonzero(rows).tolist()


def named_in(positions: Sequence[int], data: Data, batches: Data) -> tuple[int, ...]:
    """Positions in a pass as indices of the user's data set, where the data tell them."""
    order = getattr(batches, "loaded_order", None)
    named = [int(order[position]) if order is not None else position for position in positions]
    dataset = getattr(data, "dataset", None)
    while named and type(dataset) is Subset:
        named = [int(dataset.indices[index]) for index in named]
        dataset = dataset.parent
    return tuple(sorted(named))


def part_of(path: str, doc: str = "") -> Any:
    """Make an attribute that is one of a part; to set it sets that of the part.

    Parameters
    ----------
    path
        Path of the attribute from the object, e.g. ``"run.config"``.
    doc
        What it is.
    """
    part, _, name = path.rpartition(".")
    find = operator.attrgetter(part)
    # without a text it would have that of attrgetter
    return property(operator.attrgetter(path), lambda whole, value: setattr(find(whole), name, value), doc=doc)


class Predictor:
    """Predicts with a trained network; evaluation mode and no gradients, both given back afterwards.

    Parameters
    ----------
    model
        The network.
    key_mapping
        Argument of the network -> batch entry, e.g. ``{"x": "data"}``; ``None`` asks the backend.
    convert_batch_to_npy_fn
        Replaces the backend's conversion: ``fn(**predictions) -> (args, arrays)``.
    prepare_batch_fn
        Replaces the network's ``prepare_batch`` on its device: ``fn(batch) -> dict``.
    backend
        The backend's verbs; found by the network's class if not given.
    preprocessing
        What the inputs of the network went through in its training: it is done to every batch before the network's
        ``prepare_batch``, but for those of a manager that does it itself. That of the network, which an experiment has
        trained, if not given; ``delira.training.load_preprocessing`` reads one.
    """

    backend: Backend
    #: counters of random loading and transforms
    seed = fold = 0
    #: ``"nan"`` or ``"raise"``: what to do about predictions that are not finite
    nonfinite_predictions = "nan"
    #: the way of prediction, e.g. by windows; None: batches go through the network as they are
    inference: Inference | None = None
    #: makes what computes the losses of a prediction; a trainer has it
    watch_losses: Callable[[], Any] | None = None
    _told: frozenset[str] = frozenset()
    #: outputs of which nobody says what they are
    readings: OutputReadings | None = None
    preprocessing: FittedPreprocessing | None = part_of(
        "feed.preprocessing",
        "What inputs went through in the training of the network, done to batches unless a manager does it itself.",
    )

    def __init__(
        self,
        model: Network,
        key_mapping: Mapping[str, str] | None = None,
        convert_batch_to_npy_fn: Callable[..., Any] | None = None,
        prepare_batch_fn: Callable[[Mapping[str, Any]], dict[str, Any]] | None = None,
        *,
        backend: Backend | None = None,
        preprocessing: FittedPreprocessing | None = None,
    ):
        if backend is not None and not isinstance(backend, Backend):
            raise ConfigError(f"backend is the verbs of a framework, a Backend, got {backend!r}")
        functions = {"convert_batch_to_npy_fn": convert_batch_to_npy_fn, "prepare_batch_fn": prepare_batch_fn}
        check_functions(self, **if_given(**functions, preprocessing=preprocessing))
        if isinstance(model, type):
            raise NetworkError(f"model is the class {model.__name__}; pass a network, {model.__name__}(…)")
        self.backend = backend or find_backend(model)
        self.module = model
        #: what earlier passes have told of outputs of which nobody says what they are
        self._told_outputs: dict[str, Any] = {}
        self.key_mapping = _checked_mapping(key_mapping, model, self.backend)
        self._convert = convert_batch_to_npy_fn
        if prepare_batch_fn is None:
            if not callable(getattr(model, "prepare_batch", None)):
                raise NetworkError(f"{type(model).__name__} is no network: it has no prepare_batch")
            devices = self.backend.devices.of(model)
            prepare_batch_fn = functools.partial(
                model.prepare_batch, input_device=devices.input, output_device=devices.output
            )
        #: gives the network its batches
        self.feed = Feed(self.backend, prepare_batch_fn)
        self.preprocessing = attached(model) if preprocessing is None else preprocessing

    def __call__(self, data: Data, **kwargs: Any) -> Any:
        """Same as :meth:`predict`."""
        return self.predict(data, **kwargs)

    # ------------------------------------------------------------------ one batch

    def predict(self, data: Data, batch_size: int | None = None, **kwargs: Any) -> Any:
        """Predict one batch, or a whole data set in the historic form.

        Parameters
        ----------
        data
            A batch (dict of arrays of shape ``(B, ...)``), or a data manager or other iterable of batches.
        batch_size
            Batch size of the historic form; the manager's if ``None``.

        Returns
        -------
        dict or tuple
            For a batch: the predictions as numpy arrays. Otherwise ``(outputs, labels, metrics)``: the
            prediction arrays, the arrays of all batch entries that are no input, and the metrics; of a trainer also
            the losses, as means over all samples, where there are targets.
        """
        if isinstance(data, Mapping):
            batch = data if self.preprocessing is None else self.preprocessing(data)
            with self.backend.calls.evaluating(self.module):
                return self.to_numpy(self.outputs_of(batch))
        check_data(data, "given")
        batch_size = batch_size if has_epochs(data) else None  # of batches that are there it would change no number
        watcher = None if self.watch_losses is None else self.watch_losses()
        done = self.evaluate(
            data, batchsize=batch_size, metrics=self._default_metrics(), targets=None, watcher=watcher, **kwargs
        )
        labels = [array for key, array in done.targets.items() if key not in self.key_mapping.values()]
        losses = {} if watcher is None else watcher.losses.reduce()
        return list(done.predictions.values()), labels, {**done.metrics, **losses}

    def forward(self, prepared: Mapping[str, Any]) -> Mapping[str, Any]:
        """Call the network on a prepared batch; the predictions stay on the device.

        Raises
        ------
        MissingKeyError
            If the batch lacks an entry of ``key_mapping``.
        NetworkError
            If the network returns anything but a mapping.
        """
        inputs = select_inputs(self.key_mapping, prepared)
        try:
            outputs = self.backend.calls.forward(self.module, inputs)
        except Exception as error:
            _tell_inputs(error, self.key_mapping, prepared)
            raise
        return named_outputs(self.module, outputs)

    def outputs_of(self, batch: Mapping[str, Any], prepared: Mapping[str, Any] | None = None) -> Mapping[str, Any]:
        """Predict a batch in the way that was asked for.

        Parameters
        ----------
        batch
            As it was loaded.
        prepared
            The same for the network, where somebody needs it; then the predictions are where it is.
        """
        if self.inference is None:
            return self.forward(self.feed.prepare(batch) if prepared is None else prepared)
        inputs = {*self.key_mapping.values()}
        if missing := sorted(inputs - batch.keys()):
            raise MissingKeyError(f"the network reads {missing[0]!r}, and the batch has {sorted(batch)}")
        outputs = self.inference(self._called, batch, inputs)
        if prepared is None:
            return outputs
        like = prepared[next(iter(self.key_mapping.values()))]
        return map_leaves(lambda leaf: ops_of(like).asarray(leaf, like), outputs)  # type: ignore[no-any-return]

    def _called(self, batch: Mapping[str, Any]) -> dict[str, Any]:
        """What the network says of a batch, on the host."""
        return dict(self.backend.arrays.to_numpy(dict(self.forward(self.feed.prepare(batch)))))

    def to_numpy(self, predictions: Mapping[str, Any]) -> dict[str, Any]:
        """Predictions as numpy arrays."""
        if self._convert is not None:
            return dict(self._convert(**predictions)[1])
        return self.backend.arrays.to_numpy(dict(predictions))

    # ------------------------------------------------------------------ a data set

    def evaluate(  # noqa: PLR0913 - one pass, many readers: each of the historic methods is a view on it
        self,
        datamgr: Data,
        *,
        batchsize: int | None = None,
        metrics: Mapping[str, Any] | None = None,
        metric_keys: Mapping[str, Any] | None = None,
        keep_predictions: bool | Keeper = True,
        targets: Iterable[str] | None = (),
        watcher: Any = None,
        epoch: int = 0,
        verbose: bool = False,
    ) -> Evaluation:
        """Predict a whole data set once and compute exact metrics.

        Parameters
        ----------
        datamgr
            A data manager or another iterable of batches.
        batchsize
            Another batch size than the manager's.
        metrics, metric_keys
            Metrics by name, and the entries they read; see :class:`delira.metrics.MetricSet`.
        keep_predictions
            Whether to gather the predictions, or what says how.
        targets
            Batch entries to gather as well; ``None``: all.
        watcher
            Has ``before(prepared, batch)``, which returns the batch to predict, and
            ``after(predictions, prepared, n_samples)``, which returns the predictions to go on with: device values.
        epoch
            Counter of random loading and transforms.
        verbose
            Show a progress bar.
        """
        metrics = self._settled(metrics, metric_keys)
        metric_set = MetricSet(metrics, metric_keys)
        keeper = keep_predictions if isinstance(keep_predictions, Keeper) else None
        kept, seen = (gather.Gatherer() if keeper is None else keeper.gatherer() for _ in range(2))
        lost, n_seen = [], 0
        wanted = None if targets is None else frozenset(targets)
        batches = self.feed.in_order(datamgr, batchsize, (self.seed, self.fold, epoch))
        ahead = self.inference is None
        with self.backend.calls.evaluating(self.module), self.feed.opened(batches, verbose=verbose, ahead=ahead) as fed:
            for batch, predictions in self._predicted(fed, watcher):
                if metrics or keep_predictions:
                    arrays, host = self.read_entries(
                        metric_set, predictions, batch, everything=bool(keep_predictions), also=wanted
                    )
                    metric_set.update({**arrays, **host})
                    lost += [n_seen + position for position in lost_of(arrays, metric_set.entries)]
                    n_seen += batch_length(batch)
                    if keep_predictions:
                        kept.append(arrays if keeper is None else keeper.converted(arrays, batch))
                    if wanted is None or wanted:
                        seen.append(host if wanted is None else _entries(host, wanted))
        if metrics and n_seen:
            self._follow_outputs(metric_set, epoch)
        named = named_in(lost, datamgr, batches)
        self._tell_not_finite(named)
        values = metric_set.compute() if metrics else {}
        return Evaluation(kept.result(), values, seen.result(), named, metric_set.lacking)

    def _predicted(
        self,
        fed: Iterable[tuple[Mapping[str, Any], dict[str, Any] | None]],
        watcher: Any = None,
        scope: Callable[[], contextlib.AbstractContextManager[Any]] = contextlib.nullcontext,
    ) -> Iterator[tuple[Mapping[str, Any], Mapping[str, Any]]]:
        """Yield the batches of a pass without learning with their predictions; ``scope`` is left between two."""
        for batch, ready in fed:
            with scope():
                if watcher is None:
                    predictions = self.outputs_of(batch, ready)
                else:
                    given = self.feed.prepare(batch) if ready is None else ready
                    prepared = watcher.before(given, batch)
                    self._refuse_changed(given, prepared)
                    predictions = watcher.after(self.outputs_of(batch, prepared), prepared, batch_length(batch))
            if getattr(watcher, "is_enough", False):
                return
            yield batch, predictions

    def _refuse_changed(self, given: Mapping[str, Any], prepared: Mapping[str, Any]) -> None:
        """Refuse inputs that a callback has made others of, where those of the batch are predicted."""
        if self.inference is None:
            return
        if changed := [key for key in self.key_mapping.values() if prepared.get(key) is not given.get(key)]:
            raise ConfigError(
                f"a callback replaced the input {changed[0]!r} of a prediction that is made by {self.inference!r}, "
                "which reads the batch as it was loaded; leave the callback out, or do it in the transforms"
            )

    def _settled(self, metrics: Mapping[str, Any] | None, metric_keys: Mapping[str, Any] | None) -> Mapping[str, Any]:
        """Return metrics that read outputs as earlier passes have told."""
        if self.readings is None or not metrics:
            return metrics or {}
        return self.readings.settled(metrics, metric_keys or {}, self._told_outputs)

    def _follow_outputs(self, metrics: MetricSet, epoch: int) -> set[str]:
        """Keep how outputs were read of which nobody says what they are, and say it once; returns what has changed."""
        if self.readings is None or not self.readings.outputs:
            return set()
        sentences, changed = self.readings.take(metrics, self._told_outputs, epoch)
        for text in sentences:
            _log.warning("%s", text)
        return changed

    def follow(self, readings: OutputReadings, told: Mapping[str, Any]) -> None:
        """Read outputs of which nobody says what they are as a training has read them.

        Parameters
        ----------
        readings
            Of these outputs.
        told
            What the training has told of them; empty if there was none.
        """
        self.readings, self._told_outputs = readings, dict(told)

    def _tell_not_finite(self, cases: tuple[int, ...]) -> None:
        """Say once of which cases predictions are not finite, or raise it."""
        if not cases:
            return
        what = "1 case" if len(cases) == 1 else f"{len(cases):,} cases"
        text = (
            f"the predictions of {what} are not finite (index in the data: {named_samples(cases)}), so metrics over "
            "them are no numbers"
        )
        if self.nonfinite_predictions == "raise":
            raise DataError(f"{text}; look at the network and at these samples, or set nonfinite_predictions='nan'")
        if text not in self._told:
            self._told = self._told | {text}
            _log.warning("%s", text)

    def read_entries(
        self,
        metrics: MetricSet,
        predictions: Mapping[str, Any],
        batch: Mapping[str, Any],
        *,
        everything: bool = False,
        also: frozenset[str] | None = frozenset(),
    ) -> tuple[dict[str, Any], dict[str, Any]]:
        """Bring predictions and a batch to the host, no more of them than is read, since reading waits for the device.

        Parameters
        ----------
        metrics
            What reads them.
        predictions, batch
            The predictions on the device, and the batch.
        everything
            Whether all predictions are wanted.
        also
            Entries of the batch that are wanted besides; None: all.

        Returns
        -------
        tuple
            Predictions and entries of the batch as numpy arrays, by name.
        """
        read = metrics.entries
        if any(key not in batch and key not in predictions for key in read):
            metrics.check_keys(batch, predictions)
        if not everything and self._convert is None:
            predictions = _entries(predictions, read)
        host = dict(batch) if also is None else _entries(batch, read | also)
        return self.to_numpy(predictions), self.backend.arrays.to_numpy(host)

    def predict_data_mgr(
        self,
        datamgr: Data,
        batchsize: int | None = None,
        metrics: Mapping[str, Any] | None = None,
        metric_keys: Mapping[str, Any] | None = None,
        verbose: bool = False,
    ) -> Iterator[tuple[dict[str, Any], dict[str, np.ndarray]]]:
        """Yield ``(predictions, metrics)`` batch by batch; nothing is kept.

        The metrics are those of the single batch. Between two batches the network is in the caller's
        mode and gradients are as the caller left them. Cases whose predictions, as metrics read them, are not finite
        are told after the last batch.
        """
        metrics, lost, n_seen = self._settled(metrics, metric_keys), [], 0
        metric_set = MetricSet(metrics, metric_keys if metrics else None)
        scope = functools.partial(self.backend.calls.evaluating, self.module)
        batches = self.feed.in_order(datamgr, batchsize, (self.seed, self.fold, 0))
        with self.feed.opened(batches, verbose=verbose, ahead=False) as fed:
            for batch, predictions in self._predicted(fed, scope=scope):
                arrays, host = self.read_entries(metric_set, predictions, batch, everything=True, also=None)
                if metrics:
                    lost += [n_seen + position for position in lost_of(arrays, metric_set.entries)]
                    n_seen += batch_length(batch)
                yield arrays, self.calc_metrics({**arrays, **host}, metrics, metric_keys)
        self._tell_not_finite(named_in(lost, datamgr, batches))

    def predict_data_mgr_cache(
        self,
        datamgr: Data,
        batchsize: int | None = None,
        metrics: Mapping[str, Any] | None = None,
        metric_keys: Mapping[str, Any] | None = None,
        verbose: bool = False,
        cache_preds: bool = False,
    ) -> Iterator[Any]:
        """Yield one result: ``(predictions, metrics)``, or the metrics alone without ``cache_preds``."""
        done = self.evaluate(
            datamgr, batchsize=batchsize, metrics=metrics, metric_keys=metric_keys,
            keep_predictions=cache_preds, verbose=verbose,
        )  # fmt: skip
        yield (done.predictions, done.metrics) if cache_preds else done.metrics

    def predict_data_mgr_cache_all(self, datamgr: Data, *args: Any, **kwargs: Any) -> Iterator[Any]:
        """Yield one tuple ``(predictions, metrics)`` of the whole data set."""
        kwargs["cache_preds"] = True
        yield from self.predict_data_mgr_cache(datamgr, *args, **kwargs)

    def predict_data_mgr_cache_metrics_only(self, datamgr: Data, *args: Any, **kwargs: Any) -> Iterator[Any]:
        """Yield one dict: the metrics of the whole data set."""
        kwargs["cache_preds"] = False
        yield from self.predict_data_mgr_cache(datamgr, *args, **kwargs)

    @staticmethod
    def calc_metrics(
        batch: Mapping[str, Any], metrics: Mapping[str, Any] | None = None, metric_keys: Mapping[str, Any] | None = None
    ) -> dict[str, np.ndarray]:
        """Metrics of one batch that holds inputs, targets and predictions as numpy arrays."""
        if not metrics:
            return {}
        metric_set = MetricSet(metrics, metric_keys)
        metric_set.update(batch)
        return metric_set.compute()

    # ------------------------------------------------------------------ details

    def _default_metrics(self) -> Mapping[str, Any]:
        return {}


def _tell_inputs(error: Exception, key_mapping: Mapping[str, str], prepared: Mapping[str, Any]) -> None:
    """Say what the network was called with."""
    shapes = {key: tuple(prepared[key].shape) for key in key_mapping.values() if hasattr(prepared.get(key), "shape")}
    if shapes:
        read = ", ".join(f"{key!r} of shape {shape}" for key, shape in shapes.items())
        has_images = any(len(shape) > 3 for shape in shapes.values())
        error.add_note(f"the network was called with {read}" + "; images have the channels first" * has_images)


def _checked_mapping(key_mapping: Any, network: Network, backend: Backend) -> dict[str, str]:
    """The key mapping, or the backend's if there is none; arguments that the network does not take are refused."""
    if key_mapping is None:
        return backend.calls.key_mapping(network)
    if not isinstance(key_mapping, Mapping):
        raise ConfigError(
            f"key_mapping must be a dict {{argument of the network: entry of the batch}}, got {key_mapping!r}"
        )
    known = backend.calls.arguments_of(network)
    if known is not None and (unknown := [name for name in key_mapping if name not in known]):
        raise ConfigError(
            f"key_mapping names {unknown[0]!r}, but {type(network).__name__} takes no such argument"
            f"{did_you_mean(unknown[0], known)}"
        )
    return dict(key_mapping)


def _entries(batch: Mapping[str, Any], wanted: Iterable[str]) -> dict[str, Any]:
    """Entries of a batch by name or dotted path; a path keeps the whole entry it begins with."""
    roots = {key if key in batch else key.split(".", 1)[0] for key in wanted}
    return {key: value for key, value in batch.items() if key in roots}
