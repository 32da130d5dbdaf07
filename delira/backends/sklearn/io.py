"""Checkpoints of scikit-learn estimators outside of a training."""

from pathlib import Path
from typing import Any

from delira.backends.sklearn.backend import BACKEND
from delira.backends.sklearn.network import SklearnEstimator
from delira.errors import CheckpointError
from delira.io.checkpoint import check_format
from delira.io.container import check_model, check_saved, verify_zip
from delira.utils.files import as_path, as_target, publish

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
