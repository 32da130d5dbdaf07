"""``delira new``: a starter project of data, network, script and test."""

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import delira
from delira.cli.output import Answer
from delira.errors import ConfigError
from delira.utils.files import publish_text, writable_folder
from delira.utils.optional import import_optional

_PYTORCH = {"optimizer_cls": "torch.optim.Adam", "optimizer_params": '{"lr": 2e-3}'}
#: what the script of a backend says, besides what all say
_BACKENDS: dict[str, dict[str, Any]] = {
    "torch": {
        "title": "PyTorch",
        "experiment": "PyTorchExperiment",
        "third_party": ["import torch"],
        "classification": {"losses": '{"ce": torch.nn.CrossEntropyLoss()}', **_PYTORCH},
        "segmentation": {"losses": '{"dice_ce": DiceCELossPyTorch()}', **_PYTORCH},
    },
    "torchscript": {
        "title": "TorchScript",
        "experiment": "TorchScriptExperiment",
        "third_party": ["import torch"],
        "classification": {"losses": '{"ce": cross_entropy}', **_PYTORCH},
        "segmentation": {"losses": '{"ce": cross_entropy}', **_PYTORCH},
    },
    "tensorflow": {
        "title": "TensorFlow",
        "experiment": "TfExperiment",
        "third_party": ["import keras"],
        "classification": {
            "losses": '{"ce": keras.losses.SparseCategoricalCrossentropy(from_logits=True)}',
            "optimizer_cls": "keras.optimizers.Adam",
            "optimizer_params": '{"learning_rate": 2e-3}',
        },
        "segmentation": {
            "losses": '{"dice_ce": DiceCELossTf()}',
            "optimizer_cls": "keras.optimizers.Adam",
            "optimizer_params": '{"learning_rate": 2e-3}',
        },
    },
    "jax": {
        "title": "JAX",
        "experiment": "JaxExperiment",
        "third_party": ["import optax"],
        "classification": {
            "losses": '{"ce": cross_entropy}',
            "optimizer_cls": "optax.adam",
            "optimizer_params": '{"learning_rate": 2e-3}',
        },
        "segmentation": {
            "losses": '{"dice_ce": DiceCELossJax()}',
            "optimizer_cls": "optax.adam",
            "optimizer_params": '{"learning_rate": 2e-3}',
        },
    },
    "sklearn": {
        "title": "scikit-learn",
        "experiment": "SklearnExperiment",
        "third_party": [],
        "classification": {},
    },
}
_TASKS: dict[str, dict[str, Any]] = {
    "classification": {
        "data": "handwritten digits that scikit-learn brings",
        "metric": "accuracy",
        "model": '{"n_features": 64, "n_hidden": 128, "n_classes": 10}',
        "splits": 'split_type="stratified"',
        "epochs": 20,
        "n_few": 100,
    },
    "segmentation": {
        "data": "discs in noise, which are made up",
        "metric": "dice",
        "model": '{"num_classes": 2, "depth": 2, "start_filts": 8}',
        "splits": 'groups_key="patient"',
        "epochs": 10,
        "n_few": 12,
    },
}


def create_project(name: str | Path, backend: str, task: str = "classification") -> Answer:
    """Write the files of a project into a new folder.

    Parameters
    ----------
    name
        The folder; its last part is the name of the experiment.
    backend
        The backend.
    task
        ``"classification"`` or ``"segmentation"``.

    Raises
    ------
    ConfigError
        If the folder holds files, the name is no name, or the backend does not offer the task.
    """
    folder = Path(name)
    if not re.fullmatch(r"[A-Za-z0-9][\w.-]*", folder.name):
        raise ConfigError(f"{str(name)!r} is no name of a project; use letters, digits, '-' and '_'")
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise ConfigError(f"{str(folder)!r} exists already and is not empty; choose another name")
    texts = render(folder.name, backend, task)
    writable_folder(folder)
    for file, text in texts.items():
        publish_text(folder / file, text, durable=False)
    steps = [f"cd {folder}", "pip install -r requirements.txt", "python -m pytest", "python train.py"]
    listed = "\n".join(f"  {folder / file}" for file in texts)
    following = "\n".join(f"  {step}" for step in steps)
    content = {"folder": str(folder), "backend": backend, "task": task, "files": list(texts), "next": steps}
    return Answer(content, f"{listed}\n\nnext:\n{following}")


def render(name: str, backend: str, task: str) -> dict[str, str]:
    """Return the files of a project, by name.

    Raises
    ------
    ConfigError
        If the backend does not offer the task.
    """
    jinja2 = import_optional("jinja2", "delira new", "jinja2")
    if task not in _BACKENDS[backend]:
        raise ConfigError(f"a {task} needs a network, and {backend!r} has none; use torch, tensorflow or jax")
    environment = jinja2.Environment(
        loader=jinja2.PackageLoader("delira.cli"), undefined=jinja2.StrictUndefined, trim_blocks=True,
        lstrip_blocks=True, keep_trailing_newline=True, autoescape=False,  # noqa: S701, RUF100 - Python and Markdown, no HTML
    )  # fmt: skip
    facts = _facts(name, backend, task)
    templates = {
        "README.md": "README.md.j2",
        "dataset.py": f"dataset_{task}.py.j2",
        "network.py": f"network_{backend}.py.j2",
        "train.py": "train.py.j2",
        "test_project.py": "test_project.py.j2",
        "requirements.txt": "requirements.txt.j2",
        ".gitignore": "gitignore.j2",
    }
    return {file: environment.get_template(template).render(facts) for file, template in templates.items()}


def _facts(name: str, backend: str, task: str) -> Mapping[str, Any]:
    facts, kind = _BACKENDS[backend], _TASKS[task]
    settings, metric = facts[task], kind["metric"]
    training = dict(settings) if backend == "sklearn" else {"num_epochs": kind["epochs"], **settings}
    training["val_metrics"] = f'{{"{metric}": {metric}}}'
    losses = settings.get("losses", "")
    if backend != "sklearn":
        training |= {"val_score_key": f'"{metric}"', "val_score_mode": '"max"'}
    imported = [word for word in ("DiceCELossPyTorch", "DiceCELossTf", "DiceCELossJax") if word in losses]
    rate = "lr" if "torch" in backend else "learning_rate"
    return {
        **kind,
        "version": delira.__version__,  # without one, pip takes the older library of this name
        "name": name,
        "backend": backend,
        "task": task,
        "title": facts["title"],
        "experiment": facts["experiment"],
        "third_party": facts["third_party"],
        "own": [f"from delira.training.losses import {word}" for word in imported],
        "from_network": "Network, cross_entropy" if "cross_entropy" in losses else "Network",
        "model": '{"n_trees": 100, "max_depth": 20}' if backend == "sklearn" else kind["model"],
        "training": list(training.items()),
        "example": "--n_trees 300" if backend == "sklearn" else f"--{rate} 1e-3 --num_epochs 30",
    }
