"""Prediction of new data by networks, runs, folds, checkpoints and ensembles."""

import contextlib
import logging
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, NamedTuple

import numpy as np

from delira.contract import Network
from delira.errors import (
    ConfigError,
    DataError,
    check_choice,
    check_flags,
    check_mappings,
    check_whole,
    if_given,
    listed,
    noting,
)
from delira.experiments.result import KFoldResult
from delira.inference import Inference
from delira.metrics import gather
from delira.prediction.cases import Case, Unreadable, cases_of, check_inputs
from delira.prediction.ensemble import FILE, load_ensemble
from delira.prediction.model import Combined, Model, OneNetwork, way_of
from delira.prediction.networks import fold_folders, read_network
from delira.prediction.written import Folder
from delira.runs.results import FoldResult
from delira.training.predictor import Predictor
from delira.training.scores import KINDS, Kept, kept_as
from delira.training.trainer import BaseNetworkTrainer

_log = logging.getLogger("delira")

#: outputs by name, arrays of shape ``(n, ...)``
Predictions = dict[str, Any]


class Prediction(NamedTuple):
    """One case that was predicted."""

    name: str
    """Of the case: that of its file, what its data set calls it, or its number."""
    outputs: dict[str, Any]
    """Arrays by name, without an axis of samples."""
    file: Path | None = None
    """Where the case comes from, if it is a file."""


def predict(  # noqa: PLR0913 - one door for all sources and data
    source: Any,
    data: Any,
    *,
    inference: Inference | Literal["trained"] | None = "trained",
    tta: Inference | None = None,
    keep: Kept | None = None,
    batch_size: int | None = None,
    out: str | Path | None = None,
    stream: bool = False,
    on_error: Literal["raise", "skip"] = "raise",
    objects: Mapping[str, Any] | None = None,
) -> Any:
    """Predict new data, which need no labels.

    Parameters
    ----------
    source
        A network, an :class:`Ensemble`, a result of ``kfold`` (its folds as an ensemble) or one of its folds, or the
        path of a run, of a fold, of a checkpoint, or of an ensemble.
    data
        An array of shape ``(n, ...)``, or a dict of such arrays by entry of a batch; a sample as a data set gives it; a
        data set, a data manager, an iterable of batches; files (``.npy``, ``.npz``, NIfTI, pictures), or a folder.
    inference
        How cases are predicted, e.g. ``SlidingWindow(96)``; ``"trained"``: as the validation of the training did
        (``val_inference``, ``val_tta``); None: as they are.
    tta
        A :class:`delira.TestTimeAugmentation` around it.
    keep
        ``"labels"``, ``"probabilities"`` or ``"logits"``; None: what the networks say.
    batch_size
        Cases at once; that of a manager, 32 of arrays, else 1.
    out
        Folder to write each case to, as soon as it is predicted, as ``<case>.npz``, or as ``<case>.nii.gz`` with the
        geometry of the volume that it comes from. Cases that are there already are not predicted again.
    stream
        Return an iterator over cases, of which nothing is kept.
    on_error
        What is done about cases that cannot be read, or do not fit the network: ``"raise"``, or ``"skip"`` them, which
        is told at the end.
    objects
        As of :func:`delira.load_network`.

    Returns
    -------
    dict, iterator or list
        Outputs by name, arrays of shape ``(n, ...)`` (arrays of arrays where cases differ in shape); with ``stream``
        an iterator of ``(name, outputs, file)``; with ``out`` the list of files.

    Raises
    ------
    ConfigError
        If source or data are nothing that can be predicted with.
    DataError
        If a case cannot be read, or is not such as the network learned from, naming it.
    """
    check_flags("predict", stream=stream)
    check_mappings("predict", **if_given(objects=objects))
    check_choice("predict", ("raise", "skip"), on_error=on_error)
    check_choice("predict", (None, *KINDS), keep=keep)
    check_whole("predict", at_least=1, **if_given(batch_size=batch_size))
    if stream and out is not None:
        raise ConfigError("predict: stream=True gives cases one by one, and out= writes them; ask for one of them")
    model = as_model(source, objects)
    way = way_of(model, inference, tta)
    folder = None if out is None else Folder.opened(out, model, (inference, tta, keep))
    cases = cases_of(data, model.reads[0], model.inputs, batch_size)
    found = _Pass(model, way, keep, on_error, folder).run(cases)
    if stream:
        return found
    if folder is not None:
        for _ in found:
            pass
        return folder.files
    return _gathered(found)


class _Pass:
    """One pass over cases."""

    def __init__(self, model: Model, way: Inference | None, keep: str | None, on_error: str, folder: Folder | None):
        self._model, self._way, self._keep = model, way, keep
        self._skips, self._folder = on_error == "skip", folder
        self._skipped: list[str] = []

    def run(self, cases: Iterator[Case | Unreadable]) -> Iterator[Prediction]:
        number = 0
        for case in cases:
            with contextlib.ExitStack() as stack:
                if self._skips:
                    stack.enter_context(self._skipping(case))
                for one in self._predicted(case):
                    number += 1
                    if self._folder is not None:
                        self._folder.write(one)
                    yield one
        if self._skipped:
            what = "1 case was" if len(self._skipped) == 1 else f"{len(self._skipped):,} cases were"
            _log.warning("%s not predicted: %s", what, listed(self._skipped, 5))
        if not number and not self._skipped and (self._folder is None or not self._folder.files):
            raise DataError("the data gave no case; a generator can be gone through only once")

    def _predicted(self, case: Case | Unreadable) -> Iterator[Prediction]:
        if isinstance(case, Unreadable):
            case.error.add_note(f"while the case {case.name!r} was read for its prediction")
            raise case.error
        names = case.names
        if self._folder is not None and all(map(self._folder.has, names)):
            return
        check_inputs(case, self._model.inputs)
        with noting(f"in the prediction of case {listed(names, 3)}"):
            outputs = self._model.predict_batch(case.batch, self._way)
            space = max((np.shape(case.batch[key])[2:] for key in self._model.reads), key=len, default=())
            outputs = kept_as(outputs, self._keep, space, self._model.outputs)
        for position, name in enumerate(names):
            yield Prediction(name, _one_of(outputs, position), case.files[position])

    @contextlib.contextmanager
    def _skipping(self, case: Case | Unreadable) -> Iterator[None]:
        try:
            yield
        except (DataError, OSError, ValueError, KeyError) as error:
            names = [case.name] if isinstance(case, Unreadable) else case.names
            self._skipped += [f"{name} ({type(error).__name__}: {str(error)[:200]})" for name in names]


def _one_of(outputs: Any, position: int) -> Any:
    """One case of a batch of outputs."""
    if isinstance(outputs, Mapping):
        return {name: _one_of(value, position) for name, value in outputs.items()}
    if isinstance(outputs, (list, tuple)):
        return type(outputs)(_one_of(value, position) for value in outputs)
    return np.asarray(outputs)[position]


def _batch_of(outputs: Any) -> Any:
    if isinstance(outputs, Mapping):
        return {name: _batch_of(value) for name, value in outputs.items()}
    if isinstance(outputs, (list, tuple)):
        return type(outputs)(_batch_of(value) for value in outputs)
    return np.asarray(outputs)[None]


def _gathered(cases: Iterator[Prediction]) -> Predictions:
    kept = gather.Gatherer()
    for case in cases:
        kept.append(_batch_of(case.outputs))
    return kept.result()


def as_model(source: Any, objects: Mapping[str, Any] | None = None) -> Model:
    """What predicts, of anything that can: see :func:`predict`.

    Raises
    ------
    ConfigError
        If it cannot.
    """
    if isinstance(source, (Combined, OneNetwork)):
        return source
    if isinstance(source, KFoldResult):
        return load_ensemble(source, objects=objects)
    if isinstance(source, FoldResult):
        if source.path is None:
            raise ConfigError(f"{source!r} has no folder, so its network is not kept")
        source = source.path
    if isinstance(source, BaseNetworkTrainer):
        source = source.module
    if isinstance(source, Predictor):
        return OneNetwork(source)
    if isinstance(source, (str, Path)):
        path = Path(source)
        if (path / FILE).is_file() or _is_of_folds(path):
            return load_ensemble(path, objects=objects)
        stored = read_network(path, objects)
        return OneNetwork(stored.predictor(), stored)
    if isinstance(source, Sequence) and not isinstance(source, str):
        return load_ensemble(source, objects=objects)
    return _of_network(source)


def _is_of_folds(path: Path) -> bool:
    if not path.is_dir() or (path / "checkpoints").is_dir() or path.name == "checkpoints":
        return False
    return len(fold_folders(path)) > 1


def _of_network(network: Network) -> OneNetwork:
    if isinstance(network, type) or not callable(getattr(network, "prepare_batch", None)):
        raise ConfigError(
            "predict takes a trained network, an ensemble, a result, a fold, or the path of a run or checkpoint, got "
            f"{network!r:.200}"
        )
    return OneNetwork(Predictor(network))
