"""``delira new``: a starter project of data, network, script and test."""

import argparse
import re
from pathlib import Path
from typing import Any

import delira
from delira.cli.output import Answer
from delira.errors import ConfigError, import_optional
from delira.utils.files import publish_text, writable_folder

_CROSS_ENTROPY = '{"ce": cross_entropy}'
_TORCH = {"optimizer_cls": "torch.optim.Adam", "optimizer_params": '{"lr": 2e-3}'}
_KERAS = {"optimizer_cls": "keras.optimizers.Adam", "optimizer_params": '{"learning_rate": 2e-3}'}
_OPTAX = {"optimizer_cls": "optax.adam", "optimizer_params": '{"learning_rate": 2e-3}'}
#: backend -> its name, class of experiments, what is imported, and optimizer
_BACKENDS: dict[str, tuple[str, str, list[str], dict[str, str]]] = {
    "torch": ("PyTorch", "PyTorchExperiment", ["import torch"], _TORCH),
    "torchscript": ("TorchScript", "TorchScriptExperiment", ["import torch"], _TORCH),
    "tensorflow": ("TensorFlow", "TfExperiment", ["import keras"], _KERAS),
    "jax": ("JAX", "JaxExperiment", ["import optax"], _OPTAX),
    "sklearn": ("scikit-learn", "SklearnExperiment", [], {}),
}
#: task -> the backends that offer it, each with its losses
_LOSSES: dict[str, dict[str, str]] = {
    "classification": {
        "torch": '{"ce": torch.nn.CrossEntropyLoss()}',
        "torchscript": _CROSS_ENTROPY,
        "tensorflow": '{"ce": keras.losses.SparseCategoricalCrossentropy(from_logits=True)}',
        "jax": _CROSS_ENTROPY,
        "sklearn": "",
    },
    "segmentation": {
        "torch": '{"dice_ce": DiceCELossPyTorch()}',
        "torchscript": _CROSS_ENTROPY,
        "tensorflow": '{"dice_ce": DiceCELossTf()}',
        "jax": '{"dice_ce": DiceCELossJax()}',
    },
}
_TASKS: dict[str, dict[str, Any]] = {
    "classification": {
        "data": "handwritten digits that scikit-learn brings", "metric": "accuracy", "epochs": 20, "n_few": 100,
        "model": '{"n_features": 64, "n_hidden": 128, "n_classes": 10}', "splits": 'split_type="stratified"',
    },
    "segmentation": {
        "data": "discs in noise, which are made up", "metric": "dice", "epochs": 10, "n_few": 12,
        "model": '{"num_classes": 2, "depth": 2, "start_filts": 8}', "splits": 'groups_key="patient"',
    },
}  # fmt: skip


def run(options: argparse.Namespace) -> Answer:
    """Write the files of a project into a new folder.

    Parameters
    ----------
    options
        ``name``: the folder, whose last part is the name of the experiment; ``backend``; ``task``:
        ``"classification"`` or ``"segmentation"``.

    Raises
    ------
    ConfigError
        If the folder holds files, the name is no name, or the backend does not offer the task.
    """
    folder, backend, task = Path(options.name), options.backend, options.task
    if not re.fullmatch(r"[A-Za-z0-9][\w.-]*", folder.name):
        raise ConfigError(f"{options.name!r} is no name of a project; use letters, digits, '-' and '_'")
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
    title, experiment, third_party, optimizer = _BACKENDS[backend]
    if backend not in _LOSSES.get(task, {}):
        raise ConfigError(f"a {task} needs a network, and {backend!r} has none; use torch, tensorflow or jax")
    environment = jinja2.Environment(
        loader=jinja2.PackageLoader("delira.cli"), undefined=jinja2.StrictUndefined, trim_blocks=True,
        lstrip_blocks=True, keep_trailing_newline=True, autoescape=False,  # noqa: S701, RUF100 - Python and Markdown, no HTML
    )  # fmt: skip
    kind, loss = _TASKS[task], _LOSSES[task][backend]
    metric, imported = kind["metric"], re.findall(r"DiceCELoss\w+", loss)
    training = {"val_metrics": f'{{"{metric}": {metric}}}'}
    facts = {
        **kind,
        "version": delira.__version__,  # without one, pip takes the older library of this name
        "name": name,
        "backend": backend,
        "task": task,
        "title": title,
        "experiment": experiment,
        "third_party": third_party,
        "own": [f"from delira.training.losses import {word}" for word in imported],
        "from_network": "Network, cross_entropy" if loss == _CROSS_ENTROPY else "Network",
    }
    if backend == "sklearn":
        facts |= {"model": '{"n_trees": 100, "max_depth": 20}', "example": "--n_trees 300"}
    else:
        training = {"num_epochs": kind["epochs"], "losses": loss, **optimizer, **training}
        training |= {"val_score_key": f'"{metric}"', "val_score_mode": '"max"'}
        facts["example"] = f"--{'lr' if 'torch' in backend else 'learning_rate'} 1e-3 --num_epochs 30"
    facts["training"] = list(training.items())
    templates = {"dataset.py": f"dataset_{task}.py", "network.py": f"network_{backend}.py", ".gitignore": "gitignore"}
    files = "README.md", "dataset.py", "network.py", "train.py", "test_project.py", "requirements.txt", ".gitignore"
    return {file: environment.get_template(f"{templates.get(file, file)}.j2").render(facts) for file in files}
