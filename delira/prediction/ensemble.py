"""The networks of several folds as one model."""

import functools
import json
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

import delira
from delira.errors import CheckpointError, ConfigError, check_mappings, check_that, if_given, is_count
from delira.experiments.result import KFoldResult
from delira.inference import Inference
from delira.io import shards
from delira.io.export import write_program
from delira.prediction.model import Combined
from delira.prediction.networks import MANIFEST, fold_folders, model_params, read_network
from delira.prediction.score import Asked, EnsembleScore, score, stored_metrics
from delira.prediction.seen import StoredMember, seen_by
from delira.runs.results import PREPROCESSING
from delira.runs.seen_cases import FILE as CASES
from delira.utils.files import (
    as_path,
    make_folder,
    parse_json,
    publish_copy,
    publish_text,
    read_bytes,
    sealed,
    unsealed,
)

#: of an ensemble that was saved
FILE, FORMAT = "ensemble.json", 1


class Ensemble(Combined):
    """The networks of several folds, of one run or more, as one model for new data.

    Every member gets what was fitted in its own training done to its inputs. See :class:`Combined` for the arguments.

    Examples
    --------
    >>> ensemble = result.ensemble()  # doctest: +SKIP
    >>> predictions = ensemble.predict({"data": images})  # doctest: +SKIP
    >>> predictions["pred"], predictions["spread"]["pred"]["entropy"]  # doctest: +SKIP
    """

    def predict(self, data: Any, **how: Any) -> Any:
        """Predict new data; see :func:`delira.predict`."""
        return delira.predict(self, data, **how)

    def score(  # noqa: PLR0913 - which data, by which metrics, predicted in which way
        self,
        data: Any,
        metrics: Mapping[str, Any] | None = None,
        *,
        metric_keys: Mapping[str, Sequence[str]] | None = None,
        on_seen: Literal["refuse", "skip"] = "refuse",
        inference: Inference | Literal["trained"] | None = "trained",
        tta: Inference | None = None,
        batch_size: int | None = None,
        objects: Mapping[str, Any] | None = None,
        any_spacing: bool = False,
    ) -> EnsembleScore:
        """Compare predictions of labelled data with their labels, on cases that no member has seen.

        A run keeps a hash of what its network reads of each case of its training and validation; by these cases are
        known again, also as numbers of another type, in another order or of another name. What was resampled or
        normalised since is another case. Patients are not compared: another image of a patient is new.

        Parameters
        ----------
        data
            As for :meth:`predict`, with the entries that the metrics read. Each case counts once: of patches whole
            cases are taken. Cases of a data manager are compared as its data set gives them, before its transforms.
        metrics, metric_keys
            Metrics by name and the entries they read, as an experiment takes them; those of the run if ``None``.
        on_seen
            What is done about cases that were part of the training or validation of a member: ``"refuse"`` all, or
            ``"skip"`` them, and count them.
        inference, tta, batch_size, any_spacing
            As for :meth:`predict`.
        objects
            Functions of metrics by name, where the run's are not imported under their names.

        Returns
        -------
        EnsembleScore
            ``values``, ``cases`` (a table), ``n_cases`` and ``skipped``.

        Raises
        ------
        ConfigError
            If there are no metrics, or one is not known.
        DataError
            If cases were seen; none is left; one is not such as the members learned from, or cannot be read; or labels
            name classes that the members do not have. It names the case.
        MissingKeyError
            If a metric reads what the data lack.
        """
        asked = Asked(metrics, metric_keys, on_seen, inference, tta, batch_size, objects, any_spacing)
        return score(self, data, asked)

    def export(
        self,
        path: str | Path,
        example: Mapping[str, Any],
        *,
        spread: bool = False,
        inference: Inference | Literal["trained"] | None = "trained",
    ) -> Path:
        """Write all members as one program that runs without delira, and says what :meth:`predict` says.

        Each member does what was fitted in its own training to the inputs: transformers that shift and scale each
        feature are layers of the program, others are refused by name. Inputs are called as the arguments of the
        networks, as in :func:`delira.io.export`; outputs as in :meth:`predict`, nested ones with dots. What the
        values of the example alone say, that an output is probabilities, holds for the program. What a
        ``prepare_batch`` of your own does is no part of it.

        Parameters
        ----------
        path
            Its ending says the format, as of :func:`delira.io.export`: ``.pt2``, ``.onnx``, ``.ptj``, a folder for a
            SavedModel, ``.stablehlo``. Estimators of scikit-learn are refused.
        example
            A batch of arrays of shape ``(B, ...)``, as for :meth:`predict`, with the samples first.
        spread
            Whether the program also has the outputs ``spread.<output>.sd``, ``.entropy`` and ``.disagreement``.
        inference
            Windows and test-time augmentation are no part of a program: members that were validated by them are
            refused, unless ``None`` says that the networks are to be written as they predict what they get at once.

        Raises
        ------
        ConfigError
            If the backend does not write this format, or the members cannot be one program, saying why.
        DataError
            If an input has no axis of samples, or another number of them.
        MissingKeyError
            If the example lacks an entry that the members read.
        NetworkError
            If a network, or what it returns, cannot be written in this format.
        """
        make = functools.partial(self.to_program, spread=spread, inference=inference)
        return write_program(make, path, example)

    def save(self, path: str | Path) -> Path:
        """Write the members and how they are combined into one folder, from which :func:`load_ensemble` reads them.

        Parameters
        ----------
        path
            The folder; made if it does not exist. One with an ensemble in it is refused.

        Raises
        ------
        ConfigError
            If there is an ensemble already.
        """
        folder = as_path(path, "path")
        if (folder / FILE).exists():
            raise ConfigError(f"there is an ensemble in {str(folder)!r} already; name another folder")
        names = []
        for number, member in enumerate(self.members):
            source = member.load().path
            own = folder / f"member_{number:02d}" / "checkpoints"
            make_folder(own)
            for name in (PREPROCESSING, CASES, MANIFEST):  # of another ensemble, whose saving was broken off
                (own.parent / name).unlink(missing_ok=True)
            shards.copy(source, own)
            before = source.parent.parent if source.parent.name == "checkpoints" else source.parent
            if (before / PREPROCESSING).is_file():
                publish_copy(before / PREPROCESSING, own.parent / PREPROCESSING)
            if (seen := seen_by(source)) is not None:
                seen.write(own.parent)
            called = model_params(source)
            facts = {**({} if called is None else {"model_params": called}), **stored_metrics(source)}
            if facts:
                publish_text(own.parent / MANIFEST, json.dumps(facts) + "\n")
            names.append({"name": member.name, "checkpoint": str((own / source.name).relative_to(folder))})
        content = {
            "format": FORMAT,
            "members": names,
            "weights": self.weights,
            "combine": self.combine,
            "spread": self.spread,
        }
        publish_text(folder / FILE, json.dumps(sealed(content), indent=1) + "\n")  # last: then all is there
        return folder


def load_ensemble(  # noqa: PLR0913 - where the members are, and what they are together
    path: str | Path | KFoldResult | Sequence[str | Path | KFoldResult],
    weights: Sequence[float] | None = None,
    combine: str | None = None,
    *,
    folds: Iterable[int] | None = None,
    objects: Mapping[str, Any] | None = None,
    trusted: Iterable[Any] = (),
    spread: bool | None = None,
    at_once: bool | None = None,
) -> Ensemble:
    """Take the folds of a run as one model, or read one that was saved.

    Parameters
    ----------
    path
        A result of ``kfold``; a run folder, or the folder above it: then its newest run; a folder that
        :meth:`Ensemble.save` wrote; or several of these over the same classes, or folds of them.
    weights, combine, spread, at_once
        As of :class:`Ensemble`; of one that was saved those it had, unless they are given.
    folds
        Numbers of the folds of a run that are members, in the order of ``weights``; None: all that have a checkpoint.
    objects, trusted
        As of :func:`load_network`.

    Raises
    ------
    ConfigError
        If there is no such run, fold or class.
    CheckpointError
        If a member is missing or damaged, naming it.
    """
    check_mappings("load_ensemble", **if_given(objects=objects))
    is_known = isinstance(path, (str, Path, KFoldResult))
    are_known = isinstance(path, Sequence) and all(isinstance(one, (str, Path, KFoldResult)) for one in path)
    check_that(is_known or are_known, "load_ensemble", "path is a result, a folder, or a list of them", path)
    chosen = [*folds] if isinstance(folds, Iterable) else None
    is_right = folds is None or (chosen is not None and all(map(is_count, chosen)) and len({*chosen}) == len(chosen))
    check_that(is_right, "load_ensemble", "folds are different numbers of folds, from 0", folds)
    sources = [path] if isinstance(path, (str, Path, KFoldResult)) else [*path]
    files: dict[str, Path] = {}
    for source in sources:
        for name, file in _files_of(source, chosen).items():
            if file.resolve() in {one.resolve() for one in files.values()}:
                raise ConfigError(f"{str(file)!r} is a member twice; what a member counts is said by weights=")
            files[name if name not in files else str(file)] = file
    members = [
        StoredMember(name, functools.partial(read_network, file, objects, trusted=trusted), file)
        for name, file in files.items()
    ]
    saved = [Path(one) for one in sources if not isinstance(one, KFoldResult) and (Path(one) / FILE).is_file()]
    kept = _stored(saved[0]) if len(saved) == len(sources) == 1 else {}
    return Ensemble(
        members,
        kept.get("weights") if weights is None else weights,
        kept.get("combine") if combine is None else combine,
        spread=bool(kept.get("spread", True)) if spread is None else spread,
        at_once=at_once,
    )


def _files_of(source: str | Path | KFoldResult, chosen: Sequence[int] | None) -> dict[str, Path]:
    """The folders or checkpoints of members by their names, in the order in which folds were chosen."""
    if isinstance(source, KFoldResult):
        return {name: file for fold in _of_result(source, chosen) for name, file in _files_of(fold, None).items()}
    path = Path(source)
    is_saved = (path / FILE).is_file()
    if not (is_saved or path.is_file() or (path / "checkpoints").is_dir()):
        return {f"fold_{number:02d}": folder for number, folder in _of_run(path, chosen).items()}
    if chosen is not None:
        what = "an ensemble that was saved" if is_saved else "one fold"
        raise ConfigError(f"folds={chosen}: {str(path)!r} is {what}, and folds are chosen of a run; leave folds= out")
    return _members_in(path) if is_saved else {path.name: path}


def _of_result(result: KFoldResult, chosen: Sequence[int] | None) -> list[Path]:
    """The folders of folds of a result."""
    folds = {fold.fold: fold for fold in result.folds}
    if unknown := [number for number in chosen or () if number not in folds]:
        raise ConfigError(f"folds={chosen}: the result has no fold {unknown[0]}; it has {sorted(folds)}")
    found = [folds[number] for number in (folds if chosen is None else chosen)]
    if lost := [fold.fold for fold in found if fold.path is None]:
        raise ConfigError(f"fold {lost[0]} of the result has no folder, so its network is not kept")
    return [Path(str(fold.path)) for fold in found]


def _of_run(path: Path, chosen: Sequence[int] | None) -> dict[int, Path]:
    found = fold_folders(path)
    if not found:
        raise ConfigError(f"there is no network in {str(path)!r}: no fold of the run has a checkpoint")
    if missing := [number for number in chosen or () if number not in found]:
        raise ConfigError(
            f"folds={chosen}: the run {str(path)!r} has no checkpoint of fold {missing[0]}; it has {sorted(found)}"
        )
    return {number: found[number] for number in (found if chosen is None else chosen)}


def _stored(folder: Path) -> Mapping[str, Any]:
    """What the file of an ensemble says."""
    try:
        content = unsealed(parse_json(read_bytes(folder / FILE)))
        if content["format"] != FORMAT:
            raise CheckpointError(
                f"{folder / FILE} has the format {content['format']!r}; this version of delira reads {FORMAT}"
            )
        return {name: content[name] for name in ("members", "weights", "combine", "spread")}
    except (LookupError, TypeError, ValueError) as error:
        raise CheckpointError(f"{folder / FILE} is damaged: {error}") from error


def _members_in(folder: Path) -> dict[str, Path]:
    """The checkpoints of an ensemble that was saved."""
    found = {}
    for member in _stored(folder)["members"]:
        path = folder / str(member["checkpoint"])
        if folder.resolve() not in path.resolve().parents:
            raise CheckpointError(f"{folder / FILE} names {str(path)!r}, which is outside of its folder")
        if not path.is_file():
            raise CheckpointError(f"the member {member['name']!r} of the ensemble {str(folder)!r} is missing: {path}")
        found[str(member["name"])] = path
    return found
