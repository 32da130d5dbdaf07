"""Prediction of new data by networks, runs, folds, checkpoints and ensembles."""

import copy
import dataclasses
import logging
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, NamedTuple

import numpy as np

from delira.contract import Network
from delira.data_loading.transforms import Transform, TransformCall, describe_transform
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
from delira.prediction.cases import (
    NAME_THEM,
    Case,
    Unreadable,
    apart,
    cases_of,
    check_inputs,
    check_spacing,
    space_in,
    widest_of,
)
from delira.prediction.ensemble import FILE, load_ensemble
from delira.prediction.model import SPREAD, Combined, Model, OneNetwork, way_of
from delira.prediction.networks import fold_folders, read_network
from delira.prediction.written import Folder, where_in
from delira.runs.results import FoldResult
from delira.training.predictor import Predictor
from delira.training.scores import KINDS, Kept, kept_as
from delira.training.trainer import BaseNetworkTrainer
from delira.utils.arrays import iterate_leaves
from delira.utils.references import safe_repr

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
    spread: bool | None = None,
    transforms: Transform | None = None,
    batch_size: int | None = None,
    out: str | Path | None = None,
    stream: bool = False,
    on_error: Literal["raise", "skip"] = "raise",
    any_spacing: bool = False,
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
        data set, a data manager, an iterable of batches; files (``.npy``, ``.npz``, NIfTI, pictures), or a folder of
        them, or of one folder for each case with one file.
    inference
        How cases are predicted, e.g. ``SlidingWindow(96)``; ``"trained"``: as the validation of the training did
        (``val_inference``, ``val_tta``); None: as they are.
    tta
        A :class:`delira.TestTimeAugmentation` around it.
    keep
        ``"labels"``, ``"probabilities"`` or ``"logits"``; None: what the networks say.
    spread
        Whether the predictions of an ensemble have an entry ``"spread"``; None: as the ensemble says.
    transforms
        Called on each batch before the network, as ``transforms=`` of a data manager is: what training did to raw files
        and no ``preprocessing=`` has kept. Those of a manager come before.
    batch_size
        Cases at once; that of a manager, 32 of arrays, else 1. Cases of a file each are together if their shapes are
        alike.
    out
        Folder to write each case to, as soon as it is predicted, as ``<case>.npz``; or as ``<case>.nii.gz`` where the
        input is a volume with a geometry: a NIfTI file, or a sample with an entry ``affine``. Cases that are there
        already are not predicted again.
    stream
        Return an iterator over cases, of which nothing is kept.
    on_error
        What is done about cases that cannot be read, or do not fit the network: ``"raise"``, or ``"skip"`` them, which
        is told at the end.
    any_spacing
        Whether volumes may have another ``spacing`` than those that the network learned from, by more than 10 %.
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
    check_whole("predict", at_least=1, **if_given(batch_size=batch_size))
    how = How(
        inference=inference, tta=tta, keep=keep, spread=spread, transforms=transforms, any_spacing=any_spacing,
        on_error=on_error,
    )  # fmt: skip
    if stream and out is not None:
        raise ConfigError("predict: stream=True gives cases one by one, and out= writes them; ask for one of them")
    model = with_spread(as_model(source, objects), spread)
    folder = None if out is None else Folder.opened(out, model, how.told(model))
    is_done = None if folder is None else folder.has
    found = Pass(model, how, folder).run(cases_of(data, model.reads[0], model.inputs, batch_size, is_done))
    if stream:
        return found
    if folder is not None:
        for _ in found:
            pass
        if folder.n_unknown:
            _log.warning(
                "%d of %d cases are in %r already, by their names, and are not predicted again, also if their data are "
                "others now; delete their files, or name another folder, to predict them anew",
                folder.n_unknown, len(folder.files), str(folder.path),
            )  # fmt: skip
        return folder.files
    return _gathered(found)


@dataclasses.dataclass(frozen=True, kw_only=True)
class How:
    """In which way cases are predicted: arguments of :func:`predict`."""

    inference: Inference | Literal["trained"] | None = "trained"
    tta: Inference | None = None
    keep: Kept | None = None
    spread: bool | None = None
    transforms: Transform | None = None
    any_spacing: bool = False
    on_error: Literal["raise", "skip"] = "raise"

    def __post_init__(self) -> None:
        check_choice("predict", ("raise", "skip"), on_error=self.on_error)
        check_choice("predict", (None, *KINDS), keep=self.keep)
        check_flags("predict", any_spacing=self.any_spacing, **if_given(spread=self.spread))

    def told(self, model: Model) -> dict[str, Any]:
        """What decides what the predictions are, in plain values that are the same in every process."""
        spread = model.spread if isinstance(model, Combined) else None
        way = model.inference if self.inference == "trained" else self.inference
        told = {"inference": way, "tta": self.tta, "keep": self.keep, "spread": spread}
        transform = None if self.transforms is None else describe_transform(self.transforms)
        return {name: safe_repr(one) for name, one in told.items()} | {"transforms": transform}


class Pass:
    """One pass over cases.

    Parameters
    ----------
    model
        What predicts.
    how
        In which way.
    folder
        Where each case is written to; those that are there are not predicted again.

    Attributes
    ----------
    skipped : dict
        Cases that were not predicted, by name, and why.
    """

    def __init__(self, model: Model, how: How, folder: Folder | None):
        self._model, self._how, self._folder = model, how, folder
        self._way = way_of(model, how.inference, how.tta)
        self._transform = None if how.transforms is None else TransformCall(how.transforms)
        self._done: set[str] = set()
        self.skipped: dict[str, str] = {}

    def run(self, cases: Iterator[Case | Unreadable]) -> Iterator[Prediction]:
        """Predict cases, each when it is asked for.

        Raises
        ------
        DataError
            If one cannot be, unless such cases are skipped, or there is none.
        """
        number = 0
        for case in cases:
            for one in self._unless_skipped(case) if self._how.on_error == "skip" else self._predicted(case):
                number += 1
                yield one
        if self.skipped:
            what = "1 case was" if len(self.skipped) == 1 else f"{len(self.skipped):,} cases were"
            _log.warning("%s not predicted: %s", what, listed([f"{n} ({e})" for n, e in self.skipped.items()], 5))
        if not number and not self.skipped and (self._folder is None or not self._folder.files):
            raise DataError("the data gave no case; a generator can be gone through only once")

    def _predicted(self, case: Case | Unreadable) -> Iterator[Prediction]:
        if isinstance(case, Unreadable):
            case.error.add_note(f"while the case {case.name!r} was read for its prediction")
            raise case.error
        left = [position for position, name in enumerate(case.names) if not self._is_done(name, case.content(position))]
        if not left:
            return
        model, first = self._model, case.names[0]
        with noting(f"in the prediction of case {listed(case.names, 3)}"):
            batch = case.batch
            if self._transform is not None:  # one that draws draws the same of the same cases in a process that goes on
                batch = self._transform(batch, np.random.default_rng(0), f"case {first!r}")
            check_inputs(first, batch, model.inputs)
            if not self._how.any_spacing and "spacing" in batch:
                check_spacing(case.names, batch, model.spacing)
            outputs = model.predict_batch(batch, self._way)
            if self._how.keep == "labels":
                _check_has_labels(case.names, outputs)
            outputs = kept_as(outputs, self._how.keep, space_in(batch, model.reads), model.outputs)
        where = where_in(case.batch, batch, widest_of(batch, model.reads))
        for position in left:
            one = Prediction(case.names[position], _one_of(outputs, position), case.files[position])
            if self._folder is not None:
                self._folder.write(one.name, one.outputs, where[position], one.file, case.content(position))
            yield one

    def _is_done(self, name: str, content: str | None) -> bool:
        """Whether a case is in the folder; one that came before in this pass is another of the same name."""
        if self._folder is None:
            return False
        if name in self._done:
            raise DataError(f"several cases are called {name!r}, and their predictions would be one file; {NAME_THEM}")
        self._done.add(name)
        return self._folder.has(name, content)

    def _unless_skipped(self, case: Case | Unreadable) -> Iterator[Prediction]:
        """Predict cases, of which those are noted that cannot be."""
        try:
            yield from self._predicted(case)
        except Exception as error:
            name = case.name if isinstance(case, Unreadable) else case.names[0]
            # what was read, and cannot be written, is no fault of the case: the disk may be full
            if isinstance(case, Case) and not isinstance(error, (DataError, ValueError, KeyError)):
                raise
            if isinstance(case, Case) and len(case.names) > 1:  # the others may be predicted
                self._done.difference_update(case.names)
                for one in apart(case):
                    yield from self._unless_skipped(one)
            else:
                self.skipped[name] = f"{type(error).__name__}: {error}"[:300]


def _check_has_labels(names: Sequence[str], outputs: Mapping[str, Any]) -> None:
    """Refuse scores that are NaN, of which the largest would be called a class like any other."""
    for path, leaf in iterate_leaves(outputs):
        array = np.asarray(leaf)
        if array.dtype.kind != "f" or not array.size or path[0] == SPREAD:
            continue
        least = array.reshape(len(array), -1).min(axis=1)  # NaN if one is
        if bad := [name for name, one in zip(names, least, strict=True) if np.isnan(one)]:
            raise DataError(
                f"the output {'.'.join(map(str, path))!r} of case {listed(bad, 3)} is not a number (NaN) somewhere, "
                "which is no label; is there NaN in its input?"
            )


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


def with_spread(model: Model, spread: bool | None) -> Model:
    """The same model that says, or does not say, how far its members differ.

    Raises
    ------
    ConfigError
        If one network is asked for it.
    """
    if isinstance(model, Combined) and spread not in (None, model.spread):
        model = copy.copy(model)
        model.spread = bool(spread)
    elif spread and not isinstance(model, Combined):
        raise ConfigError("predict: spread=True is how far the members of an ensemble differ, and this is one network")
    return model


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
