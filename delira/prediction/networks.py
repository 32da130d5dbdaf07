"""Networks of runs: read from a folder or a checkpoint, with what was fitted to their inputs."""

import dataclasses
import functools
import inspect
import logging
from collections.abc import Collection, Iterable, Mapping
from pathlib import Path
from typing import Any

from delira import models
from delira.contract import Backend, Network
from delira.data_loading.transforms import FittedPreprocessing, attach
from delira.errors import CheckpointError, ConfigError, NetworkError, check_mappings, check_that, if_given, listed
from delira.experiments.preprocessing import load_preprocessing
from delira.frameworks import CHECKPOINTS
from delira.inference import Inference, SlidingWindow, TestTimeAugmentation, joined
from delira.io import checkpoint, container
from delira.metrics.tree.criteria import Criterion
from delira.runs import results
from delira.runs.folder import RunFolder
from delira.runs.stored_run import read_run
from delira.training.outputs import read_outputs
from delira.training.predictor import Predictor
from delira.utils import references, yaml_codec
from delira.utils.files import as_path, mapping, parse_json
from delira.utils.frameworks import backend_named, find_backend

_log = logging.getLogger("delira")

MANIFEST = "manifest.json"
#: endings of what lies beside checkpoints for other programs
_BESIDE = (".ptj", ".safetensors")
#: names under which a training ends, those first that it would go on with as the best
_LAST = ("best", "last")


@dataclasses.dataclass(frozen=True, kw_only=True)
class StoredNetwork:
    """What a checkpoint, and the folder of its fold, say of a network."""

    path: Path
    """The checkpoint."""
    tree: Mapping[str, Any]
    """What is in it."""
    network: Network
    """With its weights, in evaluation mode."""
    preprocessing: FittedPreprocessing | None
    """What was fitted on the training part of the fold."""

    @functools.cached_property
    def _predicts(self) -> Mapping[str, Any]:
        return mapping(self.tree.get("predicts"))  # older checkpoints have none

    @property
    def inputs(self) -> dict[str, tuple[int, ...]]:
        """Entry of a batch that the network reads -> shape of a sample that it learned from; empty: not known."""
        return {str(name): tuple(shape) for name, shape in mapping(self._predicts.get("inputs")).items()}

    @property
    def spacing(self) -> list[list[float]]:
        """Of the volumes that it learned from: the least and the largest along each axis, in mm; empty: not known."""
        return [[*map(float, row)] for row in self._predicts.get("spacing", ())]

    @property
    def outputs(self) -> dict[str, Criterion]:
        """What is known of the outputs by losses, settings, and what the training has seen of them."""
        known = {name: one for name, (_, one) in (read_outputs(self._predicts.get("outputs")) or {}).items()}
        told = mapping(mapping(self.tree.get("state")).get("outputs"))
        seen = {name: mapping(one).get("output") for name, one in told.items()}
        return {name: one if one.output else one._replace(output=seen.get(name)) for name, one in known.items()}

    @property
    def inference(self) -> Inference | None:
        """How the validation of its training predicted; None: batches went through the network as they are."""
        written = self._predicts.get("inference")
        if not isinstance(written, str):
            return None
        ways = yaml_codec.decode(
            parse_json(written), {one.__name__: one for one in (SlidingWindow, TestTimeAugmentation)}
        )
        if unresolved := yaml_codec.find_unresolved({"inference": ways}):
            cures = "; ".join(references.cure(one) for one in unresolved.values())
            raise ConfigError(
                f"{self.path}: how its validation predicted is not known ({cures}); say inference= and tta="
            )
        way, tta = ways
        return joined(tta, way)

    def predictor(self) -> Predictor:
        """What predicts with it."""
        key_mapping = mapping(self._predicts.get("key_mapping")) or None
        return Predictor(self.network, key_mapping, preprocessing=self.preprocessing)


def load_network(
    path: str | Path,
    objects: Mapping[str, Any] | None = None,
    *,
    network: Network = None,
    trusted: Iterable[Any] = (),
) -> Any:
    """Make the network of a run again, with the weights that were tested, or would be.

    Its class and arguments are in the checkpoint; the class is looked up, nothing of the file is executed. What was
    fitted to its inputs (``preprocessing=``) comes with it, and is done by whatever predicts with it.

    Parameters
    ----------
    path
        A run folder with one fold, the folder of a fold, or a checkpoint file.
    objects
        Classes and functions by name, ``{"Net": Net}``, where they are not imported under their names. What was
        fitted to inputs may be made of them, too.
    network
        One that was made already, and gets the weights: for modules whose arguments nobody has kept.
    trusted
        As of :func:`delira.training.load_preprocessing`.

    Returns
    -------
    AbstractNetwork
        In evaluation mode, on the CPU.

    Raises
    ------
    ConfigError
        If there is no such run or checkpoint, or several folds, or the class or an argument is not found.
    CheckpointError
        If the file is damaged, or its weights do not fit.
    """
    return read_network(path, objects, network=network, trusted=trusted).network


def read_network(
    path: str | Path,
    objects: Mapping[str, Any] | None = None,
    *,
    network: Network = None,
    trusted: Iterable[Any] = (),
) -> StoredNetwork:
    """Read a network and what is known of it; see :func:`load_network`."""
    check_mappings("load_network", **if_given(objects=objects))
    check_that(isinstance(trusted, Iterable), "load_network", "trusted is a list of names or classes", trusted)
    trusted = [*trusted, *(one for one in (objects or {}).values() if hasattr(one, "__qualname__"))]
    given = as_path(path, "path")
    file = given if given.is_file() else _chosen(_fold_of(given))
    container.verify_zip(file)
    backend = _backend_of(file)
    tree = container.read_tree(file) if backend is None else backend.checkpoints.read(file)
    checkpoint.check_format(file, tree)
    made = _made(file, tree, objects, trusted) if network is None else network
    backend = find_backend(made)
    backend.checkpoints.load_state_tree({"model": tree["model"]}, made, {})
    backend.calls.set_evaluating(made)
    fitted = None
    folder = file.parent.parent if file.parent.name == "checkpoints" else file.parent
    if (folder / results.PREPROCESSING).is_file():
        fitted = load_preprocessing(folder, trusted)
        attach(made, fitted)
    return StoredNetwork(path=file, tree=tree, network=made, preprocessing=fitted)


def fold_folders(path: str | Path) -> dict[int, Path]:
    """The folders of the folds of a run, by number.

    Parameters
    ----------
    path
        Of the run, or the folder above it: then its newest run; of a fold, which is the only one then.

    Raises
    ------
    ConfigError
        If it is a learning curve, whose networks are no folds of one cross-validation.
    """
    run, here = read_run(path), Path(path).resolve()
    found = run.fold_folders
    # the folder of a fold stands for itself alone, also where its checkpoints are gone
    own = {number: folder for number, folder in found.items() if folder.resolve() in (here, *here.parents)}
    if run.kind == "learning_curve" and not own:
        raise ConfigError(
            f"{run.path} is a learning curve, whose networks learned from different numbers of cases; take one size, "
            "LearningCurve.load(path).at(size).ensemble(), or name one fold"
        )
    if not own:  # the network of a bootstrap that learned from all cases is none of the folds
        found = {number: folder for number, folder in found.items() if number != run.apparent}
    return {number: folder for number, folder in (own or found).items() if _checkpoints(folder)}


def _fold_of(path: Path) -> Path:
    """The folder of a fold, of whatever a user has at hand."""
    if path.name == "checkpoints" and path.is_dir():
        path = path.parent
    if (path / "checkpoints").is_dir():
        return path
    if not path.exists():
        raise ConfigError(f"there is no run, fold or checkpoint {str(path)!r}")
    folds = fold_folders(path)
    if len(folds) == 1:
        return next(iter(folds.values()))
    if not folds:
        raise ConfigError(f"there is no network in {str(path)!r}: no fold of the run has a checkpoint")
    names = listed([folder.name for folder in folds.values()], 5)
    first = next(iter(folds.values()))
    raise ConfigError(
        f"the run {str(first.parent)!r} has a network for each fold ({names}); name one, e.g. {str(first)!r}, or take "
        "all of them as one model: delira.load_ensemble(path)"
    )


def _checkpoints(folder: Path) -> dict[str, Path]:
    """The checkpoints of a fold, by name."""
    found = [path for path in sorted((folder / "checkpoints").glob("checkpoint_*")) if path.is_file()]
    named: dict[str, Path] = {}
    for path in found:
        ending = _ending_of(path)
        is_beside = any(path.name.endswith(one) for one in (".damaged", *_BESIDE))
        if not is_beside:
            named.setdefault(path.name.removeprefix("checkpoint_").removesuffix(ending), path)
    return named


def _ending_of(path: Path) -> str:
    return next((one for one in CHECKPOINTS if path.name.endswith(one)), path.suffix)


def _backend_of(file: Path) -> Backend | None:
    """The backend whose files end so; None: the common container."""
    name = CHECKPOINTS.get(_ending_of(file))
    backend: Backend | None = None if name is None else backend_named(name)
    return backend


def _chosen(folder: Path) -> Path:
    """The checkpoint with the weights that were tested, as far as anybody knows; else the best; else the last."""
    found = _checkpoints(folder)
    if not found:
        raise ConfigError(f"there is no checkpoint in {str(folder)!r}")
    return next((found[name] for name in _LAST if name in found), next(reversed(found.values())))


def _made(file: Path, tree: Mapping[str, Any], objects: Mapping[str, Any] | None, trusted: Iterable[Any]) -> Network:
    """A network of the class and the arguments that a checkpoint, and the manifest of its run, name."""
    described = mapping(tree.get("network"))
    name = described.get("class")
    if not isinstance(name, str):
        raise CheckpointError(f"{file} does not say of which class its network is; pass network=, made by yourself")
    module, _, qualname = name.partition(":")
    if module.startswith("delira.") and qualname in models.__all__:
        getattr(models, qualname)  # a ready network is imported by delira; what else a file names, never
    cls = references.find(name, objects)
    if not isinstance(cls, type):
        short = qualname.rpartition(".")[2]
        raise ConfigError(
            f"{file} is of the network {qualname} of the module {module}, which is not imported; import it before (for "
            f"a command: --import {'SCRIPT.py' if module == '__main__' else module}), or pass objects={{{short!r}: "
            f"{short}}}"
        )
    written = described.get("arguments")  # older checkpoints have plain ones alone
    own = mapping(parse_json(written) if isinstance(written, str) else described.get("init_kwargs"))
    # what an experiment has called the class with, also where that hands nothing on to delira
    called = model_params(file)
    given = yaml_codec.decode({**(called or {}), **own}, objects)
    try:
        backend = find_backend(cls)
    except NetworkError as error:
        raise CheckpointError(f"{file} says that its network is of {name}, which is no class of networks") from error
    arguments = backend.checkpoints.arguments(tree, given, trusted)
    if called is not None:
        arguments = _of_class(cls, arguments, called.keys() & own.keys())
    if unresolved := yaml_codec.find_unresolved(arguments):
        cures = "; ".join(f"for {key!r}: {references.cure(one)}" for key, one in unresolved.items())
        raise ConfigError(
            f"{file}: arguments of {qualname} are not known ({cures}); or pass network=, made by yourself"
        )
    if not arguments and (lacking := _optional(cls)):
        _log.warning(
            "%s keeps no arguments of the network %s, so it is made with the defaults of %s; a network hands its "
            "arguments on: super().__init__(%s)", file, qualname, ", ".join(lacking),
            ", ".join(f"{one}={one}" for one in lacking),
        )  # fmt: skip
    try:
        return cls(**arguments)
    except TypeError as error:
        error.add_note(
            f"while {qualname} was made of the arguments {arguments!r:.200} that {file} has; a network hands all of "
            "its arguments on: super().__init__(**arguments). Else pass network=, made by yourself"
        )
        raise


def _of_class(cls: type, arguments: Mapping[str, Any], agreed: Collection[str]) -> dict[str, Any]:
    """Arguments without those that a class does not take, unless it was called with them and has kept them.

    What the experiment or the network alone names may be of a class beneath: of an estimator in its network, or of a
    base class that was made by a class with other arguments.
    """
    parameters = inspect.signature(cls).parameters.values()
    if any(one.kind is one.VAR_KEYWORD for one in parameters):
        return dict(arguments)
    known = {*agreed, *(one.name for one in parameters)}
    return {name: value for name, value in arguments.items() if name in known}


def model_params(file: Path) -> Mapping[str, Any] | None:
    """What the manifest of a run says of the arguments of its networks; None: nothing."""
    parents = [parent for parent in file.absolute().parents[:3] if (parent / MANIFEST).is_file()]
    if not parents:
        return None
    called = RunFolder(parents[0]).read_manifest().get("model_params")
    return None if called is None else mapping(called)


def _optional(cls: type) -> list[str]:
    """Arguments of a class that have defaults."""
    parameters = [*inspect.signature(cls).parameters.values()]
    return [one.name for one in parameters if one.default is not one.empty]
