"""An experiment as a readable file: names and plain values, nothing that is executed."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from delira.errors import ConfigError
from delira.experiments.parameters import Parameters
from delira.utils import yaml_codec
from delira.utils.files import publish_text

#: name of the file in the folder of the experiment
FILE_NAME = "experiment.yml"


def save_arguments(path: Path, params: Parameters, arguments: Mapping[str, Any]) -> Path:
    """Write the arguments an experiment is built with.

    Parameters
    ----------
    path
        The file.
    params
        The parameters, in either hierarchy.
    arguments
        The other arguments by name; what is ``None`` is left out.
    """
    given = {name: value for name, value in arguments.items() if value is not None}
    parts = params.deepcopy().permute_variability_on_top()
    return publish_text(path, yaml_codec.dumps({**given, "params": dict(parts)}))


def load_arguments(path: str | Path, objects: Mapping[str, Any] | None) -> dict[str, Any]:
    """Read arguments written by :func:`save_arguments`.

    Parameters
    ----------
    path
        The file, or the folder that holds it.
    objects
        What names of the file stand for, where that is not imported yet.

    Raises
    ------
    ConfigError
        If the file is none of these.
    """
    path = Path(path)
    path = path / FILE_NAME if path.is_dir() else path
    tree = yaml_codec.loads(path.read_bytes(), objects)
    if not isinstance(tree, Mapping) or not {"model_cls", "params"} <= tree.keys():
        raise ConfigError(f"{path} is no experiment file; it was not written by Experiment.save")
    arguments = dict(tree)
    parts = arguments.pop("params")
    return {**arguments, "params": Parameters(parts["fixed"], parts["variable"])}
